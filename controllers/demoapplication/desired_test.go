package demoapplication

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"

	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

var update = flag.Bool("update", false, "rewrite testdata/*/want.yaml")

// ownerKind is what the loop passes for every DemoApplication.
var ownerKind = metav1.GroupVersionKind{Group: "paas.cmft.com", Version: "v1", Kind: "DemoApplication"}

// golden reads the cases under testdata: in.yaml holds the DemoApplication, and
// after it the children that are live, if there are any.
func golden(t *testing.T) map[string]func() (*demoapplicationv1.DemoApplication, Observed) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "*", "in.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases under testdata: %v", err)
	}
	cases := map[string]func() (*demoapplicationv1.DemoApplication, Observed){}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		docs := strings.Split(string(raw), "---\n")
		a, o := &demoapplicationv1.DemoApplication{}, Observed{}
		into := []any{a}
		for _, doc := range docs[1:] {
			o.Cluster = true
			if strings.Contains(doc, "kind: Deployment") {
				o.Deployment = &appsv1.Deployment{}
				into = append(into, o.Deployment)
			} else {
				o.Service = &corev1.Service{}
				into = append(into, o.Service)
			}
		}
		for i, doc := range docs {
			if err := yaml.UnmarshalStrict([]byte(doc), into[i]); err != nil {
				t.Fatalf("%s: %v", f, err)
			}
		}
		cases[filepath.Base(filepath.Dir(f))] = func() (*demoapplicationv1.DemoApplication, Observed) {
			return a.DeepCopy(), Observed{Cluster: o.Cluster, Deployment: o.Deployment.DeepCopy(), Service: o.Service.DeepCopy()}
		}
	}
	return cases
}

// printed is the children as they would be sent, and what would be deleted. It
// is made from their JSON, because {} and an absent field are not the same in a
// pod template.
func printed(t *testing.T, a *demoapplicationv1.DemoApplication, o Observed) []byte {
	t.Helper()
	plan := desired(a, o)
	var docs [][]byte
	for _, in := range plan.Apply {
		raw, err := in.Object(a, ownerKind)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := yaml.JSONToYAML(raw)
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, doc)
	}
	for _, p := range plan.Prune {
		docs = append(docs, []byte("# deleted: "+p.GetName()+"\n"))
	}
	return bytes.Join(docs, []byte("---\n"))
}

func TestDesired(t *testing.T) {
	for name, in := range golden(t) {
		t.Run(name, func(t *testing.T) {
			a, o := in()
			got := printed(t, a, o)
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
			a, o := in()
			first := printed(t, a, o)
			if diff := cmp.Diff(string(first), string(printed(t, a, o))); diff != "" {
				t.Errorf("two passes over the same differ:\n%s", diff)
			}
			before, seen := in()
			if diff := cmp.Diff(before, a); diff != "" {
				t.Errorf("the object was changed:\n%s", diff)
			}
			if diff := cmp.Diff(seen, o); diff != "" {
				t.Errorf("what was observed was changed:\n%s", diff)
			}
		})
	}
}

func TestEveryChildCarriesOwnerLabelAndHash(t *testing.T) {
	for name, in := range golden(t) {
		t.Run(name, func(t *testing.T) {
			a, o := in()
			for _, in := range desired(a, o).Apply {
				raw, err := in.Object(a, ownerKind)
				if err != nil {
					t.Fatal(err)
				}
				var c metav1.PartialObjectMetadata
				if err := json.Unmarshal(raw, &c); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff([]metav1.OwnerReference{{
					APIVersion: "paas.cmft.com/v1", Kind: "DemoApplication", Name: a.Name, UID: a.UID,
					Controller: new(true), BlockOwnerDeletion: new(true),
				}}, c.OwnerReferences); diff != "" {
					t.Errorf("%s: owner (-want +got):\n%s", c.Kind, diff)
				}
				if c.Labels[naming.LabelManagedBy] != naming.ManagedBy || c.Annotations[naming.AnnotationOwner] != string(a.UID) ||
					c.Annotations[naming.AnnotationApplied] == "" || c.Namespace != a.Namespace || c.Name != a.Name {
					t.Errorf("%s: %+v", c.Kind, c.ObjectMeta)
				}
			}
		})
	}
}

