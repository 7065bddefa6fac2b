package operator

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/open-policy-agent/cert-controller/pkg/rotator"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Certificates keeps the certificate of admission: made on the first start,
// renewed before it ends, its CA in both webhook configurations.
type Certificates struct {
	// Secret and Service are names of what the installation made, in the
	// operator's own namespace.
	Secret, Service string
	// Configuration is the name of both webhook configurations.
	Configuration string
	// Dir is a writable folder. The rotator looks there for the certificate.
	Dir string

	namespace string
	current   atomic.Pointer[tls.Certificate]
	ready     chan struct{}
}

// manage adds to the manager what keeps the certificate, on every replica.
func (c *Certificates) manage(mgr manager.Manager, namespace string) error {
	c.namespace, c.ready = namespace, make(chan struct{})
	// The manager's client would start a watch of all Secrets for its writes'
	// sake; the rotator has a cache of its own.
	direct, err := client.New(mgr.GetConfig(), client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient()})
	if err != nil {
		return fmt.Errorf("making the certificates' client: %w", err)
	}
	dns := c.Service + "." + namespace + ".svc"
	err = rotator.AddRotator(managerWithClient{mgr, direct}, &rotator.CertRotator{
		SecretKey:      types.NamespacedName{Namespace: namespace, Name: c.Secret},
		CertDir:        c.Dir,
		CAName:         "platform-operator-ca",
		CAOrganization: "platform-operator",
		DNSName:        dns,
		ExtraDNSNames:  []string{dns + ".cluster.local"},
		IsReady:        c.ready,
		FieldOwner:     "platform-operator-certificates",
		Webhooks: []rotator.WebhookInfo{
			{Name: c.Configuration, Type: rotator.Validating},
			{Name: c.Configuration, Type: rotator.Mutating},
		},
	})
	if err != nil {
		return fmt.Errorf("adding the certificate rotator: %w", err)
	}
	return mgr.Add(&certificateReader{mgr: mgr, c: c})
}

// get is the certificate that the webhook server shows.
func (c *Certificates) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if cert := c.current.Load(); cert != nil {
		return cert, nil
	}
	return nil, errors.New("there is no certificate yet")
}

// check is a readiness check: admission can be called once the certificate is
// there and its CA is where the API server looks for it.
func (c *Certificates) check(*http.Request) error {
	select {
	case <-c.ready:
		return nil
	default:
		return errors.New("the certificate of admission is not in place yet")
	}
}

// managerWithClient is a manager whose client is another.
type managerWithClient struct {
	manager.Manager
	client client.Client
}

// GetClient returns that client.
func (m managerWithClient) GetClient() client.Client { return m.client }

// certificateReader takes the certificate from the Secret as soon as it
// changes. A mounted Secret would bring it a minute later, and for that minute
// after an installation nothing could be created.
type certificateReader struct {
	mgr manager.Manager
	c   *Certificates
}

// NeedLeaderElection says no: every replica serves admission.
func (f *certificateReader) NeedLeaderElection() bool { return false }

// Start watches the one Secret until the manager stops.
func (f *certificateReader) Start(ctx context.Context) error {
	if err := os.MkdirAll(f.c.Dir, 0o700); err != nil {
		return fmt.Errorf("making the folder for certificates: %w", err)
	}
	one, err := cache.New(f.mgr.GetConfig(), cache.Options{
		Scheme: f.mgr.GetScheme(), Mapper: f.mgr.GetRESTMapper(), HTTPClient: f.mgr.GetHTTPClient(),
		ByObject: map[client.Object]cache.ByObject{&corev1.Secret{}: {
			Namespaces: map[string]cache.Config{f.c.namespace: {FieldSelector: fields.OneTermEqualSelector("metadata.name", f.c.Secret)}},
		}},
	})
	if err != nil {
		return fmt.Errorf("making the cache for the certificate: %w", err)
	}
	informer, err := one.GetInformer(ctx, &corev1.Secret{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watching the certificate's Secret: %w", err)
	}
	take := func(o any) {
		if s, ok := o.(*corev1.Secret); ok {
			if err := f.take(s); err != nil {
				log.FromContext(ctx).Error(err, "Failed to take the certificate", "secret", s.Name)
			}
		}
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    take,
		UpdateFunc: func(_, o any) { take(o) },
	}); err != nil {
		return fmt.Errorf("watching the certificate's Secret: %w", err)
	}
	return one.Start(ctx)
}

func (f *certificateReader) take(s *corev1.Secret) error {
	certPEM, keyPEM := s.Data[corev1.TLSCertKey], s.Data[corev1.TLSPrivateKeyKey]
	if len(certPEM) == 0 || len(keyPEM) == 0 {
		return nil // an installation makes it empty
	}
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return fmt.Errorf("reading the certificate: %w", err)
	}
	f.c.current.Store(&cert)
	// The rotator waits for the file that a mounted Secret would be. It is the
	// certificate alone: the key stays in memory.
	file := filepath.Join(f.c.Dir, corev1.TLSCertKey)
	if err := os.WriteFile(file, certPEM, 0o600); err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	return nil
}
