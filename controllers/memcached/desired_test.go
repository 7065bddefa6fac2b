package memcached

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/platform-operator/platform-operator/apis/common"
	cachev1alpha1 "github.com/platform-operator/platform-operator/apis/memcached/v1alpha1"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/rollout"
	"github.com/platform-operator/platform-operator/pkg/testkit/golden"
	"github.com/platform-operator/platform-operator/pkg/workload"
)

// ownerKind is what the reconcile loop passes for every Memcached.
var ownerKind = metav1.GroupVersionKind(cachev1alpha1.GroupVersion.WithKind(cachev1alpha1.Kind))

// platform is the platform configuration of these tests.
var platform = config.Default()

// cases reads the cases in testdata. in.yaml contains the Memcached with its
// status, followed by the live objects, if any.
func cases(t *testing.T) map[string]func() (*cachev1alpha1.Memcached, Observed) {
	t.Helper()
	all := map[string]func() (*cachev1alpha1.Memcached, Observed){}
	for name, docs := range golden.Cases(t) {
		all[name] = func() (*cachev1alpha1.Memcached, Observed) {
			m, o := &cachev1alpha1.Memcached{}, Observed{}
			decode(t, docs[0], m)
			for _, live := range docs[1:] {
				var kind metav1.TypeMeta
				if err := yaml.Unmarshal([]byte(live), &kind); err != nil {
					t.Fatal(err)
				}
				var into any
				switch kind.Kind {
				case "Service":
					o.Service = &corev1.Service{}
					into = o.Service
				case "PodDisruptionBudget":
					o.Budget = &policyv1.PodDisruptionBudget{}
					into = o.Budget
				case "NetworkPolicy":
					o.NetworkPolicy = &networkingv1.NetworkPolicy{}
					into = o.NetworkPolicy
				default:
					t.Fatalf("%s: unknown kind %q", name, kind.Kind)
				}
				decode(t, live, into)
			}
			return m, o
		}
	}
	return all
}

func decode(t *testing.T, doc string, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(doc), into); err != nil {
		t.Fatal(err)
	}
}

