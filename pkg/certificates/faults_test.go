//go:build envtest

package certificates_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/controllers"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/testkit"
)

// callsWebhook is the prefix of errors that the validating webhook causes. The
// mutating one, which is called first, is not called for most changes.
const callsWebhook = `failed calling webhook "validate.webservers.my.domain"`

// authority is a CA of the test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	a := authority{}
	a.cert, a.key, a.pem = issue(t, &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, a, time.Hour)
	return a
}

// serving returns a certificate for localhost with a limited validity.
func (a authority) serving(t *testing.T, ends time.Duration) *tls.Config {
	t.Helper()
	cert, key, _ := issue(t, &x509.Certificate{DNSNames: []string{"localhost"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, a, ends)
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{{Certificate: [][]byte{cert.Raw}, PrivateKey: key}}}
}

func issue(t *testing.T, template *x509.Certificate, by authority, ends time.Duration) (*x509.Certificate, *ecdsa.PrivateKey, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.NotBefore, template.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(ends)
	if by.cert == nil {
		by.cert, by.key = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by.cert, key.Public(), by.key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// TestWebhook_Failures checks that with any failure of admission, existing
// objects keep working without admission requests, and that requests that must
// be validated are rejected with the reason.
func TestWebhook_Failures(t *testing.T) {
	// None of the other parallel tests creates a WebServer: asked counts those of all.
	t.Parallel()
	ours, theirs := newAuthority(t), newAuthority(t)
	serve := func(config *tls.Config, h http.HandlerFunc) func(*testing.T) string {
		return func(t *testing.T) string {
			t.Helper()
			server := httptest.NewUnstartedServer(h)
			if server.TLS = config; config != nil {
				server.StartTLS()
			} else {
				server.Start()
			}
			t.Cleanup(server.Close)
			return fmt.Sprintf("localhost:%d", server.Listener.Addr().(*net.TCPAddr).Port)
		}
	}
	// The server does not notice that its client closed the connection before
	// it has read the whole request, and closing the server waits for the
	// handler.
	silent := func(t *testing.T) string {
		t.Helper()
		return serve(ours.serving(t, time.Hour), func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-t.Context().Done():
			}
		})(t)
	}
	never := func(http.ResponseWriter, *http.Request) { t.Error("a handshake succeeded that must not") }

	s := newSite(t, "localhost:1")
	for _, o := range s.configurations() {
		for _, seconds := range timeoutsOf(o) {
			if *seconds != 5 {
				t.Errorf("%T has a webhook with a timeout of %d s, want 5", o, *seconds)
			}
		}
	}
	op, err := env.Run(t.Context(), testkit.Subject{
		Children: controllers.Children(config.Default()),
		Setup: func(mgr manager.Manager, a *apply.Applier) error {
			return controllers.Setup(mgr, a, config.Default())
		},
	}, nil, s.namespace)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(op.Cancel)

	for name, tc := range map[string]struct {
		listen func(*testing.T) string
		want   string
	}{
		"down":        {func(*testing.T) string { return "localhost:1" }, "connection refused"},
		"no answer":   {silent, "context deadline exceeded"},
		"answers 500": {serve(ours.serving(t, time.Hour), func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }), "an error on the server"},
		"no TLS":      {serve(nil, never), "server gave HTTP response to HTTPS client"},
		"expired":     {serve(ours.serving(t, -time.Hour), never), "certificate has expired"},
		"wrong CA":    {serve(theirs.serving(t, time.Hour), never), "certificate signed by unknown authority"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &site{T: t, namespace: s.namespace}
			slug := strings.ToLower(strings.ReplaceAll(name, " ", "-"))
			// Objects that were admitted before.
			s.callNobody()
			plain, orphaning := s.manifest("plain-"+slug, "Delete"), s.manifest("kept-"+slug, "Orphan")
			for _, m := range []*unstructured.Unstructured{plain, orphaning} {
				s.apply(m)
				s.reconciled(m.GetName())
			}

			address := tc.listen(t)
			s.callAt(address, ours.pem)
			change := func() error {
				return env.Admin.Patch(t.Context(), s.webServer(plain.GetName()), client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":5}}`)), client.DryRunAll)
			}
			// API servers observe a change of a configuration a moment later.
			s.eventually("the injected fault to take effect", func() error {
				err := change()
				switch {
				case err == nil:
					return errors.New("it was let in")
				case !strings.Contains(err.Error(), tc.want):
					return fmt.Errorf("not %q: %w", tc.want, err)
				}
				return nil
			})

			asked := s.asked()
			s.apply(plain) // unchanged
			s.damage(plain.GetName())
			s.forgetStatus(plain.GetName())
			s.reconciled(plain.GetName())
			s.deleted(orphaning.GetName())
			var left appsv1.Deployment
			if err := env.Admin.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: orphaning.GetName()}, &left); err != nil || len(left.OwnerReferences) > 0 {
				t.Errorf("policy Orphan left %v, %v", left.OwnerReferences, err)
			}
			if n := s.asked() - asked; n != 0 {
				t.Errorf("the webhook was called %d times for a status, a finalizer, a deletion, or nothing new", n)
			}

			err := change()
			if err == nil || !strings.Contains(err.Error(), callsWebhook) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("a changed spec: got %v, want %q and %q", err, callsWebhook, tc.want)
			}
			if n := s.asked() - asked; n == 0 {
				t.Error("the count of calls does not see calls")
			}
			s.deleted(plain.GetName())
			t.Logf("refused: %v", err)
		})
	}
}

