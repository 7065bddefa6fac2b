package apply

import (
	"context"
	"encoding/json"
	"os"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/platform-operator/platform-operator/pkg/naming"
)

// The numbers of allocations that a child may need, a Deployment, apart from
// those of the HTTP client and of the cache.
const (
	maxWriteAllocations     = 1063 // it is written
	maxUnchangedAllocations = 62   // it has not changed since it was written
	maxComparedAllocations  = 744  // it has, but fulfils the intent
)

// recorded is a client that encodes what it applies, and decodes a recorded
// answer into it, as that of controller-runtime does.
type recorded struct {
	client.Client
	answer []byte
	cached *appsv1.Deployment // nil: the cache is empty
}

func (r recorded) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	if r.cached == nil {
		return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	}
	*into.(*appsv1.Deployment) = *r.cached
	return nil
}

func (r recorded) Apply(_ context.Context, o runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
	if _, err := json.Marshal(o); err != nil {
		return err
	}
	return json.Unmarshal(r.answer, o)
}

// liveDeployment returns the Deployment of a WebServer, as it was in a cluster,
// and an intent for it.
func liveDeployment(tb testing.TB) (raw []byte, in func() Intent) {
	tb.Helper()
	text, err := os.ReadFile("../caches/testdata/live/deployment.yaml")
	if err != nil {
		tb.Fatal(err)
	}
	if raw, err = yaml.YAMLToJSON(text); err != nil {
		tb.Fatal(err)
	}
	var whole appsv1ac.DeploymentApplyConfiguration
	if err := json.Unmarshal(raw, &whole); err != nil {
		tb.Fatal(err)
	}
	return raw, func() Intent {
		d := appsv1ac.Deployment(*whole.Name, *whole.Namespace).WithLabels(whole.Labels).WithSpec(whole.Spec)
		return New(d, func() *appsv1.Deployment { return &appsv1.Deployment{} })
	}
}

// prepare returns functions that write a Deployment, and that find that it need
// not be written.
func prepare(tb testing.TB) map[string]func() {
	raw, in := liveDeployment(tb)
	ctx, owner := tb.Context(), owner()
	var live appsv1.Deployment
	if err := json.Unmarshal(raw, &live); err != nil {
		tb.Fatal(err)
	}
	c, err := in().complete(owner)
	if err != nil {
		tb.Fatal(err)
	}
	live.OwnerReferences, live.Annotations = ownReferences(), map[string]string{naming.AnnotationOwner: string(ownerUID), naming.AnnotationApplied: c.hash}
	if raw, err = json.Marshal(live); err != nil {
		tb.Fatal(err)
	}
	apply := func(cached *appsv1.Deployment, want Action) func() {
		a := NewApplier(recorded{answer: raw}, recorded{}, nil)
		if cached != nil {
			if _, err := a.Apply(ctx, owner, in()); err != nil {
				tb.Fatal(err)
			}
			a.client = recorded{cached: cached}
		}
		return func() {
			if m := a.owners[ownerUID]; m != nil && cached == nil {
				clear(m) // a child that was created and is missing would be suspected
			}
			if child, err := a.Apply(ctx, owner, in()); err != nil || child.Action != want || child.Live.GetUID() != live.UID {
				tb.Fatal(child, err)
			}
		}
	}
	changed := live.DeepCopy()
	changed.ResourceVersion += "1"
	return map[string]func(){"write": apply(nil, Created), "unchanged": apply(&live, Unchanged), "compared": apply(changed, Unchanged)}
}

func TestApply_IsCheap(t *testing.T) {
	limits := map[string]float64{"write": maxWriteAllocations, "unchanged": maxUnchangedAllocations, "compared": maxComparedAllocations}
	for name, do := range prepare(t) {
		if n := testing.AllocsPerRun(20, do); n > limits[name] {
			t.Errorf("%s: a Deployment needs %.0f allocations, want at most %.0f", name, n, limits[name])
		}
	}
}

func BenchmarkApply(b *testing.B) {
	for name, do := range prepare(b) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				do()
			}
		})
	}
}