func planned(t *testing.T, m *cachev1alpha1.Memcached, o Observed) converge.Plan {
	t.Helper()
	plan, err := desired(m, o, platform)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// printed returns the children as they would be sent, and those that would be
// deleted.
func printed(t *testing.T, m *cachev1alpha1.Memcached, o Observed) []byte {
	t.Helper()
	plan := planned(t, m, o)
	return golden.Children(t, m, ownerKind, plan.Apply, plan.Prune)
}

func decoded(t *testing.T, m *cachev1alpha1.Memcached, in apply.Intent) []byte {
	t.Helper()
	raw, err := in.Object(m, ownerKind)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// typed returns the Deployment and the Service as decoded by the API server.
func typed(t *testing.T, m *cachev1alpha1.Memcached, o Observed) (*appsv1.Deployment, *corev1.Service) {
	t.Helper()
	d, s := &appsv1.Deployment{}, &corev1.Service{}
	for _, in := range planned(t, m, o).Apply {
		switch in.Kind {
		case "Deployment":
			decode(t, string(decoded(t, m, in)), d)
		case "Service":
			decode(t, string(decoded(t, m, in)), s)
		}
	}
	return d, s
}

func sample(change ...func(*cachev1alpha1.Memcached)) *cachev1alpha1.Memcached {
	m := &cachev1alpha1.Memcached{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "example-memcached", UID: "11111111-2222-3333-4444-555555555555", Generation: 2},
		Spec:       cachev1alpha1.MemcachedSpec{Size: 3},
	}
	for _, c := range change {
		c(m)
	}
	return m
}

func withMemory(size string) func(*cachev1alpha1.Memcached) {
	return func(m *cachev1alpha1.Memcached) {
		m.Spec.Memory = &cachev1alpha1.MemorySpec{Size: new(resource.MustParse(size))}
	}
}

func TestDesired(t *testing.T) {
	golden.CompareCases(t, "seed", cases(t), func(t *testing.T, in func() (*cachev1alpha1.Memcached, Observed)) []byte {
		t.Helper()
		m, o := in()
		return printed(t, m, o)
	})
}

func TestDesired_IsDeterministic(t *testing.T) {
	for name, in := range cases(t) {
		t.Run(name, func(t *testing.T) {
			m, o := in()
			first := printed(t, m, o)
			if diff := cmp.Diff(string(first), string(printed(t, m, o))); diff != "" {
				t.Errorf("two passes over the same differ:\n%s", diff)
			}
			before, seen := in()
			if diff := cmp.Diff(before, m); diff != "" {
				t.Errorf("the object was changed:\n%s", diff)
			}
			if diff := cmp.Diff(seen, o); diff != "" {
				t.Errorf("what was observed was changed:\n%s", diff)
			}
		})
	}
}

// These fields are visible to users of the legacy operator, or select the pods of
// an adopted installation, and must never change.
func TestDesired_KeepsTheNamesOfTheLegacyOperator(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "config", "samples", "memcached.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	m := &cachev1alpha1.Memcached{}
	decode(t, string(raw), m)
	m.Namespace = "default"
	d, s := typed(t, m, Observed{})

	pods := map[string]string{"app": "memcached", "memcached_cr": "example-memcached"}
	ours := map[string]string{naming.LabelManagedBy: naming.ManagedBy}
	withPods := map[string]string{"app": "memcached", "memcached_cr": "example-memcached", naming.LabelManagedBy: naming.ManagedBy}
	c := d.Spec.Template.Spec.Containers[0]
	for what, is := range map[string]struct{ want, got any }{
		"object":                                {"Memcached cache.example.com/v1alpha1 example-memcached", m.Kind + " " + m.APIVersion + " " + m.Name},
		"Deployment's name":                     {"example-memcached", d.Name},
		"Deployment's labels":                   {ours, d.Labels},
		"replicas":                              {int32(3), *d.Spec.Replicas},
		"selector":                              {&metav1.LabelSelector{MatchLabels: pods}, d.Spec.Selector},
		"pod labels":                            {withPods, d.Spec.Template.Labels},
		"number of containers":                  {1, len(d.Spec.Template.Spec.Containers)},
		"container's name":                      {"memcached", c.Name},
		"command":                               {[]string{"memcached"}, c.Command},
		"ports":                                 {[]corev1.ContainerPort{{Name: "memcached", ContainerPort: 11211, Protocol: corev1.ProtocolTCP}}, c.Ports},
		"Service's name":                        {"example-memcached", s.Name},
		"Service's labels":                      {withPods, s.Labels},
		"Service's selector":                    {pods, s.Spec.Selector},
		"Service's cluster IP":                  {corev1.ClusterIPNone, s.Spec.ClusterIP},
		"Service names pods that are not ready": {true, s.Spec.PublishNotReadyAddresses},
		"Service's ports": {[]corev1.ServicePort{
			{Name: "memcached", Protocol: corev1.ProtocolTCP, Port: 11211, TargetPort: intstr.FromInt32(11211)},
		}, s.Spec.Ports},
	} {
		if diff := cmp.Diff(is.want, is.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
}

// memcached parses "-m=64" as 0: 1.4 then has no limit, and 1.6 does not start.
func TestDesired_Arguments(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*cachev1alpha1.Memcached)
		want   string
	}{
		"legacy sample": {func(*cachev1alpha1.Memcached) {}, "-m 64 -c 1024 -t 4 -p 11211 -U 0 -o modern -v"},
		"memory":        {withMemory("1Gi"), "-m 1024 -c 1024 -t 4 -p 11211 -U 0 -o modern -v"},
		"bytes":         {withMemory("67108864"), "-m 64 -c 1024 -t 4 -p 11211 -U 0 -o modern -v"},
		"the most":      {withMemory("1Ti"), "-m 1048576 -c 1024 -t 4 -p 11211 -U 0 -o modern -v"},
		"no memory":     {func(m *cachev1alpha1.Memcached) { m.Spec.Memory = &cachev1alpha1.MemorySpec{} }, "-m 64 -c 1024 -t 4 -p 11211 -U 0 -o modern -v"},
		"connections":   {func(m *cachev1alpha1.Memcached) { m.Spec.MaxConnections = new(int32(1)) }, "-m 64 -c 1 -t 4 -p 11211 -U 0 -o modern -v"},
		"threads":       {func(m *cachev1alpha1.Memcached) { m.Spec.Threads = new(int32(16)) }, "-m 64 -c 1024 -t 16 -p 11211 -U 0 -o modern -v"},
	} {
		t.Run(name, func(t *testing.T) {
			words := args(sample(tc.change))
			if got := strings.Join(words, " "); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			if i := slices.IndexFunc(words, func(w string) bool { return strings.ContainsAny(w, "= ") }); i >= 0 {
				t.Errorf("%q is not one word", words[i])
			}
		})
	}
}

func TestDesired_ContainerLimit(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*cachev1alpha1.Memcached)
		want   string
	}{
		"legacy sample": {func(*cachev1alpha1.Memcached) {}, "180Mi"}, // 64 + 16 + 64 + 32 + 4
		"memory":        {withMemory("1Gi"), "1380Mi"},
		"rounded up":    {withMemory("2Mi"), "103Mi"}, // 2 + 0.5 + 100
		"connections": {
			func(m *cachev1alpha1.Memcached) { m.Spec.MaxConnections = new(int32(65536)) }, "2196Mi",
		},
		"threads": {func(m *cachev1alpha1.Memcached) { m.Spec.Threads = new(int32(64)) }, "240Mi"},
	} {
		t.Run(name, func(t *testing.T) {
			m := sample(tc.change)
			if got := quantity(containerLimit(m)); got.Cmp(resource.MustParse(tc.want)) != 0 {
				t.Errorf("got %s, want %s", got.String(), tc.want)
			}
			d, _ := typed(t, m, Observed{})
			r := d.Spec.Template.Spec.Containers[0].Resources
			if r.Limits.Memory().Cmp(*r.Requests.Memory()) != 0 {
				t.Errorf("limit %s, request %s", r.Limits.Memory(), r.Requests.Memory())
			}
		})
	}
}

