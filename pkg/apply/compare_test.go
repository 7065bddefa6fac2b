package apply

import (
	"encoding/json"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/pkg/apply/compare"
)

// BenchmarkCompare measures the comparison, which every reconcile does for
// every child: `go test -bench Compare -benchmem`.
func BenchmarkCompare(b *testing.B) {
	in := deployment()
	completed, err := in.complete(owner())
	if err != nil {
		b.Fatal(err)
	}
	stated, err := completed.stated()
	if err != nil {
		b.Fatal(err)
	}
	raw, err := json.Marshal(stated)
	if err != nil {
		b.Fatal(err)
	}
	d := &appsv1.Deployment{}
	if err := json.Unmarshal(raw, d); err != nil {
		b.Fatal(err)
	}
	if got := compare.Compare(d, stated, in.Exclusive); got != nil {
		b.Fatalf("got %+v", got)
	}
	b.ReportAllocs()
	for b.Loop() {
		compare.Compare(d, stated, in.Exclusive)
	}
}

// The API server rounds quantities up to a thousandth.
func TestApplier_RoundsQuantitiesAsTheServerDoes(t *testing.T) {
	w := newWorld(t)
	w.mutate = func(o client.Object) {
		o.(*appsv1.Deployment).Spec.Template.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("101m")
	}
	in := func(cpu string) Intent {
		return deployment(func(d *appsv1ac.DeploymentApplyConfiguration) {
			d.Spec.Template.Spec.Containers[0].WithResources(corev1ac.ResourceRequirements().WithRequests(corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}))
		})
	}
	w.pass(in("100500u"))
	w.wrote("apply")
	diff(t, "contested", 0, w.contested)
	w.restart()
	w.pass(in("100500u"))
	w.wrote()
	w.pass(in("102m"))
	w.wrote("apply")
}
