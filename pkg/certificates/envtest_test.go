//go:build envtest

package certificates_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/yaml"

	"github.com/platform-operator/platform-operator/apis/common"
	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/controllers"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/certificates"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/operator"
	"github.com/platform-operator/platform-operator/pkg/testkit"
	"github.com/platform-operator/platform-operator/webhooks"
)

// env is the API server of this package's tests.
var env *testkit.Env

func TestMain(m *testing.M) {
	testkit.MainWithOwnServer(m, "../..", controllers.AddToScheme, func(e *testkit.Env) { env = e })
}

// often are lifetimes with a certificate every 1.5 seconds and a CA every 3.
var often = certificates.Lifetimes{
	Validity: 20 * time.Second, RenewBefore: 18500 * time.Millisecond, CAValidity: 23 * time.Second, Overlap: 2400 * time.Millisecond,
}

const secretName = "cert"

// site is an installation: a namespace with the Secret, and both
// configurations, which apply only to that namespace.
type site struct {
	*testing.T
	namespace string // also the name of the configurations
	address   string // where the API server sends admission requests
	calls     atomic.Int64
}

// newSite installs the objects of config/webhook except for the Service, which
// the API server of a test cannot reach.
func newSite(t *testing.T, address string) *site {
	t.Helper()
	s := &site{T: t, namespace: env.NewNamespace(t), address: address}
	raw, err := os.ReadFile("../../config/webhook/manifests.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for doc := range strings.SplitSeq(string(raw), "\n---\n") {
		var o client.Object = &admissionregistrationv1.ValidatingWebhookConfiguration{}
		if strings.Contains(doc, "kind: MutatingWebhookConfiguration") {
			o = &admissionregistrationv1.MutatingWebhookConfiguration{}
		}
		if err := yaml.UnmarshalStrict([]byte(doc), o); err != nil {
			t.Fatal(err)
		}
		o.SetName(s.namespace)
		s.point(o, address, nil)
		if err := env.Admin.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = env.Admin.Delete(context.Background(), o) }) // the test's context has ended
	}
	return s
}

// point makes a configuration call another address.
func (s *site) point(o client.Object, address string, bundle []byte) {
	only := &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.namespace}}
	change := func(c *admissionregistrationv1.WebhookClientConfig, selector **metav1.LabelSelector) {
		path := ""
		if c.Service != nil {
			path = *c.Service.Path
		} else {
			_, path, _ = strings.Cut(strings.TrimPrefix(*c.URL, "https://"), "/")
			path = "/" + path
		}
		*c, *selector = admissionregistrationv1.WebhookClientConfig{URL: new("https://" + address + path), CABundle: bundle}, only
	}
	switch c := o.(type) {
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		for i := range c.Webhooks {
			change(&c.Webhooks[i].ClientConfig, &c.Webhooks[i].NamespaceSelector)
		}
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		for i := range c.Webhooks {
			change(&c.Webhooks[i].ClientConfig, &c.Webhooks[i].NamespaceSelector)
		}
	}
}

// configurations returns both live configurations.
func (s *site) configurations() []client.Object {
	s.Helper()
	both := []client.Object{&admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfiguration{}}
	for _, o := range both {
		if err := env.Admin.Get(s.Context(), client.ObjectKey{Name: s.namespace}, o); err != nil {
			s.Fatal(err)
		}
	}
	return both
}

// replica starts the webhook server of a replica, and waits until it is ready.
func (s *site) replica(cfg *rest.Config, r *certificates.Rotator) (address string, stop func()) {
	s.Helper()
	address = testkit.FreeAddress(s.T)
	bind, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		s.Fatal(err)
	}
	r.Secret, r.Configuration, r.Hosts = secretName, s.namespace, []string{"localhost"}
	mgr, err := operator.New(cfg, env.Scheme, operator.Options{
		Namespace: s.namespace, Watch: []string{s.namespace}, MetricsAddress: "0", ProbeAddress: "0", SkipNameValidation: true,
		Admission: r, WebhookPort: bind.Port,
	})
	if err != nil {
		s.Fatal(err)
	}
	if err := webhooks.Setup(handshakes{mgr, &s.calls}, config.Default(), nil); err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.Context())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			s.Error(err)
		}
	})
	s.Cleanup(stop)
	s.eventually("a replica that is ready", func() error {
		return errors.Join(r.Ready(nil), mgr.GetWebhookServer().StartedChecker()(nil))
	})
	return address, stop
}