// What the article's readers see, with the fault of its own YAML mended: a node
// port needs a Service of type NodePort.
func TestWhatTheArticleShows(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "config", "samples", "demoapplication_v1.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	a := &demoapplicationv1.DemoApplication{}
	if err := yaml.UnmarshalStrict(raw, a); err != nil {
		t.Fatal(err)
	}
	a.Namespace = "default"
	d, s := typed(t, a, Observed{})

	pods := map[string]string{"app": "nginx-demo", "demoapplication_cr": "nginx-demo"}
	withOurs := maps.Clone(pods)
	withOurs[naming.LabelManagedBy] = naming.ManagedBy
	c := d.Spec.Template.Spec.Containers[0]

	for what, is := range map[string]struct{ want, got any }{
		"Deployment's name":    {"nginx-demo", d.Name},
		"replicas":             {int32(2), *d.Spec.Replicas},
		"selector":             {&metav1.LabelSelector{MatchLabels: pods}, d.Spec.Selector},
		"pod labels":           {withOurs, d.Spec.Template.Labels},
		"number of containers": {1, len(d.Spec.Template.Spec.Containers)},
		"container's name":     {"nginx-demo", c.Name},
		"image":                {"nginx:latest", c.Image},
		"container's ports":    {[]corev1.ContainerPort{{ContainerPort: 80, Protocol: corev1.ProtocolTCP}}, c.Ports},
		"Service's name":       {"nginx-demo", s.Name},
		"Service's selector":   {pods, s.Spec.Selector},
		"Service's type":       {corev1.ServiceTypeNodePort, s.Spec.Type},
		"Service's ports": {[]corev1.ServicePort{
			{Protocol: corev1.ProtocolTCP, Port: 80, TargetPort: intstr.FromInt32(80), NodePort: 30002},
		}, s.Spec.Ports},
	} {
		if diff := cmp.Diff(is.want, is.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
}

// Nothing is known of what the article's operator made before the Deployment
// is ours, so the Service waits for it; without a cluster there is nothing to
// wait for.
func TestServiceComesAfterTheDeployment(t *testing.T) {
	d, s := &appsv1.Deployment{}, &corev1.Service{}
	for name, tc := range map[string]struct {
		o    Observed
		want int
	}{
		"render":           {Observed{}, 2},
		"nothing stands":   {Observed{Cluster: true}, 1},
		"the first stands": {Observed{Cluster: true, Deployment: d}, 2},
		"both stand":       {Observed{Cluster: true, Deployment: d, Service: s}, 2},
		"the first is lost, and made anew with its Service in place": {Observed{Cluster: true, Service: s}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			if got := desired(sample(), tc.o); len(got.Apply) != tc.want || len(got.Prune) != 0 {
				t.Errorf("%d children to apply and %d to prune, want %d and none", len(got.Apply), len(got.Prune), tc.want)
			}
		})
	}
}

func TestOnlyARefusedSelectorFallsBackToTheArticles(t *testing.T) {
	refused := func(fields ...string) error {
		var errs field.ErrorList
		for _, f := range fields {
			errs = append(errs, field.Invalid(field.NewPath(f), "", "field is immutable"))
		}
		return apierrors.NewInvalid(schema.GroupKind{Group: "apps", Kind: "Deployment"}, "nginx-demo", errs)
	}
	for name, tc := range map[string]struct {
		refused error
		want    bool
	}{
		"the selector":          {refused("spec.selector"), true},
		"something else":        {refused("spec.replicas"), false},
		"something else beside": {refused("spec.selector", "spec.replicas"), false},
	} {
		t.Run(name, func(t *testing.T) {
			a := sample()
			in, ok := deployment(a, Observed{Cluster: true}).Fallback(tc.refused)
			if ok != tc.want {
				t.Fatalf("falls back: %v, want %v", ok, tc.want)
			}
			raw, err := in.Object(a, ownerKind)
			if err != nil {
				t.Fatal(err)
			}
			d := &appsv1.Deployment{}
			if err := json.Unmarshal(raw, d); err != nil {
				t.Fatal(err)
			}
			if !isArticles(a, d) || d.Spec.Template.Labels[kindLabel] != a.Name {
				t.Errorf("selector %v, pod labels %v", d.Spec.Selector, d.Spec.Template.Labels)
			}
			// The next pass must state the same, or it would write again.
			again, err := deployment(a, Observed{Cluster: true, Deployment: d}).Object(a, ownerKind)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(raw), string(again)); diff != "" {
				t.Errorf("the pass after it (-fallback +next):\n%s", diff)
			}
		})
	}
}

