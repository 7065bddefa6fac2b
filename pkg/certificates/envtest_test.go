//go:build envtest

package certificates_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/yaml"

	"github.com/platform-operator/platform-operator/apis/common"
	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/controllers"
	"github.com/platform-operator/platform-operator/pkg/certificates"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/operator"
	"github.com/platform-operator/platform-operator/pkg/testkit"
	"github.com/platform-operator/platform-operator/webhooks"
)

// env is the API server of this package's tests.
var env *testkit.Env

func TestMain(m *testing.M) {
	testkit.MainWithOwnServer(m, "../..", controllers.AddToScheme, func(e *testkit.Env) { env = e })
}

// often are lifetimes with a certificate every 2 seconds and a CA every 6.
var often = certificates.Lifetimes{
	Validity: 20 * time.Second, RenewBefore: 18500 * time.Millisecond,
	CAValidity: 26 * time.Second, CARenewBefore: 20 * time.Second,
	Overlap: 2 * time.Second,
}

const secretName = "cert"

// site is an installation: a namespace with the Secret, and both
// configurations, which apply only to that namespace.
type site struct {
	*testing.T
	namespace string // also the name of the configurations
	address   string // where the API server sends admission requests
	calls     atomic.Int64
	requests  requests
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
// by is how much later it receives responses.
func (s *site) replica(cfg *rest.Config, k *certificates.Rotator, by time.Duration) (address string, stop func()) {
	s.Helper()
	address = testkit.FreeAddress(s.T)
	bind, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		s.Fatal(err)
	}
	k.Secret, k.Configuration, k.Hosts = secretName, s.namespace, []string{"localhost"}
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return &late{next: next, by: by, seen: &s.requests} })
	mgr, err := operator.New(cfg, env.Scheme, operator.Options{
		Namespace: s.namespace, Watch: []string{s.namespace}, MetricsAddress: "0", ProbeAddress: "0", SkipNameValidation: true,
		Admission: k, WebhookPort: bind.Port,
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
		if err := k.Ready(nil); err != nil {
			return err
		}
		return mgr.GetWebhookServer().StartedChecker()(nil)
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

// requests counts the requests of the replicas, by method and path.
type requests struct {
	sync.Mutex
	by map[string]int
}

func (r *requests) add(what string) {
	r.Lock()
	defer r.Unlock()
	if r.by == nil {
		r.by = map[string]int{}
	}
	r.by[what]++
}

// take returns the requests since the last call.
func (r *requests) take() map[string]int {
	r.Lock()
	defer r.Unlock()
	by := r.by
	r.by = nil
	return by
}

// late counts requests, and delays all responses to a replica.
type late struct {
	next http.RoundTripper
	by   time.Duration
	seen *requests
}

func (l *late) RoundTrip(r *http.Request) (*http.Response, error) {
	l.seen.add(r.Method + " " + r.URL.Path)
	res, err := l.next.RoundTrip(r)
	time.Sleep(l.by)
	if err == nil && l.by > 0 && r.URL.Query().Get("watch") != "" {
		res.Body = delayed(res.Body, l.by)
	}
	return res, err
}

// delayed delays what is read from the body by a constant time.
func delayed(body io.ReadCloser, by time.Duration) io.ReadCloser {
	type chunk struct {
		data []byte
		due  time.Time
		err  error
	}
	chunks := make(chan chunk, 1024)
	go func() {
		defer close(chunks)
		for {
			buffer := make([]byte, 32<<10)
			n, err := body.Read(buffer)
			chunks <- chunk{buffer[:n], time.Now().Add(by), err}
			if err != nil {
				return
			}
		}
	}()
	out, in := io.Pipe()
	go func() {
		for c := range chunks {
			time.Sleep(time.Until(c.due))
			_, _ = in.Write(c.data) // the reader may be closed
			if c.err != nil {
				in.CloseWithError(c.err)
			}
		}
	}()
	return struct {
		io.Reader
		io.Closer
	}{out, closers{out, body}}
}

type closers []io.Closer

func (all closers) Close() error {
	var errs []error
	for _, c := range all {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
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

// seen counts the certificates and the CAs that were in the Secret.
func (s *site) seen(ctx context.Context) func() (certs, cas int) {
	s.Helper()
	var mu sync.Mutex
	certs, cas := map[string]bool{}, map[string]bool{}
	go func() {
		for ctx.Err() == nil {
			var secret corev1.Secret
			if err := env.Admin.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: secretName}, &secret); err == nil {
				mu.Lock()
				certs[string(secret.Data["tls.crt"])], cas[string(secret.Data["ca.key"])] = true, true
				mu.Unlock()
			}
			time.Sleep(100 * time.Millisecond)
		}
	}()
	return func() (int, int) {
		mu.Lock()
		defer mu.Unlock()
		return len(certs), len(cas)
	}
}

// load sends admission requests concurrently until enough returns true for the
// last result of a worker. It returns how many objects were admitted, and how
// often each error occurred.
func (s *site) load(enough func(last string) bool) map[string]int {
	s.Helper()
	var mu sync.Mutex
	answers := map[string]int{}
	var wg sync.WaitGroup
	for worker := range 6 {
		wg.Go(func() {
			last := ""
			for n := 0; !enough(last); n++ {
				w := &webserverv1.WebServer{
					ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: fmt.Sprintf("web-%d-%d", worker, n)},
					Spec:       webserverv1.WebServerSpec{Image: "nginx:1.23.1"},
				}
				if worker%2 == 0 {
					w.Spec.DeletionPolicy = common.DeletionPolicyOrphan // calls the mutating webhook too
				}
				err := env.Admin.Create(s.Context(), w, client.DryRunAll)
				answer := "admitted"
				if err != nil {
					answer = string(apierrors.ReasonForError(err)) + ": " + strings.ReplaceAll(err.Error(), w.Name, "web")
				}
				last = answer
				mu.Lock()
				answers[answer]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return answers
}

// calls returns the number of admission requests to send: CALLS, or a fraction
// of the number in `make campaign-certificates`.
func calls(t *testing.T) int64 {
	t.Helper()
	n, err := strconv.ParseInt(os.Getenv("CALLS"), 10, 64)
	if err != nil {
		return 2000
	}
	return n
}

// TestWebhook_NoCallFailsDuringRotation uses two replicas, one of which
// receives all responses late.
func TestWebhook_NoCallFailsDuringRotation(t *testing.T) {
	address, to := balance(t)
	s := newSite(t, address)
	first, _ := s.replica(env.AdminConfig, &certificates.Rotator{Lifetimes: often}, 0)
	second, _ := s.replica(env.AdminConfig, &certificates.Rotator{Lifetimes: often}, 200*time.Millisecond)
	to(first, second)
	rotated := s.seen(t.Context())
	s.requests.take()
	s.calls.Store(0)

	const rolls = 2
	want, began := calls(t), time.Now()
	answers := s.load(func(string) bool {
		_, cas := rotated()
		return s.calls.Load() >= want && cas > rolls || time.Since(began) > 10*time.Minute
	})
	certs, cas := rotated()
	t.Logf("%d calls of admission in %s, each with a handshake of its own; %d certificates of %d CAs; answers: %v",
		s.calls.Load(), time.Since(began).Round(time.Second), certs, cas, answers)
	if len(answers) != 1 || answers["admitted"] == 0 {
		t.Errorf("not all were admitted: %v", answers)
	}
	if got := s.calls.Load(); got < want || cas <= rolls || certs <= 2*rolls {
		t.Errorf("%d calls, %d CAs, %d certificates: that shows nothing", got, cas, certs)
	}
	// All requests that the replicas sent meanwhile concern their certificate:
	// admission itself sends none.
	asked := s.requests.take()
	t.Logf("requests of the replicas: %v", asked)
	for what := range asked {
		if !strings.Contains(what, "/namespaces/"+s.namespace+"/secrets") && !strings.Contains(what, "webhookconfigurations") {
			t.Errorf("a replica asked for %s", what)
		}
	}
}

// The same with steps that immediately follow one another: the load must detect
// the failures.
func TestWebhook_CallsFailWithoutOverlap(t *testing.T) {
	address, to := balance(t)
	s := newSite(t, address)
	hasty := often
	hasty.Overlap = time.Millisecond
	hasty.CAValidity += 4 * time.Second // so that the late replica becomes ready between two rotations
	first, _ := s.replica(env.AdminConfig, &certificates.Rotator{Lifetimes: hasty}, 0)
	second, _ := s.replica(env.AdminConfig, &certificates.Rotator{Lifetimes: hasty}, 1200*time.Millisecond)
	to(first, second)
	rotated := s.seen(t.Context())
	began := time.Now()
	var seen atomic.Bool
	answers := s.load(func(last string) bool {
		if strings.Contains(last, callsWebhook) && strings.Contains(last, "certificate signed by unknown authority") {
			seen.Store(true)
		}
		return seen.Load() || time.Since(began) > 2*time.Minute
	})
	certs, cas := rotated()
	t.Logf("%d calls of admission; %d certificates of %d CAs; answers: %v", s.calls.Load(), certs, cas, answers)
	if !seen.Load() {
		t.Error("the load would not see a roll that is too quick")
	}
}

// The permissions are those of the chart, restricted by name. They are
// sufficient to create, fill and repair the Secret, and to restore the bundles.
func TestRotator_RepairsWithThePermissionsOfTheChart(t *testing.T) {
	t.Parallel()
	s := newSite(t, "localhost:1")
	cfg := s.user("keeper", []string{"create", "get", "list", "patch", "watch"}, []string{"get", "list", "patch", "watch"})
	k := &certificates.Rotator{}
	_, _ = s.replica(cfg, k, 0) // the Secret does not exist yet
	before, _ := k.GetCertificate(nil)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: secretName}}
	if err := env.Admin.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	s.eventually("the Secret to be back", func() error {
		return env.Admin.Get(t.Context(), client.ObjectKeyFromObject(secret), secret)
	})
	if after, _ := k.GetCertificate(nil); !after.Leaf.Equal(before.Leaf) {
		t.Error("another certificate is served before its CA can be known")
	}
	if n := strings.Count(string(secret.Data["ca.crt"]), "BEGIN"); n != 2 {
		t.Errorf("%d CAs in the bundle: the deletion asks for a new one, and the old one is in use", n)
	}

	s.Log("the configurations become Helm's after the Secret was created: the Secret becomes a part of the release too")
	helm := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"app.kubernetes.io/managed-by":"Helm","helm.sh/chart":"platform-operator-1"},
		"annotations":{"meta.helm.sh/release-name":"a","meta.helm.sh/release-namespace":"b"}}}`))
	for _, o := range s.configurations() {
		if err := env.Admin.Patch(t.Context(), o, helm); err != nil {
			t.Fatal(err)
		}
	}
	marks := func() map[string]string {
		all := maps.Clone(secret.Labels)
		if all == nil {
			all = map[string]string{}
		}
		maps.Copy(all, secret.Annotations)
		return all
	}
	want := map[string]string{"app.kubernetes.io/managed-by": "Helm", "meta.helm.sh/release-name": "a", "meta.helm.sh/release-namespace": "b"}
	s.eventually("the labels and annotations of the release", func() error {
		if err := env.Admin.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); err != nil {
			return err
		}
		if diff := cmp.Diff(want, marks()); diff != "" {
			return fmt.Errorf("(-want +got):\n%s", diff)
		}
		return nil
	})

	s.Log("a Secret that is created again has them, even if the configurations do not")
	for _, o := range s.configurations()[:1] {
		if err := env.Admin.Patch(t.Context(), o, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":null,"annotations":null}}`))); err != nil {
			t.Fatal(err)
		}
	}
	was := secret.UID
	if err := env.Admin.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	s.eventually("the Secret to be back as a part of the release", func() error {
		secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: secretName}}
		if err := env.Admin.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); err != nil {
			return err
		}
		if secret.UID == was {
			return errors.New("it has not been deleted yet")
		}
		if diff := cmp.Diff(want, marks()); diff != "" {
			return fmt.Errorf("(-want +got):\n%s", diff)
		}
		return nil
	})

	s.Log("helm upgrade --force, or anybody, wipes the bundles")
	s.callAt(s.address, nil)
	s.eventually("the bundles to be back", func() error {
		for _, o := range s.configurations() {
			for _, b := range bundlesOf(o) {
				if string(b) != string(secret.Data["ca.crt"]) {
					return fmt.Errorf("%T has %q", o, b)
				}
			}
		}
		return nil
	})
}