func (s *site) eventually(what string, ok func() error) {
	s.Helper()
	if err := testkit.Eventually(s.Context(), what, func(context.Context) (bool, error) {
		err := ok()
		return err == nil, err
	}); err != nil {
		s.Fatal(err)
	}
}

// handshakes is a manager whose webhook server closes the connection after each
// call, because the certificate is only verified for a new connection.
type handshakes struct {
	manager.Manager
	calls *atomic.Int64
}

func (m handshakes) GetWebhookServer() webhook.Server {
	return closing{m.Manager.GetWebhookServer(), m.calls}
}

type closing struct {
	webhook.Server
	calls *atomic.Int64
}

func (s closing) Register(path string, hook http.Handler) {
	s.Server.Register(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.calls.Add(1)
		w.Header().Set("Connection", "close")
		hook.ServeHTTP(w, r)
	}))
}

// balance listens, and connects clients to the addresses in turn, as a Service
// does.
func balance(t *testing.T) (address string, to func(...string)) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	var behind atomic.Pointer[[]string]
	go func() {
		for i := 0; ; i++ {
			in, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer in.Close()
				all := behind.Load()
				if all == nil {
					return
				}
				out, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", (*all)[i%len(*all)])
				if err != nil {
					return
				}
				defer out.Close()
				go func() {
					_, _ = io.Copy(out, in)
					_ = out.(*net.TCPConn).CloseWrite()
				}()
				_, _ = io.Copy(in, out)
			}()
		}
	}()
	return fmt.Sprintf("localhost:%d", l.Addr().(*net.TCPAddr).Port), func(a ...string) { behind.Store(&a) }
}

// load sends admission requests concurrently while during runs. It returns how many
// objects were admitted, and how often each error occurred.
func (s *site) load(during func()) map[string]int {
	s.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	var ended atomic.Bool
	answers := map[string]int{}
	for worker := range 4 {
		wg.Go(func() {
			for n := 0; !ended.Load(); n++ {
				w := &webserverv1.WebServer{
					ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: fmt.Sprintf("web-%d-%d", worker, n)},
					Spec:       webserverv1.WebServerSpec{Image: "nginx:1.23.1"},
				}
				if worker%2 == 0 {
					w.Spec.DeletionPolicy = common.DeletionPolicyOrphan // calls the mutating webhook too
				}
				answer := "admitted"
				if err := env.Admin.Create(s.Context(), w, client.DryRunAll); err != nil {
					answer = strings.ReplaceAll(err.Error(), w.Name, "web")
				}
				mu.Lock()
				answers[answer]++
				mu.Unlock()
			}
		})
	}
	during()
	ended.Store(true)
	wg.Wait()
	return answers
}

func (s *site) secret() (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := env.Admin.Get(s.Context(), client.ObjectKey{Namespace: s.namespace, Name: secretName}, secret)
	return secret, err
}

// TestWebhook_NoCallFailsDuringRotation uses two replicas. Each call has a
// handshake of its own.
func TestWebhook_NoCallFailsDuringRotation(t *testing.T) {
	address, to := balance(t)
	s := newSite(t, address)
	first, _ := s.replica(env.AdminConfig, &certificates.Rotator{Lifetimes: often})
	second, _ := s.replica(env.AdminConfig, &certificates.Rotator{Lifetimes: often})
	to(first, second)
	certs, cas := map[string]bool{}, map[string]bool{}
	answers := s.load(func() {
		// On a busy machine the calls are few.
		for end := time.Now().Add(5 * time.Minute); (len(cas) < 3 || s.calls.Load() < 100) && time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			if secret, err := s.secret(); err == nil {
				certs[string(secret.Data["tls.crt"])], cas[string(secret.Data["ca.key"])] = true, true
			}
		}
	})
	t.Logf("%d calls; %d certificates of %d CAs; answers: %v", s.calls.Load(), len(certs), len(cas), answers)
	if len(answers) != 1 || answers["admitted"] == 0 {
		t.Errorf("not all were admitted: %v", answers)
	}
	if len(cas) < 3 || len(certs) < 4 || s.calls.Load() < 100 {
		t.Error("that shows nothing")
	}
}