// refusals says what the Pod Security Standard "baseline", in its newest
// version, has against a pod.
func refusals(t *testing.T, pod corev1.PodTemplateSpec) string {
	t.Helper()
	e, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	r := policy.AggregateCheckResults(e.EvaluatePod(
		api.LevelVersion{Level: api.LevelBaseline, Version: api.LatestVersion()}, &pod.ObjectMeta, &pod.Spec))
	return r.ForbiddenDetail()
}

func TestPodsMeetTheBaselineStandard(t *testing.T) {
	for name, in := range golden(t) {
		t.Run(name, func(t *testing.T) {
			a, o := in()
			d, _ := typed(t, a, o)
			if got := refusals(t, d.Spec.Template); got != "" {
				t.Errorf("refused: %s", got)
			}
		})
	}
}

// The check above is worth something only if it can fail.
func TestBaselineStandardRefusesLess(t *testing.T) {
	for name, loosen := range map[string]func(*corev1.PodSpec){
		"privileged":         func(p *corev1.PodSpec) { p.Containers[0].SecurityContext.Privileged = new(true) },
		"the node's network": func(p *corev1.PodSpec) { p.HostNetwork = true },
		"no seccomp":         func(p *corev1.PodSpec) { p.SecurityContext.SeccompProfile.Type = corev1.SeccompProfileTypeUnconfined },
	} {
		t.Run(name, func(t *testing.T) {
			d, _ := typed(t, sample(), Observed{})
			loosen(&d.Spec.Template.Spec)
			if got := refusals(t, d.Spec.Template); got == "" {
				t.Error("it is accepted")
			}
		})
	}
}

// An image runs as the user it names and writes where it likes.
func TestImagesRunAsTheyAre(t *testing.T) {
	d, _ := typed(t, sample(), Observed{})
	pod, c := d.Spec.Template.Spec.SecurityContext, d.Spec.Template.Spec.Containers[0].SecurityContext
	if pod.RunAsNonRoot != nil || pod.RunAsUser != nil || c.ReadOnlyRootFilesystem != nil || c.AllowPrivilegeEscalation != nil || c.Capabilities != nil {
		t.Errorf("pod %+v, container %+v", pod, c)
	}
}

func sample() *demoapplicationv1.DemoApplication {
	return &demoapplicationv1.DemoApplication{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "nginx-demo", UID: "11111111-2222-3333-4444-555555555555", Generation: 2},
		Spec: demoapplicationv1.DemoApplicationSpec{
			Image: "nginx:latest", Replica: new(int32(2)),
			Ports: []demoapplicationv1.Port{{Port: 80, TargetPort: new(intstr.FromInt32(80)), NodePort: new(int32(30002))}},
		},
	}
}

// typed is the children as the API server would decode them; the Service is
// empty where there is none.
func typed(t *testing.T, a *demoapplicationv1.DemoApplication, o Observed) (*appsv1.Deployment, *corev1.Service) {
	t.Helper()
	d, s := &appsv1.Deployment{}, &corev1.Service{}
	into := []any{d, s}
	for i, in := range desired(a, o).Apply {
		raw, err := in.Object(a, ownerKind)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.UnmarshalStrict(raw, into[i]); err != nil {
			t.Fatal(err)
		}
	}
	return d, s
}
