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
)

// maxWriteAllocations is how many allocations a write of a Deployment may need,
// apart from those of the HTTP client.
const maxWriteAllocations = 914

// recorded is a client that encodes what it applies, and decodes a recorded
// answer into it, as that of controller-runtime does. Its cache is empty.
type recorded struct {
	client.Client
	answer []byte
}

func (recorded) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
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
	text, err := os.ReadFile("../operator/testdata/live/deployment.yaml")
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

func write(tb testing.TB) func() {
	raw, in := liveDeployment(tb)
	a := NewApplier(recorded{answer: raw}, recorded{}, NoRecorder{})
	ctx, owner := tb.Context(), owner()
	return func() {
		if child, err := a.Apply(ctx, owner, in()); err != nil || child.Live.GetUID() == "" {
			tb.Fatal(child, err)
		}
	}
}

func TestApply_WritesCheaply(t *testing.T) {
	if n := testing.AllocsPerRun(20, write(t)); n > maxWriteAllocations {
		t.Errorf("a write of a Deployment needs %.0f allocations, want at most %d", n, maxWriteAllocations)
	}
}

func BenchmarkApply_Write(b *testing.B) {
	do := write(b)
	b.ReportAllocs()
	for b.Loop() {
		do()
	}
}