// Version 0.1 of the chart could issue the certificate, which the operator only
// read. An upgrade removes it from the Secret, and keeps the CA bundles.
func TestWebhook_NoCallFailsWhenTheOperatorTakesOver(t *testing.T) {
	address, to := balance(t)
	s := newSite(t, address)
	_, stop := s.replica(env.AdminConfig, &certificates.Rotator{}) // as another issuer
	stop()
	before, _ := s.replica(env.AdminConfig, &certificates.Rotator{ReadOnly: true})
	to(before)
	answers := s.load(func() {
		secret, err := s.secret()
		if err != nil {
			t.Fatal(err)
		}
		secret.Data = nil
		if err := env.Admin.Update(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
		after, _ := s.replica(env.AdminConfig, &certificates.Rotator{})
		to(before, after)
		time.Sleep(time.Second)
		to(after)
		time.Sleep(time.Second)
	})
	t.Logf("%d calls; answers: %v", s.calls.Load(), answers)
	if len(answers) != 1 || answers["admitted"] == 0 || s.calls.Load() < 50 {
		t.Errorf("not all were admitted: %v", answers)
	}
}

// The permissions are those of the chart, restricted by name. They are sufficient
// to create and repair the Secret, and to restore the bundles, also of a
// configuration that did not exist.
func TestRotator_RepairsWithThePermissionsOfTheChart(t *testing.T) {
	t.Parallel()
	s := newSite(t, "localhost:1")
	mutating := s.configurations()[0]
	if err := env.Admin.Delete(t.Context(), mutating); err != nil {
		t.Fatal(err)
	}
	cfg := s.user("keeper", []string{"create", "get", "list", "patch", "watch"}, []string{"get", "list", "patch", "watch"})
	r := &certificates.Rotator{}
	_, _ = s.replica(cfg, r) // the Secret does not exist yet
	before, _ := r.GetCertificate(nil)
	mutating.SetResourceVersion("")
	if err := env.Admin.Create(t.Context(), mutating); err != nil {
		t.Fatal(err)
	}
	trusted := func(cas int) func() error {
		return func() error {
			secret, err := s.secret()
			if err != nil {
				return err
			}
			bundle := secret.Data["ca.crt"]
			if n := strings.Count(string(bundle), "BEGIN"); n != cas {
				return fmt.Errorf("%d CAs, want %d", n, cas)
			}
			for _, o := range s.configurations() {
				if slices.ContainsFunc(bundlesOf(o), func(b []byte) bool { return string(b) != string(bundle) }) {
					return fmt.Errorf("%T does not trust the CA", o)
				}
			}
			return nil
		}
	}
	s.eventually("both configurations to have the CA", trusted(1))

	s.Log("the Secret is deleted")
	if err := env.Admin.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: secretName}}); err != nil {
		t.Fatal(err)
	}
	s.eventually("the Secret to be back, and both CAs to be trusted", trusted(2))
	if after, _ := r.GetCertificate(nil); !after.Leaf.Equal(before.Leaf) {
		t.Error("another certificate is served before all API servers trust it")
	}

	s.Log("the bundles are removed")
	s.callAt(s.address, nil)
	s.eventually("the bundles to be back", trusted(2))
}

