package apply

import (
	"fmt"
	"reflect"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Snapshots of ConfigMaps have a new name for every content, so any state that
// is kept about deleted children would accumulate for the lifetime of their
// owner.
func TestApplier_ForgetsChildrenThatItDeletedOrReleased(t *testing.T) {
	w := newWorld(t)
	for i := range 10 {
		name := fmt.Sprintf("web-config-%d", i)
		in := func() Intent {
			return New(corev1ac.ConfigMap(name, "ns").WithData(map[string]string{"a": "b"}), func() *corev1.ConfigMap { return &corev1.ConfigMap{} })
		}
		w.pass(in())
		if i%2 == 0 {
			diff(t, "action", Released, w.release(in()))
		} else if err := w.applier.Delete(t.Context(), owner(), "ConfigMap", stored(w, name, &corev1.ConfigMap{})); err != nil {
			t.Fatal(err)
		}
	}
	diff(t, "remembered", 0, w.applier.remembered())
}

func TestApplier_ForgetsChildrenThatThePlanDoesNotName(t *testing.T) {
	w := newWorld(t)
	w.pass(deployment())
	w.applier.ForgetOthers(owner(), []Intent{deployment()})
	diff(t, "remembered while wanted", 1, w.applier.remembered())
	w.applier.ForgetOthers(owner(), nil)
	diff(t, "remembered", 0, w.applier.remembered())
}

// remembered returns the number of children that are remembered.
func (a *Applier) remembered() int {
	n := 0
	for _, m := range a.owners {
		n += len(m)
	}
	return n
}

// The response may be a ConfigMap of 1 MiB.
func TestMemo_HoldsNoObject(t *testing.T) {
	for f := range reflect.TypeFor[memo]().Fields() {
		if k := f.Type.Kind(); k != reflect.String && k != reflect.Int64 {
			t.Errorf("%s is a %s", f.Name, f.Type)
		}
	}
}

func TestApplier_WaitsForTheCacheToHoldItsLastWrite(t *testing.T) {
	w := newWorld(t)
	w.pass(deployment())
	before := stored(w, "web", &appsv1.Deployment{})
	w.pass(deployment(replicas(5)))
	w.writes = nil
	w.cache = func(o client.Object) bool { before.DeepCopyInto(o.(*appsv1.Deployment)); return true }
	w.retries(deployment(replicas(5)))
	w.retries(deployment(replicas(6))) // a stale object is not a base for another intent, either
	w.wrote()
	w.cache = nil
	diff(t, "action", Unchanged, w.pass(deployment(replicas(5))).Action)
}

// An ImmortalContainer counted the earlier pod again, because its UID was not the
// one of the last pod.
func TestApplier_WaitsForTheCacheToDropAnEarlierChild(t *testing.T) {
	w := newWorld(t)
	w.pass(deployment())
	earlier := stored(w, "web", &appsv1.Deployment{})
	earlier.UID = "earlier"
	w.pass(deployment(replicas(5)))
	w.writes = nil
	w.cache = func(o client.Object) bool { earlier.DeepCopyInto(o.(*appsv1.Deployment)); return true }
	w.retries(deployment(replicas(5)))
	w.wrote()
}
