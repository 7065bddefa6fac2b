package apply

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/pkg/naming"
)

// release releases the child and returns the action.
func (w *world) release(in Intent) Action {
	w.t.Helper()
	action, err := w.applier.Release(w.t.Context(), owner(), in)
	if err != nil {
		w.t.Fatal(err)
	}
	return action
}

func TestApplier_ReleasesAChildThatTheCacheDoesNotHold(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*appsv1.Deployment)
		label  string // the remaining value of app.kubernetes.io/managed-by
	}{
		"its label was removed":     {func(d *appsv1.Deployment) { delete(d.Labels, naming.LabelManagedBy) }, ""},
		"its label was overwritten": {func(d *appsv1.Deployment) { d.Labels[naming.LabelManagedBy] = "Helm" }, "Helm"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.pass(deployment())
			byHand(w, "web", &appsv1.Deployment{}, tc.change)
			w.writes = nil
			diff(t, "action", Released, w.release(deployment()))
			w.wrote("patch application/merge-patch+json")
			d := stored(w, "web", &appsv1.Deployment{})
			diff(t, "owners", 0, len(d.OwnerReferences))
			diff(t, "annotations", []string{}, append([]string{}, sortedKeys(d.Annotations)...))
			diff(t, "label", tc.label, d.Labels[naming.LabelManagedBy])
		})
	}
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

// Another client removed the annotations of the child, and then the garbage
// collector its owner reference. Only the operator writes the reference to the
// Namespace together with its label.
func TestApplier_ReleasesARetainedChildThatNamesNoOwner(t *testing.T) {
	namespace := metav1.OwnerReference{APIVersion: "v1", Kind: "Namespace", Name: "ns", UID: "n"}
	for name, tc := range map[string]struct {
		labels, annotations map[string]string
		owners              []metav1.OwnerReference
		want                Action
	}{
		"retained":               {labels: map[string]string{naming.LabelManagedBy: naming.ManagedBy}, owners: []metav1.OwnerReference{namespace}, want: Released},
		"of another object":      {labels: map[string]string{naming.LabelManagedBy: naming.ManagedBy}, annotations: map[string]string{naming.AnnotationOwner: "other"}, owners: []metav1.OwnerReference{namespace}, want: Unchanged},
		"with another owner":     {labels: map[string]string{naming.LabelManagedBy: naming.ManagedBy}, owners: []metav1.OwnerReference{namespace, {APIVersion: "v1", Kind: "ConfigMap", Name: "c", UID: "c"}}, want: Unchanged},
		"not retained":           {labels: map[string]string{naming.LabelManagedBy: naming.ManagedBy}, want: Unchanged},
		"without the label":      {owners: []metav1.OwnerReference{namespace}, want: Unchanged},
		"managed by another one": {labels: map[string]string{naming.LabelManagedBy: "Helm"}, owners: []metav1.OwnerReference{namespace}, want: Unchanged},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
				Namespace: "ns", Name: "web", Labels: tc.labels, Annotations: tc.annotations, OwnerReferences: tc.owners,
			}})
			diff(t, "action", tc.want, w.release(deployment()))
			if d := stored(w, "web", &appsv1.Deployment{}); tc.want == Released && len(d.Labels)+len(d.OwnerReferences) > 0 {
				t.Errorf("labels %v, owners %v", d.Labels, d.OwnerReferences)
			}
		})
	}
}

func TestApplier_ReportsAChildThatIsDeletedBeforeItsRelease(t *testing.T) {
	now := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	w := newWorld(t, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "web", OwnerReferences: ownReferences(), Labels: map[string]string{naming.LabelManagedBy: naming.ManagedBy},
		DeletionTimestamp: &now, Finalizers: []string{metav1.FinalizerDeleteDependents},
	}})
	diff(t, "action", Lost, w.release(deployment()))
	w.wrote()
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
