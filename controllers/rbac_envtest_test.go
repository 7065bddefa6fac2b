//go:build envtest

package controllers_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/platform-operator/platform-operator/controllers"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/certificates"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/operator"
	"github.com/platform-operator/platform-operator/pkg/telemetry"
	"github.com/platform-operator/platform-operator/pkg/testkit"
	"github.com/platform-operator/platform-operator/pkg/testkit/rbac"
)

var (
	allPermissions = flag.Bool("all-permissions", false, "take every permission away in turn, and not only some")
	seed           = flag.Uint64("permissions-seed", 1, "chooses the permissions that are taken away")
)

// somePermissions is how many permissions are tested, unless all are.
const somePermissions = 3

var env *testkit.Env

// insecure does not verify certificates, which are not the subject of these tests.
var insecure = &http.Client{Transport: &http.Transport{
	TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // the test's own process responds
	DisableKeepAlives: true,
}}

func TestMain(m *testing.M) {
	testkit.MainWithOwnServer(m, "..", controllers.AddToScheme, func(e *testkit.Env) { env = e })
}

// permission allows one verb on one resource, as granted by a role.
type permission struct {
	role            string // of config/rbac: manager, cluster, webhooks, own
	group, resource string
	name            string
	verb            string
}

func (r permission) String() string {
	return fmt.Sprintf("%s %s.%s %s (%s)", r.verb, r.resource, r.group, r.name, r.role)
}

// granted returns the permissions in config/rbac, which are also those of the
// chart.
func granted(t *testing.T) []permission {
	t.Helper()
	var all []permission
	for name, file := range map[string]string{
		"manager": "role.yaml", "cluster": "cluster_role.yaml", "webhooks": "webhook_role.yaml", "own": "namespace_role.yaml",
	} {
		all = append(all, permissionsIn(t, name, filepath.Join("..", "config", "rbac", file))...)
	}
	slices.SortFunc(all, func(a, b permission) int { return strings.Compare(a.String(), b.String()) })
	return all
}

// permissionsIn returns the permissions of the first role in a file.
func permissionsIn(t *testing.T, role, file string) []permission {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r rbacv1.ClusterRole // a Role has the same rules
	first, _, _ := strings.Cut(strings.TrimPrefix(string(raw), "---\n"), "\n---\n")
	if err := yaml.Unmarshal([]byte(first), &r); err != nil {
		t.Fatal(err)
	}
	var all []permission
	for x := range rbac.Each(r.Rules) {
		all = append(all, permission{role, x.Group, x.Resource, x.Name, x.Verb})
	}
	return all
}

// TestRBAC_EachPermissionIsNeeded runs the operator through everything that it does, with an
// account that has all permissions of config/rbac except one. The API server must
// reject a request because of exactly that permission. With all of them it must
// reject none.
func TestRBAC_EachPermissionIsNeeded(t *testing.T) {
	all := granted(t)
	if len(all) < 80 {
		t.Fatalf("only %d permissions: the test sees nothing", len(all))
	}
	taken := slices.Clone(all)
	if !*allPermissions {
		rand.New(rand.NewPCG(*seed, 0)).Shuffle(len(taken), func(i, j int) { taken[i], taken[j] = taken[j], taken[i] }) //nolint:gosec // chosen at random, and the same each time
		taken = taken[:somePermissions]
	}
	defineOptional(t)
	began := time.Now()
	s := newStage(t, all)
	if err := s.play((*stage).live); err != nil {
		t.Fatalf("with all permissions: %v; refused: %q", err, s.wire.denied())
	}
	if d := s.wire.denied(); len(d) > 0 {
		t.Fatalf("with all permissions, these are refused: %q", d)
	}
	t.Logf("with all permissions: %s", time.Since(began).Round(100*time.Millisecond))
	places := make(chan struct{}, 4)
	for _, r := range taken {
		t.Run("without "+r.String(), func(t *testing.T) {
			t.Parallel()
			places <- struct{}{}
			defer func() { <-places }()
			began := time.Now()
			s := newStage(t, slices.DeleteFunc(slices.Clone(all), func(x permission) bool { return x == r }))
			s.wire.lists = r.verb == "list"
			err := s.play((*stage).live)
			if !slices.Contains(s.wire.denied(), r.verb+" "+r.resource+"."+r.group) {
				t.Errorf("nothing was refused for want of it (refused: %q; %v): it is not needed, or the story lacks something", s.wire.denied(), err)
			}
			t.Logf("refused after %s", time.Since(began).Round(100*time.Millisecond))
		})
	}
}