func TestDesired_Image(t *testing.T) {
	for name, tc := range map[string]struct{ spec, status, want string }{
		"the platform's":                        {"", "", "memcached:1.6"},
		"the user's":                            {"mine:1", "", "mine:1"},
		"the user's before what served":         {"mine:1", "memcached:1.5", "mine:1"},
		"what served before the platform's new": {"", "memcached:1.5", "memcached:1.5"},
	} {
		t.Run(name, func(t *testing.T) {
			m := sample()
			m.Spec.Image, m.Status.Image = tc.spec, tc.status
			if got := image(m, platform.Memcached); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// Learning which image serves is not a reason to write.
func TestDesired_DoesNotDependOnTheReportedImage(t *testing.T) {
	before, after := sample(), sample()
	after.Status.Image = platform.Memcached.Image
	if diff := cmp.Diff(string(printed(t, before, Observed{})), string(printed(t, after, Observed{}))); diff != "" {
		t.Errorf("the children change with the status:\n%s", diff)
	}
}

func TestDesired_KeepsTheClusterIPOfTheService(t *testing.T) {
	live := func(ip string) *corev1.Service { return &corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: ip}} }
	for name, tc := range map[string]struct {
		live *corev1.Service
		want string
	}{
		"no Service":         {nil, corev1.ClusterIPNone},
		"headless":           {live(corev1.ClusterIPNone), corev1.ClusterIPNone},
		"legacy, with an IP": {live("10.0.0.10"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if _, s := typed(t, sample(), Observed{Service: tc.live}); s.Spec.ClusterIP != tc.want {
				t.Errorf("cluster IP %q is stated, want %q", s.Spec.ClusterIP, tc.want)
			}
		})
	}
	refused := func(paths ...string) error {
		var errs field.ErrorList
		for _, p := range paths {
			errs = append(errs, field.Invalid(field.NewPath("spec", p), "None", "may not change once set"))
		}
		return apierrors.NewInvalid(schema.GroupKind{Kind: "Service"}, "example-memcached", errs)
	}
	for name, tc := range map[string]struct {
		refused error
		want    bool
	}{
		"for its IP":                {refused("clusterIP"), true},
		"for its IPs":               {refused("clusterIPs[0]", "clusterIP"), true},
		"for something else":        {refused("ports"), false},
		"for its IP and more":       {refused("clusterIP", "ports"), false},
		"for a reason that is none": {apierrors.NewBadRequest("no"), false},
	} {
		t.Run("refused "+name, func(t *testing.T) {
			m := sample()
			other, got := service(m, Observed{}).Fallback(tc.refused)
			if got != tc.want {
				t.Errorf("falls back: %v, want %v", got, tc.want)
			}
			if bytes.Contains(decoded(t, m, other), []byte("clusterIP\"")) {
				t.Error("the fallback states a cluster IP")
			}
		})
	}
}

func TestWatches_MapPodsToTheirCache(t *testing.T) {
	for name, tc := range map[string]struct {
		labels map[string]string
		want   string
	}{
		"a node":             {map[string]string{"app": "memcached", "memcached_cr": "a"}, "a"},
		"of another kind":    {map[string]string{"app": "webserver", "webserver_cr": "a"}, ""},
		"with one label":     {map[string]string{"memcached_cr": "a"}, ""},
		"with the other one": {map[string]string{"app": "memcached"}, ""},
		"without any":        {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Kind(platform).Watches[0].OwnerName(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: tc.labels}}); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// Only fields that affect pods create a revision.
func TestInputs_ContainOnlyFieldsThatAffectPods(t *testing.T) {
	of := func(change ...func(*cachev1alpha1.MemcachedSpec)) string {
		m := sample()
		for _, c := range change {
			c(&m.Spec)
		}
		raw, err := json.Marshal(inputs(m))
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	// A field that is added by a later version must not look like a change.
	if got := of(); got != `{"size":0}` {
		t.Errorf("got inputs %s of a spec without pod fields", got)
	}
	type spec = cachev1alpha1.MemcachedSpec
	for name, tc := range map[string]struct {
		change   func(*spec)
		revision bool
	}{
		"size":                {func(s *spec) { s.Size = 9 }, false},
		"deletionPolicy":      {func(s *spec) { s.DeletionPolicy = common.DeletionPolicyOrphan }, false},
		"paused":              {func(s *spec) { s.Paused = true }, false},
		"podDisruptionBudget": {func(s *spec) { s.PodDisruptionBudget = &common.PodDisruptionBudget{} }, false},
		"networkPolicy":       {func(s *spec) { s.NetworkPolicy = &common.NetworkPolicy{} }, false},
		"service":             {func(s *spec) { s.Service = &cachev1alpha1.ServiceSpec{} }, false},
		"rollout.maxSurge":    {func(s *spec) { s.Rollout = &common.Rollout{MaxSurge: new(intstr.FromInt32(1))} }, false},
		"rollout.restartedAt": {func(s *spec) { s.Rollout = &common.Rollout{RestartedAt: &metav1.Time{}} }, true},
		"image":               {func(s *spec) { s.Image = "a" }, true},
		"imagePullPolicy":     {func(s *spec) { s.ImagePullPolicy = corev1.PullAlways }, true},
		"imagePullSecrets":    {func(s *spec) { s.ImagePullSecrets = []common.LocalObjectReference{{Name: "a"}} }, true},
		"memory":              {func(s *spec) { s.Memory = &cachev1alpha1.MemorySpec{} }, true},
		"maxConnections":      {func(s *spec) { s.MaxConnections = new(int32(1)) }, true},
		"threads":             {func(s *spec) { s.Threads = new(int32(1)) }, true},
		"resources":           {func(s *spec) { s.Resources = &common.Resources{} }, true},
		"pod":                 {func(s *spec) { s.Pod = &common.Pod{} }, true},
		"security":            {func(s *spec) { s.Security = &common.Security{} }, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := of(tc.change) != of(); got != tc.revision {
				t.Errorf("makes a revision: %v, want %v", got, tc.revision)
			}
		})
	}
	if fields := reflect.TypeFor[spec]().NumField(); fields != 16 {
		t.Errorf("the spec has %d fields: does the new one make a revision?", fields)
	}
}

// kept returns the revision of a plan as it exists in the cluster.
func kept(t *testing.T, m *cachev1alpha1.Memcached, o Observed) *appsv1.ControllerRevision {
	t.Helper()
	r := &appsv1.ControllerRevision{}
	for _, in := range planned(t, m, o).Apply {
		if in.Kind == "ControllerRevision" {
			decode(t, string(decoded(t, m, in)), r)
		}
	}
	return r
}

// An image that the spec does not set belongs to the revision: another default of
// the platform, or another image that has been serving, is not a change.
func TestRevision_KeepsItsImage(t *testing.T) {
	m := sample()
	m.Status.Image = "memcached:1.5"
	first := kept(t, m, Observed{})
	o := Observed{Observed: rollout.Observed{Revisions: []*appsv1.ControllerRevision{first}}}
	m.Status.Image = "memcached:1.4"
	if d, _ := typed(t, m, o); d.Spec.Template.Spec.Containers[0].Image != "memcached:1.5" {
		t.Errorf("image is %s", d.Spec.Template.Spec.Containers[0].Image)
	}
	d, err := decide(m, o, platform)
	if err != nil {
		t.Fatal(err)
	}
	st := common.RolloutStatus{}
	d.Report(&st, nil, nil, 3, containerName, converge.Outcome{Now: time.Now()})
	if len(st.PendingChanges) != 0 {
		t.Errorf("changes wait: %q", st.PendingChanges)
	}
	// A change that affects pods creates another revision, with the image that has
	// been serving.
	m.Spec.Threads = new(int32(8))
	if d, _ := typed(t, m, o); d.Spec.Template.Spec.Containers[0].Image != "memcached:1.4" {
		t.Errorf("image of the next revision is %s", d.Spec.Template.Spec.Containers[0].Image)
	}
}

// Upgrading the operator does not restart pods: the template of a revision is kept,
// and how a new one would differ is reported.
func TestRevision_KeepsItsTemplate(t *testing.T) {
	m := sample()
	r := kept(t, m, Observed{})
	r.Data.Raw = bytes.ReplaceAll(r.Data.Raw, []byte("modern"), []byte("earlier"))
	r.Data.Raw = bytes.ReplaceAll(r.Data.Raw, []byte(r.Annotations[naming.AnnotationTemplate]), []byte("earlier"))
	o := Observed{Observed: rollout.Observed{Revisions: []*appsv1.ControllerRevision{r}}}
	if d, _ := typed(t, m, o); !slices.Contains(d.Spec.Template.Spec.Containers[0].Args, "earlier") {
		t.Errorf("args %v", d.Spec.Template.Spec.Containers[0].Args)
	}
	report(m, o, outcome(nil, nil), platform)
	if diff := cmp.Diff([]string{"spec.containers[memcached].args would change"}, m.Status.PendingChanges); diff != "" {
		t.Errorf("pendingChanges (-want +got):\n%s", diff)
	}
	if m.Spec.Paused = true; !Kind(platform).Paused(m) {
		t.Error("spec.paused is not heard")
	}
}

// Pods were once spread over zones by a second constraint.
func TestRevision_KeepsTheSpreadOfItsPods(t *testing.T) {
	m := sample()
	r := kept(t, m, Observed{})
	var data struct {
		Template map[string]any `json:"template"`
	}
	if err := json.Unmarshal(r.Data.Raw, &data); err != nil {
		t.Fatal(err)
	}
	spec := data.Template["spec"].(map[string]any)
	delete(spec, "affinity")
	zone := maps.Clone(spec["topologySpreadConstraints"].([]any)[0].(map[string]any))
	zone["topologyKey"] = "topology.kubernetes.io/zone"
	spec["topologySpreadConstraints"] = append(spec["topologySpreadConstraints"].([]any), zone)
	raw, err := json.Marshal(data)
	if err != nil {
		t.Fatal(err)
	}
	r.Data.Raw = bytes.ReplaceAll(raw, []byte(r.Annotations[naming.AnnotationTemplate]), []byte("earlier"))
	o := Observed{Observed: rollout.Observed{Revisions: []*appsv1.ControllerRevision{r}}}
	d, _ := typed(t, m, o)
	if got := d.Spec.Template.Spec; got.Affinity != nil || len(got.TopologySpreadConstraints) != 2 {
		t.Errorf("the pods are restarted: %v %v", got.Affinity, got.TopologySpreadConstraints)
	}
	report(m, o, outcome(nil, nil), platform)
	if diff := cmp.Diff([]string{"spec.affinity would be added", "spec.topologySpreadConstraints would change"}, m.Status.PendingChanges); diff != "" {
		t.Errorf("pendingChanges (-want +got):\n%s", diff)
	}
}

func TestDesired_NoPodDisruptionBudgetIfAnotherSelectsThePods(t *testing.T) {
	theirs := policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}}
	theirs.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{labelApp: app}}
	o := Observed{Children: workload.Children{Budget: &policyv1.PodDisruptionBudget{}, Budgets: []policyv1.PodDisruptionBudget{theirs}}}
	made := func(m *cachev1alpha1.Memcached) bool {
		plan := planned(t, m, o)
		is := slices.ContainsFunc(plan.Apply, func(in apply.Intent) bool { return in.Kind == "PodDisruptionBudget" })
		if is == (len(plan.Prune) == 1) {
			t.Errorf("got PodDisruptionBudget created %v and deleted %v, want exactly one", is, plan.Prune)
		}
		return is
	}
	if made(sample()) {
		t.Error("a second PodDisruptionBudget selects the pods although the spec does not set one")
	}
	if !made(sample(func(m *cachev1alpha1.Memcached) {
		m.Spec.PodDisruptionBudget = &common.PodDisruptionBudget{MaxUnavailable: new(intstr.FromInt32(2))}
	})) {
		t.Error("what is asked for is not made")
	}
	o.Budgets[0].Spec.Selector.MatchLabels[labelApp] = "other"
	if !made(sample()) {
		t.Error("the other one selects other pods")
	}
}

func TestCommands_AreThoseOfMemcached(t *testing.T) {
	for text, want := range map[string]bool{
		"memcached": true, "memcached -m=64 -o modern -v": true, "-m 64 -c 1024 -t 4 -p 11211 -U 0 -o modern -v": true,
		"sh": false, "sh -c evil": false, "memcached; sh": false, "-o modern\nsh": false, "-P /run/x": false, "--unix=/run/x": false, "-m 64 evil sh": false,
	} {
		if got := commands.MatchString(text); got != want {
			t.Errorf("%q: got %t", text, got)
		}
	}
}
