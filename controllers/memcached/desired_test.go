package memcached

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	cachev1alpha1 "github.com/platform-operator/platform-operator/apis/memcached/v1alpha1"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

var update = flag.Bool("update", false, "rewrite testdata/*/want.yaml")

// ownerKind is what the loop passes for every Memcached.
var ownerKind = metav1.GroupVersionKind(cachev1alpha1.GroupVersion.WithKind(cachev1alpha1.Kind))

// platform is the configuration of these tests.
var platform = config.Memcached{Image: "memcached:1.6"}

// golden reads the cases under testdata: in.yaml holds the Memcached, with its
// status, and after it the Service that is live, if there is one.
func golden(t *testing.T) map[string]func() (*cachev1alpha1.Memcached, Observed) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "*", "in.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases under testdata: %v", err)
	}
	cases := map[string]func() (*cachev1alpha1.Memcached, Observed){}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		cache, live, hasLive := strings.Cut(string(raw), "\n---\n")
		cases[filepath.Base(filepath.Dir(f))] = func() (*cachev1alpha1.Memcached, Observed) {
			m, o := &cachev1alpha1.Memcached{}, Observed{}
			decode(t, cache, m)
			if hasLive {
				o.Service = &corev1.Service{}
				decode(t, live, o.Service)
			}
			return m, o
		}
	}
	return cases
}

func decode(t *testing.T, doc string, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(doc), into); err != nil {
		t.Fatal(err)
	}
}

// printed is the children as they would be sent, from their JSON: {} and an
// absent field are not the same in a pod template.
func printed(t *testing.T, m *cachev1alpha1.Memcached, o Observed) []byte {
	t.Helper()
	var docs [][]byte
	for _, in := range desired(m, o, platform).Apply {
		doc, err := yaml.JSONToYAML(object(t, m, in))
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, doc)
	}
	return bytes.Join(docs, []byte("---\n"))
}

func object(t *testing.T, m *cachev1alpha1.Memcached, in apply.Intent) []byte {
	t.Helper()
	raw, err := in.Object(m, ownerKind)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// typed is both children as the API server would decode them.
func typed(t *testing.T, m *cachev1alpha1.Memcached, o Observed) (*appsv1.Deployment, *corev1.Service) {
	t.Helper()
	d, s := &appsv1.Deployment{}, &corev1.Service{}
	plan := desired(m, o, platform)
	if len(plan.Apply) != 2 || len(plan.Prune) != 0 {
		t.Fatalf("%d children to apply and %d to prune, want a Deployment and a Service", len(plan.Apply), len(plan.Prune))
	}
	decode(t, string(object(t, m, plan.Apply[0])), d)
	decode(t, string(object(t, m, plan.Apply[1])), s)
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
	for name, in := range golden(t) {
		t.Run(name, func(t *testing.T) {
			m, o := in()
			got := printed(t, m, o)
			path := filepath.Join("testdata", name, "want.yaml")
			if *update {
				if err := os.WriteFile(path, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("children; if it is meant: go test -update (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDesiredIsPureAndDeterministic(t *testing.T) {
	for name, in := range golden(t) {
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

// What the seed's readers see and what selects the pods of an installation
// that is taken over. All of it is fixed for ever.
func TestWhatTheSeedShows(t *testing.T) {
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

// memcached reads "-m=64" as 0: 1.4 then has no limit, 1.6 does not start.
func TestArgumentsAreSeparateWords(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*cachev1alpha1.Memcached)
		want   string
	}{
		"the seed's":  {func(*cachev1alpha1.Memcached) {}, "-m 64 -c 1024 -t 4 -p 11211 -U 0 -o modern -v"},
		"memory":      {withMemory("1Gi"), "-m 1024 -c 1024 -t 4 -p 11211 -U 0 -o modern -v"},
		"bytes":       {withMemory("67108864"), "-m 64 -c 1024 -t 4 -p 11211 -U 0 -o modern -v"},
		"the most":    {withMemory("1Ti"), "-m 1048576 -c 1024 -t 4 -p 11211 -U 0 -o modern -v"},
		"no memory":   {func(m *cachev1alpha1.Memcached) { m.Spec.Memory = &cachev1alpha1.MemorySpec{} }, "-m 64 -c 1024 -t 4 -p 11211 -U 0 -o modern -v"},
		"connections": {func(m *cachev1alpha1.Memcached) { m.Spec.MaxConnections = new(int32(1)) }, "-m 64 -c 1 -t 4 -p 11211 -U 0 -o modern -v"},
		"threads":     {func(m *cachev1alpha1.Memcached) { m.Spec.Threads = new(int32(16)) }, "-m 64 -c 1024 -t 16 -p 11211 -U 0 -o modern -v"},
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

func TestContainerLimit(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*cachev1alpha1.Memcached)
		want   string
	}{
		"the seed's": {func(*cachev1alpha1.Memcached) {}, "180Mi"}, // 64 + 16 + 64 + 32 + 4
		"memory":     {withMemory("1Gi"), "1380Mi"},
		"rounded up": {withMemory("2Mi"), "103Mi"}, // 2 + 0.5 + 100
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

func TestImage(t *testing.T) {
	for name, tc := range map[string]struct{ spec, status, want string }{
		"the platform's":                        {"", "", "memcached:1.6"},
		"the user's":                            {"mine:1", "", "mine:1"},
		"the user's before what served":         {"mine:1", "memcached:1.5", "mine:1"},
		"what served before the platform's new": {"", "memcached:1.5", "memcached:1.5"},
	} {
		t.Run(name, func(t *testing.T) {
			m := sample()
			m.Spec.Image, m.Status.Image = tc.spec, tc.status
			if got := image(m, platform); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// To learn which image serves is no reason to write.
func TestLearningTheImageChangesNothing(t *testing.T) {
	before, after := sample(), sample()
	after.Status.Image = platform.Image
	if diff := cmp.Diff(string(printed(t, before, Observed{})), string(printed(t, after, Observed{}))); diff != "" {
		t.Errorf("the children change with the status:\n%s", diff)
	}
}

func TestServiceThatHasAnIPKeepsIt(t *testing.T) {
	live := func(ip string) *corev1.Service { return &corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: ip}} }
	for name, tc := range map[string]struct {
		live *corev1.Service
		want string
	}{
		"none stands":           {nil, corev1.ClusterIPNone},
		"headless":              {live(corev1.ClusterIPNone), corev1.ClusterIPNone},
		"the seed's with an IP": {live("10.0.0.10"), ""},
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
			if bytes.Contains(object(t, m, other), []byte("clusterIP\"")) {
				t.Error("the fallback states a cluster IP")
			}
		})
	}
}

func TestPodsLeadToTheirCache(t *testing.T) {
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
			if got := cacheOf(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: tc.labels}}); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