// defineOptional creates the CRDs of the optional types, unless they exist, for the
// duration of the test.
func defineOptional(t *testing.T) {
	t.Helper()
	define(t, "gateway.networking.k8s.io", "HTTPRoute", "httproutes")
	define(t, "monitoring.coreos.com", "PodMonitor", "podmonitors")
}

// define creates a CRD that accepts any content, and waits until it is served.
func define(t *testing.T, group, kind, plural string) {
	t.Helper()
	crd := &unstructured.Unstructured{}
	text := fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[3]s.%[1]s, annotations: {api-approved.kubernetes.io: unapproved}}
spec:
  group: %[1]s
  names: {kind: %[2]s, listKind: %[2]sList, plural: %[3]s, singular: %[4]s}
  scope: Namespaced
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}, subresources: {status: {}}}]
`, group, kind, plural, strings.ToLower(kind))
	if err := yaml.Unmarshal([]byte(text), &crd.Object); err != nil {
		t.Fatal(err)
	}
	l := &unstructured.UnstructuredList{}
	l.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: "v1", Kind: kind + "List"})
	switch err := env.Admin.Create(t.Context(), crd); {
	case err == nil:
		t.Cleanup(func() {
			ctx := context.WithoutCancel(t.Context())
			if err := errors.Join(env.Admin.Delete(ctx, crd), testkit.Eventually(ctx, kind+" not to be served", func(ctx context.Context) (bool, error) {
				err := env.Admin.List(ctx, l)
				return meta.IsNoMatchError(err) || apierrors.IsNotFound(err), err
			})); err != nil {
				t.Error(err)
			}
		})
	case !apierrors.IsAlreadyExists(err):
		t.Fatal(err)
	}
	if err := testkit.Eventually(t.Context(), kind+" to be served", func(ctx context.Context) (bool, error) {
		err := env.Admin.List(ctx, l)
		return err == nil, err
	}); err != nil {
		t.Fatal(err)
	}
}

// stage is a namespace that contains only an operator of its own.
type stage struct {
	*testing.T
	ns      string
	kinds   []string // those that are enabled; empty means all
	wire    *wire
	metrics string
	token   string
}

// newStage creates the namespace, and the account with these permissions.
func newStage(t *testing.T, granted []permission) *stage {
	t.Helper()
	s := &stage{T: t, ns: env.NewNamespace(t), wire: &wire{}}
	var inNamespace, inCluster []rbacv1.PolicyRule
	for _, r := range granted {
		rule := rbacv1.PolicyRule{APIGroups: []string{r.group}, Resources: []string{r.resource}, Verbs: []string{r.verb}}
		if r.name != "" {
			rule.ResourceNames = []string{s.nameOf(r)}
		}
		if r.role == "manager" || r.role == "own" {
			inNamespace = append(inNamespace, rule)
		} else {
			inCluster = append(inCluster, rule)
		}
	}
	user := []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: s.ns}}
	for _, o := range []client.Object{
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "operator"}, Rules: inNamespace},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "operator"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "operator"}, Subjects: user},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: s.ns}, Rules: inCluster},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: s.ns}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: s.ns}, Subjects: user},
	} {
		s.create(o)
	}
	// These webhooks match objects that are never created; only their CA bundles
	// are needed.
	none := []admissionregistrationv1.RuleWithOperations{{
		Operations: []admissionregistrationv1.OperationType{"CREATE"},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{"nothing.example.com"}, APIVersions: []string{"v1"}, Resources: []string{"nothings"}},
	}}
	service := admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: s.ns, Name: "webhook"}}
	effects := admissionregistrationv1.SideEffectClassNone
	s.create(&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: s.ns}, Webhooks: []admissionregistrationv1.ValidatingWebhook{{
		Name: "v.example.com", ClientConfig: service, Rules: none, SideEffects: &effects, AdmissionReviewVersions: []string{"v1"},
	}}})
	s.create(&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: s.ns}, Webhooks: []admissionregistrationv1.MutatingWebhook{{
		Name: "m.example.com", ClientConfig: service, Rules: none, SideEffects: &effects, AdmissionReviewVersions: []string{"v1"},
	}}})
	t.Cleanup(func() {
		for _, o := range []client.Object{
			&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: s.ns}},
			&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: s.ns}},
		} {
			if err := env.Admin.Delete(context.WithoutCancel(t.Context()), o); err != nil {
				t.Error(err)
			}
		}
	})
	s.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "pages"}, Data: map[string]string{"index.html": "hello"}})
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "reader"}}
	s.create(account)
	r := &authenticationv1.TokenRequest{}
	if err := env.Admin.SubResource("token").Create(t.Context(), account, r); err != nil {
		t.Fatal(err)
	}
	s.token = r.Status.Token
	return s
}

// nameOf returns the name that a resource of config/rbac has here: webhook
// configurations are cluster-scoped, so each stage has its own.
func (s *stage) nameOf(r permission) string {
	if r.role == "webhooks" {
		return s.ns
	}
	return r.name
}

func (s *stage) create(o client.Object) {
	s.Helper()
	if err := env.Admin.Create(s.Context(), o); err != nil {
		s.Fatal(err)
	}
}

// play runs an operator until the scenario is over or a request is rejected.
func (s *stage) play(story func(*stage, context.Context) error) error {
	s.Helper()
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	s.wire.first = cancel // the rest of the scenario is not needed
	ended, err := s.operator(ctx)
	if err != nil {
		return err
	}
	err = story(s, ctx)
	cancel()
	long := time.Minute
	if err != nil {
		long = 5 * time.Second // a rejected watch is retried for a while before it ends
	}
	select {
	case <-ended: //nolint:errcheck // the error says only that it was stopped or rejected
	case <-time.After(long):
		if err == nil {
			s.Error("the operator does not end")
		}
	}
	return err
}

func (s *stage) operator(ctx context.Context) (<-chan error, error) {
	cfg := rest.CopyConfig(env.AdminConfig)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: s.ns}
	cfg.Wrap(func(rt http.RoundTripper) http.RoundTripper { s.wire.next = rt; return s.wire })
	s.metrics = testkit.FreeAddress(s.T)
	_, port, err := net.SplitHostPort(testkit.FreeAddress(s.T))
	if err != nil {
		return nil, err
	}
	webhookPort, err := strconv.Atoi(port)
	if err != nil {
		return nil, err
	}
	platform := config.Default()
	platform.Kinds, platform.WatchNamespaces = s.kinds, []string{s.ns}
	platform.WebServer.ServiceType, platform.WebServer.NodePort = corev1.ServiceTypeClusterIP, 0
	mgr, err := operator.New(cfg, env.Scheme, operator.Options{
		Namespace: s.ns, Watch: platform.WatchNamespaces, ReadYourWrites: true, Children: controllers.Children(platform), Kinds: controllers.Objects(platform), Without: s.wire.without,
		MetricsAddress: s.metrics, ProbeAddress: "0", LeaderElection: true, WebhookPort: webhookPort, SkipNameValidation: true,
		Admission: &certificates.Rotator{Secret: "platform-operator-webhook-cert", Configuration: s.ns, Services: []string{"webhook"}},
	})
	if err != nil {
		return nil, err
	}
	metrics := telemetry.New(telemetry.Options{Active: mgr.Elected()})
	if err := metrics.Objects.Watch(mgr.GetCache(), env.Scheme, controllers.Objects(platform)); err != nil {
		return nil, err
	}
	if err := controllers.Setup(mgr, apply.NewApplier(mgr.GetClient(), mgr.GetAPIReader(), metrics.Child), platform, nil); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	return ended, nil
}

// wire records the requests that the API server rejects because of missing
// permissions.
type wire struct {
	next  http.RoundTripper
	first func() // called for each rejection
	lists bool   // simulates an API server without WatchList
	// without are API groups of the operator's kinds that it must not use.
	without []string

	mu      sync.Mutex
	refused map[string]bool
}

var (
	cannot = regexp.MustCompile(`cannot (\w+) resource "([^"]+)" in API group "([^"]*)"`)
	child  = regexp.MustCompile(`^/apis/([^/]+)/[^/]+/namespaces/[^/]+/([^/]+)/`)
)

// RoundTrip implements http.RoundTripper.
func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	for _, group := range w.without {
		if strings.HasPrefix(r.URL.Path, "/apis/"+group+"/") {
			w.note(r.Method + " " + r.URL.Path)
		}
	}
	if w.lists && r.URL.Query().Get("sendInitialEvents") != "" {
		return withoutWatchList(r), nil
	}
	var sent []byte
	if r.Body != nil && r.Method != http.MethodGet {
		var err error
		if sent, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(sent))
	}
	res, err := w.next.RoundTrip(r)
	if err != nil || res.StatusCode != http.StatusForbidden {
		return res, err
	}
	body, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	res.Body = io.NopCloser(bytes.NewReader(body))
	if err != nil {
		return res, err
	}
	said := strings.ReplaceAll(string(body), `\"`, `"`) // unescapes JSON; protobuf has no escapes
	if m := cannot.FindStringSubmatch(said); m != nil {
		w.note(fmt.Sprintf("%s %s.%s", m[1], m[2], m[3]))
	} else if m := child.FindStringSubmatch(r.URL.Path); m != nil && strings.Contains(said, "cannot set an ownerRef on a resource you can't delete") {
		w.note(fmt.Sprintf("delete %s.%s", m[2], m[1]))
	} else if strings.Contains(said, "cannot set blockOwnerDeletion") {
		w.note(finalizersOf(sent))
	} else {
		w.note("for another reason: " + said)
	}
	return res, nil
}

// withoutWatchList returns the response of an API server with this feature
// disabled: objects have to be listed before they are watched.
func withoutWatchList(r *http.Request) *http.Response {
	body := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422,` +
		`"message":"sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"}`
	return &http.Response{
		Status: "422 Unprocessable Entity", StatusCode: http.StatusUnprocessableEntity, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Request: r,
	}
}

// finalizersOf returns the permission that an apply needs because of its owner
// reference.
func finalizersOf(sent []byte) string {
	var o struct {
		Metadata struct {
			OwnerReferences []struct{ APIVersion, Kind string }
		}
	}
	if yaml.Unmarshal(sent, &o) != nil || len(o.Metadata.OwnerReferences) == 0 {
		return "update of an unknown owner's finalizers"
	}
	owner := o.Metadata.OwnerReferences[0]
	group, _, _ := strings.Cut(owner.APIVersion, "/")
	return "update " + strings.ToLower(owner.Kind) + "s/finalizers." + group
}

func (w *wire) note(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refused == nil {
		w.refused = map[string]bool{}
	}
	w.refused[what] = true
	w.first()
}

func (w *wire) denied() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.refused))
}