// An administrator deletes one configuration for a while: the other one is
// still maintained, and the one that is created again gets the CA.
func TestRotator_ServesWithoutTheMutatingConfiguration(t *testing.T) {
	t.Parallel()
	s := newSite(t, "localhost:1")
	mutating := s.configurations()[0]
	if err := env.Admin.Delete(t.Context(), mutating); err != nil {
		t.Fatal(err)
	}
	_, _ = s.replica(env.AdminConfig, &certificates.Rotator{}, 0)

	mutating.SetResourceVersion("")
	if err := env.Admin.Create(t.Context(), mutating); err != nil {
		t.Fatal(err)
	}
	s.eventually("both configurations to have the CA", func() error {
		var secret corev1.Secret
		if err := env.Admin.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: secretName}, &secret); err != nil {
			return err
		}
		for _, o := range s.configurations() {
			for _, b := range bundlesOf(o) {
				if len(b) == 0 || string(b) != string(secret.Data["ca.crt"]) {
					return fmt.Errorf("%T has %q", o, b)
				}
			}
		}
		return nil
	})
}

// With cert-manager the operator only has permission to read its Secret. It
// writes nothing, and serves the certificate that it finds.
func TestRotator_ReadOnlyServesTheSecretOfAnotherIssuer(t *testing.T) {
	t.Parallel()
	s := newSite(t, "localhost:1")
	_, stop := s.replica(env.AdminConfig, &certificates.Rotator{}, 0) // as another issuer
	stop()
	made := &corev1.Secret{}
	key := client.ObjectKey{Namespace: s.namespace, Name: secretName}
	if err := env.Admin.Get(t.Context(), key, made); err != nil {
		t.Fatal(err)
	}
	s.requests.take()

	cfg := s.user("reader", []string{"list", "watch"}, nil)
	k := &certificates.Rotator{ReadOnly: true}
	_, _ = s.replica(cfg, k, 0)
	before, _ := k.GetCertificate(nil)
	if err := env.Admin.Delete(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	_, stop = s.replica(env.AdminConfig, &certificates.Rotator{}, 0) // issues another certificate
	stop()
	s.eventually("the new certificate to be served", func() error {
		if now, _ := k.GetCertificate(nil); now.Leaf.Equal(before.Leaf) {
			return errors.New("it is still the one before")
		}
		return nil
	})
	if err := k.Ready(nil); err != nil {
		t.Error(err)
	}
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

func timeoutsOf(o client.Object) []*int32 {
	var all []*int32
	switch c := o.(type) {
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		for _, w := range c.Webhooks {
			all = append(all, w.TimeoutSeconds)
		}
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		for _, w := range c.Webhooks {
			all = append(all, w.TimeoutSeconds)
		}
	}
	return all
}