func (s *site) manifest(name, policy string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"image": "nginx:1.23.1", "replicas": int64(2), "deletionPolicy": policy, "service": map[string]any{"type": "ClusterIP"},
	}}}
	u.SetAPIVersion("my.domain/v1")
	u.SetKind("WebServer")
	u.SetNamespace(s.namespace)
	u.SetName(name)
	if policy == "Orphan" {
		u.SetFinalizers([]string{naming.Finalizer}) // as the webhook does
	}
	return u
}

// apply applies an object as a user does, possibly without a change.
func (s *site) apply(u *unstructured.Unstructured) {
	s.Helper()
	if err := env.Admin.Apply(s.Context(), client.ApplyConfigurationFromUnstructured(u.DeepCopy()), client.FieldOwner("user"), client.ForceOwnership); err != nil {
		s.Fatalf("applying %s: %v", u.GetName(), err)
	}
}

func (s *site) webServer(name string) *webserverv1.WebServer {
	return &webserverv1.WebServer{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
}

// reconciled waits until an object's Deployment matches the spec and its status
// is up to date.
func (s *site) reconciled(name string) {
	s.Helper()
	key := client.ObjectKey{Namespace: s.namespace, Name: name}
	s.eventually(name+" to be reconciled", func() error {
		var d appsv1.Deployment
		w := s.webServer(name)
		if err := errors.Join(env.Admin.Get(s.Context(), key, &d), env.Admin.Get(s.Context(), key, w)); err != nil {
			return err
		}
		if *d.Spec.Replicas != 2 || len(w.Status.Conditions) == 0 || w.Status.ObservedGeneration != w.Generation {
			return fmt.Errorf("%d replicas, status %v", *d.Spec.Replicas, w.Status)
		}
		return nil
	})
}

// damage changes fields of a child that the operator applies.
func (s *site) damage(name string) {
	s.Helper()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
	if err := env.Admin.Patch(s.Context(), d, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":9}}`))); err != nil {
		s.Fatal(err)
	}
}

func (s *site) forgetStatus(name string) {
	s.Helper()
	s.eventually("a write of the status", func() error {
		w := s.webServer(name)
		if err := env.Admin.Get(s.Context(), client.ObjectKeyFromObject(w), w); err != nil {
			return err
		}
		before := w.DeepCopy()
		w.Status.Conditions = nil
		if equality.Semantic.DeepEqual(before, w) {
			return errors.New("there is no status yet")
		}
		return env.Admin.Status().Update(s.Context(), w)
	})
}

func (s *site) deleted(name string) {
	s.Helper()
	w := s.webServer(name)
	if err := env.Admin.Delete(s.Context(), w); err != nil {
		s.Fatal(err)
	}
	s.eventually(name+" to be gone", func() error {
		if err := env.Admin.Get(s.Context(), client.ObjectKeyFromObject(w), w); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is still there: %w", err)
		}
		return nil
	})
}

// callAt makes both configurations call an address, and trust a CA.
func (s *site) callAt(address string, bundle []byte) {
	s.Helper()
	for i := range s.configurations() {
		s.eventually("a configuration to be changed", func() error { // the keeper may write it at the same time
			o := s.configurations()[i]
			s.point(o, address, bundle)
			return env.Admin.Update(s.Context(), o)
		})
	}
}

// callNobody disables the webhooks, until callAt.
func (s *site) callNobody() {
	s.Helper()
	nowhere := &metav1.LabelSelector{MatchLabels: map[string]string{"no-namespace": "has-this"}}
	for _, o := range s.configurations() {
		switch c := o.(type) {
		case *admissionregistrationv1.ValidatingWebhookConfiguration:
			for i := range c.Webhooks {
				c.Webhooks[i].NamespaceSelector = nowhere
			}
		case *admissionregistrationv1.MutatingWebhookConfiguration:
			for i := range c.Webhooks {
				c.Webhooks[i].NamespaceSelector = nowhere
			}
		}
		if err := env.Admin.Update(s.Context(), o); err != nil {
			s.Fatal(err)
		}
	}
	s.eventually("admission to be off", func() error {
		return env.Admin.Create(s.Context(), &webserverv1.WebServer{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "probe"}, Spec: webserverv1.WebServerSpec{Image: "nginx:1.23.1"},
		}, client.DryRunAll)
	})
}

// asked returns how often the API server has called a webhook of WebServers,
// successfully or not, according to its metrics.
func (s *site) asked() int {
	s.Helper()
	c, err := kubernetes.NewForConfig(env.AdminConfig)
	if err != nil {
		s.Fatal(err)
	}
	raw, err := c.RESTClient().Get().AbsPath("/metrics").DoRaw(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	total := 0
	for line := range strings.Lines(string(raw)) {
		if !strings.HasPrefix(line, "apiserver_admission_webhook_request_total{") || !strings.Contains(line, "webservers.my.domain") {
			continue
		}
		n, err := strconv.Atoi(strings.TrimSpace(line[strings.LastIndex(line, " "):]))
		if err != nil {
			s.Fatal(err)
		}
		total += n
	}
	return total
}