// made are the types of all children.
var made = []schema.GroupVersionKind{
	{Group: "apps", Version: "v1", Kind: "Deployment"},
	{Group: "apps", Version: "v1", Kind: "ControllerRevision"},
	{Version: "v1", Kind: "Service"},
	{Version: "v1", Kind: "ConfigMap"},
	{Version: "v1", Kind: "Pod"},
	{Group: "autoscaling", Version: "v2", Kind: "HorizontalPodAutoscaler"},
	{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"},
	{Group: "networking.k8s.io", Version: "v1", Kind: "NetworkPolicy"},
	{Group: "networking.k8s.io", Version: "v1", Kind: "Ingress"},
	{Group: "gateway.networking.k8s.io", Version: "v1", Kind: "HTTPRoute"},
	{Group: "monitoring.coreos.com", Version: "v1", Kind: "PodMonitor"},
}

// live is the scenario of everything that the operator does.
func (s *stage) live(ctx context.Context) error {
	steps := []struct {
		what string
		do   func(context.Context) error
	}{
		{"metrics are read", s.readMetrics},
		{"objects are created", func(ctx context.Context) error { return s.apply(ctx, "everything", false) }},
		{"children exist", s.childrenStand},
		{"their pods run", s.ready},
		{"children lose their label", s.unlabel},
		{"children are deleted", s.deleteChildren},
		{"less is asked for", func(ctx context.Context) error { return s.apply(ctx, "little", true) }},
		{"children go", s.childrenGo},
		{"a deletion is held", s.deletionIsHeld},
		{"objects are deleted", s.deleteObjects},
	}
	for _, step := range steps {
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return nil
}

// life returns the objects in a file that the end-to-end tests also use.
func (s *stage) life(name string) ([]*unstructured.Unstructured, error) {
	raw, err := os.ReadFile(filepath.Join("..", "e2e", "testdata", "life", name+".yaml"))
	if err != nil {
		return nil, err
	}
	var all []*unstructured.Unstructured
	for doc := range strings.SplitSeq(strings.ReplaceAll(string(raw), "NAMESPACE", s.ns), "\n---\n") {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(doc), &o.Object); err != nil {
			return nil, err
		}
		if len(s.kinds) > 0 && !slices.Contains(s.kinds, o.GetKind()) {
			continue
		}
		all = append(all, o)
	}
	return all, nil
}

// apply creates objects or, if there is true, updates the specs of existing ones.
func (s *stage) apply(ctx context.Context, file string, there bool) error {
	all, err := s.life(file)
	if err != nil {
		return err
	}
	for _, o := range all {
		o.SetNamespace(s.ns)
		if !there {
			if err := env.Admin.Create(ctx, o); err != nil {
				return err
			}
			continue
		}
		if err := s.edit(ctx, o, func(live *unstructured.Unstructured) { live.Object["spec"] = o.Object["spec"] }); err != nil {
			return err
		}
	}
	return nil
}

// edit changes the live object, and retries on conflicts.
func (s *stage) edit(ctx context.Context, o *unstructured.Unstructured, change func(*unstructured.Unstructured)) error {
	for {
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(o.GroupVersionKind())
		if err := env.Admin.Get(ctx, client.ObjectKeyFromObject(o), live); err != nil {
			return err
		}
		change(live)
		if err := env.Admin.Update(ctx, live); !apierrors.IsConflict(err) {
			return err
		}
	}
}

func (s *stage) list(ctx context.Context, gvk schema.GroupVersionKind, opts ...client.ListOption) ([]unstructured.Unstructured, error) {
	l := &unstructured.UnstructuredList{}
	l.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	err := env.Admin.List(ctx, l, append(opts, client.InNamespace(s.ns))...)
	return l.Items, err
}

var labelled = client.MatchingLabels{naming.LabelManagedBy: naming.ManagedBy}

func (s *stage) childrenStand(ctx context.Context) error {
	return testkit.Eventually(ctx, "a child of each type", func(ctx context.Context) (bool, error) {
		for _, gvk := range made {
			all, err := s.list(ctx, gvk, labelled)
			if err != nil || len(all) == 0 {
				return false, fmt.Errorf("%d of %s: %w", len(all), gvk.Kind, errors.Join(err, errors.New("not yet")))
			}
		}
		return true, nil
	})
}

// condition returns a field of a condition of an object.
func (s *stage) condition(ctx context.Context, kind, name, condition, field string) (string, error) {
	all, err := s.life("everything")
	if err != nil {
		return "", err
	}
	for _, o := range all {
		if o.GetKind() != kind {
			continue
		}
		if err := env.Admin.Get(ctx, client.ObjectKey{Namespace: s.ns, Name: name}, o); err != nil {
			return "", err
		}
		observed, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
		conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
		for _, c := range conditions {
			if c := c.(map[string]any); c["type"] == condition && observed == o.GetGeneration() {
				return fmt.Sprint(c[field]), nil
			}
		}
	}
	return "", nil
}

func (s *stage) ready(ctx context.Context) error {
	return testkit.Eventually(ctx, "the Deployments' objects to be Ready", func(ctx context.Context) (bool, error) {
		for kind, name := range map[string]string{"WebServer": "web", "DemoApplication": "app", "Memcached": "cache"} {
			if len(s.kinds) > 0 && !slices.Contains(s.kinds, kind) {
				continue
			}
			if got, err := s.condition(ctx, kind, name, "Ready", "status"); got != "True" || err != nil {
				return false, fmt.Errorf("%s is Ready %q: %w", kind, got, errors.Join(err, errors.New("not yet")))
			}
		}
		return true, nil
	})
}

// unlabel removes the operator's label from one child of each type. The child is no
// longer in the cache; the operator reads it and finds that it owns it.
func (s *stage) unlabel(ctx context.Context) error {
	for _, gvk := range made {
		all, err := s.list(ctx, gvk, labelled)
		if err != nil {
			return err
		}
		if len(all) == 0 {
			return fmt.Errorf("there is no %s", gvk.Kind)
		}
		o := all[0]
		if err := s.edit(ctx, &o, func(live *unstructured.Unstructured) {
			l := live.GetLabels()
			delete(l, naming.LabelManagedBy)
			live.SetLabels(l)
			if gvk.Kind == "PodDisruptionBudget" {
				// The cache contains the PodDisruptionBudgets of all clients. One
				// is read if an older operator seems to have created it.
				live.SetManagedFields([]metav1.ManagedFieldsEntry{{}})
			}
		}); err != nil {
			return err
		}
		if err := testkit.Eventually(ctx, gvk.Kind+" "+o.GetName()+" to have its label again", func(ctx context.Context) (bool, error) {
			live := o.DeepCopy()
			err := env.Admin.Get(ctx, client.ObjectKeyFromObject(&o), live)
			return err == nil && live.GetLabels()[naming.LabelManagedBy] == naming.ManagedBy, client.IgnoreNotFound(err)
		}); err != nil {
			return err
		}
	}
	return nil
}

// deleteChildren deletes one child of each object. Before the operator recreates
// it, it checks that the owner still exists.
func (s *stage) deleteChildren(ctx context.Context) error {
	for kind, name := range map[string]string{"Service/web": "web-service", "Service/app": "app", "NetworkPolicy/cache": "cache", "NetworkPolicy/immortal": "immortal-immortalpod"} {
		gvk := schema.GroupVersionKind{Version: "v1", Kind: "Service"}
		if strings.HasPrefix(kind, "NetworkPolicy") {
			gvk = schema.GroupVersionKind{Group: "networking.k8s.io", Version: "v1", Kind: "NetworkPolicy"}
		}
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(gvk)
		key := client.ObjectKey{Namespace: s.ns, Name: name}
		if err := env.Admin.Get(ctx, key, o); err != nil {
			return err
		}
		was := o.GetUID()
		if err := env.Admin.Delete(ctx, o); err != nil {
			return err
		}
		if err := testkit.Eventually(ctx, kind+" to be created again", func(ctx context.Context) (bool, error) {
			err := env.Admin.Get(ctx, key, o)
			return err == nil && o.GetUID() != was, client.IgnoreNotFound(err)
		}); err != nil {
			return err
		}
	}
	return nil
}

// deletionIsHeld deletes an object whose Deployment cannot be released. The
// operator reports that in an event, and increments the count of the event when it
// recurs.
func (s *stage) deletionIsHeld(ctx context.Context) error {
	policies, err := s.life("hold")
	if err != nil {
		return err
	}
	for _, p := range policies {
		if err := env.Admin.Create(ctx, p); err != nil {
			return err
		}
		defer func() { _ = env.Admin.Delete(context.WithoutCancel(ctx), p) }() // it was already deleted if the scenario succeeded
	}
	touch := func(gvk schema.GroupVersionKind, name, label string) error {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(gvk)
		o.SetNamespace(s.ns)
		o.SetName(name)
		return s.edit(ctx, o, func(live *unstructured.Unstructured) {
			l := live.GetLabels()
			if l == nil {
				l = map[string]string{}
			}
			l["example.com/"+label] = strconv.FormatInt(time.Now().UnixNano(), 10)
			live.SetLabels(l)
		})
	}
	deployment := made[0]
	if err := touch(deployment, "web", "hold"); err != nil {
		return err
	}
	if err := testkit.Eventually(ctx, "the policy to hold", func(context.Context) (bool, error) {
		return touch(deployment, "web", "try") != nil, nil
	}); err != nil {
		return err
	}
	web := &unstructured.Unstructured{}
	web.SetGroupVersionKind(schema.GroupVersionKind{Group: "my.domain", Version: "v1", Kind: "WebServer"})
	web.SetNamespace(s.ns)
	web.SetName("web")
	if err := env.Admin.Get(ctx, client.ObjectKeyFromObject(web), web); err != nil {
		return err
	}
	if err := env.Admin.Delete(ctx, web); err != nil {
		return err
	}
	// A revision is not released, so changes of it still trigger a reconcile of its
	// owner.
	revisions, err := s.list(ctx, schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "ControllerRevision"})
	if err != nil {
		return err
	}
	i := slices.IndexFunc(revisions, func(r unstructured.Unstructured) bool {
		return strings.HasPrefix(r.GetName(), "web-") && metav1.IsControlledBy(&r, web)
	})
	if i < 0 {
		return errors.New("web has no revision")
	}
	revision := revisions[i]
	if err := testkit.Eventually(ctx, "the same event twice", func(ctx context.Context) (bool, error) {
		if err := touch(revision.GroupVersionKind(), revision.GetName(), "try"); err != nil { // which triggers a reconcile
			return false, err
		}
		all, err := s.list(ctx, schema.GroupVersionKind{Group: "events.k8s.io", Version: "v1", Kind: "Event"})
		return slices.ContainsFunc(all, func(e unstructured.Unstructured) bool { return e.Object["series"] != nil }), err
	}); err != nil {
		return err
	}
	for _, p := range policies {
		if err := env.Admin.Delete(ctx, p); err != nil {
			return err
		}
	}
	return testkit.Eventually(ctx, "web to be gone", func(ctx context.Context) (bool, error) {
		if err := touch(web.GroupVersionKind(), "web", "try"); client.IgnoreNotFound(err) != nil {
			return false, err
		}
		return apierrors.IsNotFound(env.Admin.Get(ctx, client.ObjectKeyFromObject(web), web)), nil
	})
}

