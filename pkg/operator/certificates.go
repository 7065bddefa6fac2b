package operator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

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

// Certificates says where the webhooks' certificate is kept and for whom it is.
type Certificates struct {
	// Namespace, Secret and Service are names of what the installation made.
	Namespace, Secret, Service string
	// Configuration is the name of both webhook configurations.
	Configuration string
	// Dir is where the webhook server reads the certificate.
	Dir string
}

// ManageCertificates makes the manager keep its webhooks' certificate: made on
// the first start, renewed before it ends, its CA in both webhook
// configurations. whenReady is called once, when admission can be served.
func ManageCertificates(mgr manager.Manager, c Certificates, whenReady func() error) error {
	// The manager's client would start a watch of all Secrets for its writes'
	// sake; the rotator has a cache of its own.
	direct, err := client.New(mgr.GetConfig(), client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient()})
	if err != nil {
		return fmt.Errorf("making the certificates' client: %w", err)
	}
	ready := make(chan struct{})
	dns := c.Service + "." + c.Namespace + ".svc"
	err = rotator.AddRotator(managerWithClient{mgr, direct}, &rotator.CertRotator{
		SecretKey:      types.NamespacedName{Namespace: c.Namespace, Name: c.Secret},
		CertDir:        c.Dir,
		CAName:         "platform-operator-ca",
		CAOrganization: "platform-operator",
		DNSName:        dns,
		ExtraDNSNames:  []string{dns + ".cluster.local"},
		IsReady:        ready,
		FieldOwner:     "platform-operator-certificates",
		Webhooks: []rotator.WebhookInfo{
			{Name: c.Configuration, Type: rotator.Validating},
			{Name: c.Configuration, Type: rotator.Mutating},
		},
	})
	if err != nil {
		return fmt.Errorf("adding the certificate rotator: %w", err)
	}
	if err := mgr.Add(&certificateFiles{mgr: mgr, c: c}); err != nil {
		return fmt.Errorf("adding the certificate files: %w", err)
	}
	return mgr.Add(everywhere(func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return nil
		case <-ready:
			return whenReady()
		}
	}))
}

// managerWithClient is a manager whose client is another.
type managerWithClient struct {
	manager.Manager
	client client.Client
}

// GetClient returns that client.
func (m managerWithClient) GetClient() client.Client { return m.client }

// everywhere runs on every replica, leader or not.
type everywhere func(context.Context) error

// Start runs it.
func (f everywhere) Start(ctx context.Context) error { return f(ctx) }

// NeedLeaderElection says no.
func (f everywhere) NeedLeaderElection() bool { return false }

// certificateFiles writes the Secret into files as soon as it changes. A
// mounted Secret would do the same a minute later, and for that minute after
// an installation nothing could be created.
type certificateFiles struct {
	mgr manager.Manager
	c   Certificates
}

// NeedLeaderElection says no: every replica serves admission.
func (f *certificateFiles) NeedLeaderElection() bool { return false }

// Start watches the one Secret until the manager stops.
func (f *certificateFiles) Start(ctx context.Context) error {
	if err := os.MkdirAll(f.c.Dir, 0o700); err != nil {
		return fmt.Errorf("making the folder for certificates: %w", err)
	}
	one, err := cache.New(f.mgr.GetConfig(), cache.Options{
		Scheme: f.mgr.GetScheme(), Mapper: f.mgr.GetRESTMapper(), HTTPClient: f.mgr.GetHTTPClient(),
		ByObject: map[client.Object]cache.ByObject{&corev1.Secret{}: {
			Namespaces: map[string]cache.Config{f.c.Namespace: {FieldSelector: fields.OneTermEqualSelector("metadata.name", f.c.Secret)}},
		}},
	})
	if err != nil {
		return fmt.Errorf("making the cache for the certificate: %w", err)
	}
	informer, err := one.GetInformer(ctx, &corev1.Secret{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watching the certificate's Secret: %w", err)
	}
	write := func(o any) {
		if s, ok := o.(*corev1.Secret); ok {
			if err := f.write(s); err != nil {
				log.FromContext(ctx).Error(err, "Failed to write the certificate", "secret", s.Name)
			}
		}
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    write,
		UpdateFunc: func(_, o any) { write(o) },
	}); err != nil {
		return fmt.Errorf("watching the certificate's Secret: %w", err)
	}
	return one.Start(ctx)
}

// write puts the key first: whoever watches the certificate finds its key.
func (f *certificateFiles) write(s *corev1.Secret) error {
	key, cert := s.Data[corev1.TLSPrivateKeyKey], s.Data[corev1.TLSCertKey]
	if len(key) == 0 || len(cert) == 0 {
		return nil
	}
	return errors.Join(
		replace(filepath.Join(f.c.Dir, corev1.TLSPrivateKeyKey), key),
		replace(filepath.Join(f.c.Dir, corev1.TLSCertKey), cert),
	)
}

// replace writes a file so that a reader finds the old or the new, never half.
func replace(path string, data []byte) error {
	next := path + ".next"
	if err := os.WriteFile(next, data, 0o600); err != nil {
		return fmt.Errorf("writing %s: %w", next, err)
	}
	if err := os.Rename(next, path); err != nil {
		return fmt.Errorf("replacing %s: %w", path, err)
	}
	return nil
}