// With cert-manager the operator only has permission to read its objects, and
// serves the certificate that it finds.
func TestRotator_ReadOnlyServesTheSecretOfAnotherIssuer(t *testing.T) {
	t.Parallel()
	s := newSite(t, "localhost:1")
	issue := func() {
		_, stop := s.replica(env.AdminConfig, &certificates.Rotator{})
		stop()
	}
	issue()
	r := &certificates.Rotator{ReadOnly: true}
	_, _ = s.replica(s.user("reader", []string{"get", "list", "watch"}, []string{"get", "list", "watch"}), r)
	before, _ := r.GetCertificate(nil)
	if err := env.Admin.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: secretName}}); err != nil {
		t.Fatal(err)
	}
	issue()
	s.eventually("the new certificate to be served", func() error {
		if now, _ := r.GetCertificate(nil); now.Leaf.Equal(before.Leaf) {
			return errors.New("it is still the one before")
		}
		return nil
	})
}

// user returns a user with only these permissions on the Secret and the
// configurations of the site, each by its name.
func (s *site) user(name string, secrets, configurations []string) *rest.Config {
	s.Helper()
	name += "-" + s.namespace
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}}
	meta := metav1.ObjectMeta{Namespace: s.namespace, Name: name}
	objects := []client.Object{
		&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{secretName}, Verbs: secrets}}},
		&rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name}, Subjects: subjects},
	}
	if len(configurations) > 0 {
		objects = append(objects,
			&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{{
				APIGroups: []string{"admissionregistration.k8s.io"}, Resources: []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"},
				ResourceNames: []string{s.namespace}, Verbs: configurations,
			}}},
			&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}, Subjects: subjects})
	}
	for _, o := range objects {
		if err := env.Admin.Create(s.Context(), o); err != nil {
			s.Fatal(err)
		}
	}
	cfg := rest.CopyConfig(env.AdminConfig)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: []string{"system:authenticated"}}
	return cfg
}

func bundlesOf(o client.Object) [][]byte {
	var all [][]byte
	switch c := o.(type) {
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		for _, w := range c.Webhooks {
			all = append(all, w.ClientConfig.CABundle)
		}
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		for _, w := range c.Webhooks {
			all = append(all, w.ClientConfig.CABundle)
		}
	}
	return all
}

// TestWebhook_IsNotNeededByExistingObjects checks that while no webhook answers,
// existing objects keep working without admission requests, and that a change that
// must be validated is rejected with the reason.
func TestWebhook_IsNotNeededByExistingObjects(t *testing.T) {
	// None of the other parallel tests creates a WebServer: asked counts those of all.
	t.Parallel()
	s := newSite(t, "localhost:1")
	op, err := env.Run(t.Context(), testkit.Subject{
		Children: controllers.Children(config.Default()),
		Setup: func(mgr manager.Manager, a *apply.Applier) error {
			return controllers.Setup(mgr, a, config.Default(), nil)
		},
	}, nil, s.namespace)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(op.Cancel)

	// Objects that were admitted before.
	s.callNobody()
	plain, orphaning := s.manifest("plain", "Delete"), s.manifest("kept", "Orphan")
	for _, m := range []*unstructured.Unstructured{plain, orphaning} {
		s.apply(m)
		s.reconciled(m.GetName())
	}
	asked := s.asked()
	s.callAt("localhost:1", nil)
	// API servers observe a change of a configuration a moment later.
	s.eventually("a change to be refused", func() error {
		const want = `failed calling webhook "validate.webservers.my.domain"`
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":5}}`))
		err := env.Admin.Patch(t.Context(), s.webServer("plain"), patch, client.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "connection refused") {
			return fmt.Errorf("got %w, want %q", err, want)
		}
		return nil
	})
	if s.asked() == asked {
		t.Error("the count of calls does not see calls")
	}

	asked = s.asked()
	s.apply(plain) // unchanged
	s.damage("plain")
	s.forgetStatus("plain")
	s.reconciled("plain")
	s.deleted("plain")
	s.deleted("kept")
	var left appsv1.Deployment
	if err := env.Admin.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: "kept"}, &left); err != nil || len(left.OwnerReferences) > 0 {
		t.Errorf("policy Orphan left %v, %v", left.OwnerReferences, err)
	}
	if n := s.asked() - asked; n != 0 {
		t.Errorf("the webhook was called %d times for a status, a finalizer, a deletion, or nothing new", n)
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
		s.eventually("a configuration to be changed", func() error { // the operator may write it at the same time
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
