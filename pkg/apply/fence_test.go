package apply

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/pkg/fault"
)

func image(s string) func(*appsv1ac.DeploymentApplyConfiguration) {
	return func(d *appsv1ac.DeploymentApplyConfiguration) { d.Spec.Template.Spec.Containers[0].WithImage(s) }
}

// staleCache makes the cache keep the Deployment in its current state.
func (w *world) staleCache() {
	before := stored(w, "web", &appsv1.Deployment{})
	w.cache = func(o client.Object) bool {
		d, ok := o.(*appsv1.Deployment)
		if ok {
			before.DeepCopyInto(d)
		}
		return ok
	}
}

func TestApplier_DoesNotUndoChangesThatTheCacheLacks(t *testing.T) {
	for name, tc := range map[string]struct {
		meanwhile func(*world)
		check     func(*testing.T, *appsv1.Deployment)
	}{
		"the garbage collector removed the owner": { // kubectl delete --cascade=orphan
			func(w *world) {
				byHand(w, "web", &appsv1.Deployment{}, func(d *appsv1.Deployment) { d.OwnerReferences = nil })
			},
			func(t *testing.T, d *appsv1.Deployment) { diff(t, "owners", 0, len(d.OwnerReferences)) },
		},
		"another leader applied a later spec": {
			func(w *world) {
				w.restart()
				w.pass(deployment(image("web:2")))
			},
			func(t *testing.T, d *appsv1.Deployment) {
				diff(t, "image", "web:2", d.Spec.Template.Spec.Containers[0].Image)
			},
		},
		"another leader applied the same spec with another hash": { // because of values that it learned from the cluster
			func(w *world) {
				w.restart()
				w.pass(deployment(image("web:0"), func(d *appsv1ac.DeploymentApplyConfiguration) { d.WithLabels(map[string]string{"team": "a"}) }))
			},
			func(t *testing.T, d *appsv1.Deployment) { diff(t, "label", "a", d.Labels["team"]) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.pass(deployment(image("web:0")))
			paused := w.applier
			w.staleCache()
			stale := w.cache
			w.cache = nil
			tc.meanwhile(w)
			w.cache, w.applier = stale, paused
			w.retries(deployment(image("web:1")))
			tc.check(t, stored(w, "web", &appsv1.Deployment{}))
		})
	}
}

// The status of a Deployment changes many times during a rollout. This must not
// prevent a spec from being applied until the rollout is over.
func TestApplier_AppliesThoughTheStatusChanged(t *testing.T) {
	w := newWorld(t)
	w.pass(deployment(image("web:0")))
	byHand(w, "web", &appsv1.Deployment{}, func(d *appsv1.Deployment) { d.Generation = 1 })
	w.staleCache()
	d := stored(w, "web", &appsv1.Deployment{})
	status := func() {
		d.Status.Replicas++
		if err := w.server.Status().Update(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	status()
	w.writes = nil
	w.refuse = func(_ string, n int) error {
		if n == 2 { // again, between the read and the second write
			status()
		}
		return nil
	}
	diff(t, "action", Changed, w.pass(deployment(image("web:1"))).Action)
	w.wrote("apply", "apply", "apply")
}

func TestApplier_HandsOverOnlyObservedVersions(t *testing.T) {
	w := newWorld(t)
	w.pass(deployment(replicas(4)))
	w.staleCache()
	byHand(w, "web", &appsv1.Deployment{}, func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(40)) })
	w.retries(autoscaled())
	diff(t, "replicas", int32(40), *stored(w, "web", &appsv1.Deployment{}).Spec.Replicas)
	w.cache = nil
	w.pass(autoscaled())
	diff(t, "replicas", int32(40), *stored(w, "web", &appsv1.Deployment{}).Spec.Replicas)
}

// The garbage collector removes the owner reference of an orphan before the
// cache observes the deletion of the owner. Restoring the reference would
// delete the child.
func TestApplier_RestoresTheOwnerOnlyIfItExists(t *testing.T) {
	now := func(o *corev1.ConfigMap) {
		o.DeletionTimestamp, o.Finalizers = new(metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))), []string{"orphan"}
	}
	for name, tc := range map[string]struct {
		owner func(*corev1.ConfigMap)
		want  []string
	}{
		"it exists":            {func(*corev1.ConfigMap) {}, []string{"apply"}},
		"it is being deleted":  {now, nil},
		"another has its name": {func(o *corev1.ConfigMap) { o.UID = "owner-2" }, nil},
		"it is deleted":        {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.replaceOwner(tc.owner)
			w.pass(deployment())
			byHand(w, "web", &appsv1.Deployment{}, func(d *appsv1.Deployment) { d.OwnerReferences = nil })
			w.writes = nil
			if tc.want == nil {
				w.retries(deployment())
			} else {
				w.pass(deployment())
			}
			w.wrote(tc.want...)
		})
	}
}

// A leader that was paused for longer than its lease acts on a spec that
// another leader has replaced.
func TestApplier_WritesNothingOnceTheReconcileIsTooOld(t *testing.T) {
	elapsed := time.Duration(0)
	aged := owner()
	aged.Elapsed = func() time.Duration { return elapsed }
	for name, tc := range map[string]struct {
		prepare func(*world)
		write   func(*world) error
	}{
		"create": {func(*world) {}, func(w *world) error {
			_, err := w.applier.Apply(t.Context(), aged, deployment())
			return err
		}},
		"update": {func(w *world) { w.pass(deployment()) }, func(w *world) error {
			_, err := w.applier.Apply(t.Context(), aged, deployment(replicas(5)))
			return err
		}},
		"reclaim": {func(w *world) {
			w.pass(deployment())
			byHand(w, "web", &appsv1.Deployment{}, func(d *appsv1.Deployment) {
				d.Spec.Template.Spec.Containers[0].Command = []string{"sh"}
			})
		}, func(w *world) error {
			_, err := w.applier.Apply(t.Context(), aged, deployment())
			return err
		}},
		"hand over": {func(w *world) { w.pass(deployment()) }, func(w *world) error {
			_, err := w.applier.Apply(t.Context(), aged, autoscaled())
			return err
		}},
		"delete": {func(w *world) { w.pass(deployment()) }, func(w *world) error {
			return w.applier.Delete(t.Context(), aged, "Deployment", stored(w, "web", &appsv1.Deployment{}))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			tc.prepare(w)
			w.writes = nil
			elapsed = maxAge + time.Millisecond
			if v := fault.Classify(tc.write(w)); v.Class != fault.Quiet || v.Result.RequeueAfter == 0 {
				t.Errorf("got %+v, want a quiet retry", v)
			}
			w.wrote()
			elapsed = maxAge
			if err := tc.write(w); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestApplier_DeletesOnlyObservedVersions(t *testing.T) {
	w := newWorld(t)
	w.pass(deployment())
	seen := stored(w, "web", &appsv1.Deployment{})
	byHand(w, "web", &appsv1.Deployment{}, func(d *appsv1.Deployment) { d.OwnerReferences = nil })
	err := w.applier.Delete(t.Context(), owner(), "Deployment", seen)
	if v := fault.Classify(err); v.Class != fault.Quiet {
		t.Errorf("got %v, want a quiet retry", err)
	}
	stored(w, "web", &appsv1.Deployment{})
}