func (s *stage) childrenGo(ctx context.Context) error {
	return testkit.Eventually(ctx, "what is not asked for any more to go", func(ctx context.Context) (bool, error) {
		for _, gvk := range made {
			var most int
			switch gvk.Kind {
			case "Deployment", "ControllerRevision":
				most = 3
			case "Service":
				most = 2 // of web and of cache
			case "ConfigMap":
				most = 1 // the nginx configuration
			}
			all, err := s.list(ctx, gvk, labelled)
			if err != nil || len(all) > most {
				return false, fmt.Errorf("%d of %s: %w", len(all), gvk.Kind, errors.Join(err, errors.New("not yet")))
			}
		}
		return true, nil
	})
}

// deleteObjects deletes objects that orphan their children.
func (s *stage) deleteObjects(ctx context.Context) error {
	all, err := s.life("little")
	if err != nil {
		return err
	}
	for _, o := range all {
		o.SetNamespace(s.ns)
		if err := env.Admin.Delete(ctx, o); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return testkit.Eventually(ctx, "the objects to be gone", func(ctx context.Context) (bool, error) {
		for _, o := range all {
			if err := env.Admin.Get(ctx, client.ObjectKeyFromObject(o), o); !apierrors.IsNotFound(err) {
				return false, fmt.Errorf("%s is there: %w", o.GetKind(), errors.Join(err, errors.New("not yet")))
			}
		}
		return true, nil
	})
}

// readMetrics requests metrics with an account that is not permitted to read them,
// which causes an access review too.
func (s *stage) readMetrics(ctx context.Context) error {
	return testkit.Eventually(ctx, "metrics to be refused", func(ctx context.Context) (bool, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+s.metrics+"/metrics", nil)
		if err != nil {
			return false, err
		}
		req.Header.Set("Authorization", "Bearer "+s.token)
		res, err := insecure.Do(req)
		if err != nil {
			return false, err
		}
		_ = res.Body.Close()
		return res.StatusCode == http.StatusForbidden, fmt.Errorf("it answers %s", res.Status)
	})
}
