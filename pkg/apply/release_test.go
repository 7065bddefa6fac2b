package apply

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

// release releases the child and returns the action.
func (w *world) release(in Intent) Action {
	w.t.Helper()
	return w.releaseOf(ownerWith(common.DeletionPolicyOrphan), in)
}

func (w *world) releaseOf(owner Owner, in Intent) Action {
	w.t.Helper()
	before := len(w.actions)
	if err := w.applier.Release(w.t.Context(), owner, in); err != nil {
		w.t.Fatal(err)
	}
	if len(w.actions) == before {
		return Unchanged
	}
	return w.actions[before]
}

func TestApplier_ReleasesAChildThatDoesNotExist(t *testing.T) {
	w := newWorld(t)
	diff(t, "action", Unchanged, w.release(deployment()))
	w.wrote()
}

// A leftover annotation would take effect if the child was handed over to an
// object again: scaled-by, for example, means that its replicas were handed
// over.
func TestApplier_ReleasesEveryMark(t *testing.T) {
	w := newWorld(t)
	w.pass(deployment())
	byHand(w, "web", &appsv1.Deployment{}, func(d *appsv1.Deployment) {
		d.Labels["team"], d.Annotations["note"] = "a", "b"
		d.Labels[naming.Domain+"/of"] = "web"
		d.Annotations[naming.AnnotationScaledBy], d.Annotations[naming.AnnotationSource] = "HorizontalPodAutoscaler", "spec"
		d.Spec.Template.Annotations = map[string]string{naming.AnnotationRestartedAt: "then"}
	})
	w.writes = nil
	diff(t, "action", Released, w.release(deployment()))
	d := stored(w, "web", &appsv1.Deployment{})
	diff(t, "labels", map[string]string{"team": "a"}, d.Labels)
	diff(t, "annotations", map[string]string{"note": "b"}, d.Annotations)
	// Removing this annotation would replace the pods.
	diff(t, "annotations of the pods", map[string]string{naming.AnnotationRestartedAt: "then"}, d.Spec.Template.Annotations)
}

func TestApplier_ReleasesTheMarksOfAChildWhoseOwnerReferenceWasRemoved(t *testing.T) {
	w := newWorld(t)
	w.pass(deployment())
	byHand(w, "web", &appsv1.Deployment{}, func(d *appsv1.Deployment) { d.OwnerReferences = nil })
	diff(t, "action", Released, w.release(deployment()))
	diff(t, "annotations", 0, len(stored(w, "web", &appsv1.Deployment{}).Annotations))
}

// The object was deleted before a change of its policy was reconciled. A child without an
// owner reference is kept, because that loses nothing.
func TestApplier_ReleasesWhatOutlivesItsOwner(t *testing.T) {
	now := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	orphan := func(o *metav1.ObjectMeta) {
		o.Annotations = map[string]string{naming.AnnotationOwner: string(ownerUID), naming.AnnotationOrphanOf: "WebServer.my.domain/web"}
	}
	controlled := func(o *metav1.ObjectMeta) { o.OwnerReferences = ownReferences() }
	for name, tc := range map[string]struct {
		policy common.DeletionPolicy
		child  []func(*metav1.ObjectMeta)
		want   Action
	}{
		"Orphan, without a reference": {common.DeletionPolicyOrphan, []func(*metav1.ObjectMeta){orphan}, Released},
		"Orphan, with a reference":    {common.DeletionPolicyOrphan, []func(*metav1.ObjectMeta){controlled}, Released},
		"Delete, without a reference": {common.DeletionPolicyDelete, []func(*metav1.ObjectMeta){orphan}, Released},
		"Delete, with a reference":    {common.DeletionPolicyDelete, []func(*metav1.ObjectMeta){controlled}, Unchanged},
		"of another object": {common.DeletionPolicyOrphan, []func(*metav1.ObjectMeta){orphan, func(o *metav1.ObjectMeta) {
			o.Annotations = map[string]string{naming.AnnotationOwner: "other", naming.AnnotationOrphanOf: "WebServer.my.domain/other"}
		}}, Unchanged},
		"being deleted": {common.DeletionPolicyOrphan, []func(*metav1.ObjectMeta){orphan, func(o *metav1.ObjectMeta) {
			o.DeletionTimestamp, o.Finalizers = &now, []string{metav1.FinalizerDeleteDependents}
		}}, Unchanged},
	} {
		t.Run(name, func(t *testing.T) {
			d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", Labels: map[string]string{naming.LabelManagedBy: naming.ManagedBy}}}
			for _, change := range tc.child {
				change(&d.ObjectMeta)
			}
			w := newWorld(t, d)
			diff(t, "action", tc.want, w.releaseOf(ownerWith(tc.policy), deployment()))
			if d := stored(w, "web", &appsv1.Deployment{}); tc.want == Released && len(d.Labels)+len(d.OwnerReferences)+len(d.Annotations) > 0 {
				t.Errorf("labels %v, owners %v, annotations %v", d.Labels, d.OwnerReferences, d.Annotations)
			}
		})
	}
}

func TestIntent_OnReleaseChangesTheChildInTheSameRequest(t *testing.T) {
	pod := func() Intent {
		in := New(corev1ac.Pod("web", "ns").WithSpec(corev1ac.PodSpec().
			WithSchedulingGates(corev1ac.PodSchedulingGate().WithName("example.com/gate")).
			WithContainers(corev1ac.Container().WithName("web").WithImage("nginx:1"))),
			func() *corev1.Pod { return &corev1.Pod{} })
		in.OnRelease = func(live client.Object) { live.(*corev1.Pod).Spec.SchedulingGates = nil }
		return in
	}
	w := newWorld(t)
	w.pass(pod())
	w.writes = nil
	diff(t, "action", Released, w.release(pod()))
	w.wrote("patch application/merge-patch+json")
	diff(t, "gates", 0, len(stored(w, "web", &corev1.Pod{}).Spec.SchedulingGates))
}
