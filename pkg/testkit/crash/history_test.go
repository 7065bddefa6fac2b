package crash

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/platform-operator/platform-operator/pkg/testkit"
)

// On a slow machine, objects may still change when a run ends, and the watches show it
// before the next list.
func TestRun_SeenWhenObjectsChangeAfterAList(t *testing.T) {
	t.Parallel()
	h := &history{newest: map[types.UID]uint64{}}
	first := true
	admin := interceptor.NewClient(fake.NewClientBuilder().WithObjects(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "ns", UID: "1"},
	}).Build(), interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
		err := c.List(ctx, l, opts...)
		if items := l.(*unstructured.UnstructuredList).Items; first && err == nil {
			first = false
			u := items[0].DeepCopy()
			u.SetLabels(map[string]string{"changed": "true"})
			err = c.Update(ctx, u)
			h.add(watch.Event{Type: watch.Modified, Object: u})
		}
		return err
	}})
	r := &run{Campaign: Campaign{Env: &testkit.Env{Admin: admin}}, kinds: []schema.GroupVersionKind{corev1.SchemeGroupVersion.WithKind("ConfigMap")}}
	r.world.Namespace = "ns"
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if err := r.seen(ctx, h); err != nil {
		t.Error(err)
	}
}
