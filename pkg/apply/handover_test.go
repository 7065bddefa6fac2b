package apply

import (
	"errors"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/pkg/apply/compare"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

// autoscaled returns an intent without replicas, which are handed over.
func autoscaled() Intent {
	in := deployment(func(d *appsv1ac.DeploymentApplyConfiguration) {
		d.Spec.Replicas = nil
		d.WithAnnotations(map[string]string{naming.AnnotationScaledBy: "HorizontalPodAutoscaler"})
	})
	in.ReleaseFields = func(live client.Object) runtime.ApplyConfiguration {
		d := live.(*appsv1.Deployment)
		if !compare.HasAppliedReplicas(d) {
			return nil
		}
		return appsv1ac.Deployment(d.Name, d.Namespace).WithUID(d.UID).WithSpec(appsv1ac.DeploymentSpec().WithReplicas(*d.Spec.Replicas))
	}
	return in
}

// legacy returns a Deployment that another operator created for owner().
func legacy(labels map[string]string) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", OwnerReferences: ownReferences(), Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(40)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx:0"}}},
			},
		},
	}
}

// Server-side apply removes the replicas if no other manager owns them: 40 pods
// would become one.
func TestApplier_HandsOverReplicasOnEveryPath(t *testing.T) {
	for name, tc := range map[string]struct {
		prepare func(*world)
		intent  func() Intent
	}{
		"the child is updated": {prepare: func(w *world) { w.pass(deployment(replicas(40))) }},
		"something is reclaimed": {prepare: func(w *world) {
			w.pass(deployment(replicas(40)))
			byHand(w, "web", &appsv1.Deployment{}, func(d *appsv1.Deployment) { // kubectl set env
				d.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "DEBUG", Value: "1"}}
			})
		}},
		"the annotation of an earlier template is restored": {prepare: func(w *world) {
			w.pass(autoscaled())
			w.pass(deployment(replicas(40)))
			byHand(w, "web", &appsv1.Deployment{}, func(d *appsv1.Deployment) { // kubectl rollout undo
				d.Annotations[naming.AnnotationScaledBy] = "HorizontalPodAutoscaler"
			})
		}},
		"the cache does not hold the child": {prepare: func(w *world) {
			w.pass(deployment(replicas(40)))
			byHand(w, "web", &appsv1.Deployment{}, func(d *appsv1.Deployment) { delete(d.Labels, naming.LabelManagedBy) })
		}},
		"a child of another operator is taken over": {prepare: func(w *world) { w.create(legacy(nil)) }},
		"a child with our label is taken over": {prepare: func(w *world) {
			w.create(legacy(map[string]string{naming.LabelManagedBy: naming.ManagedBy}))
		}},
		"the fallback is applied": {
			prepare: func(w *world) {
				w.pass(deployment(replicas(40)))
				refused := errors.New("refused")
				w.refuse = func(verb string, n int) error {
					if verb == "apply" && n == 3 { // after the hand-over
						return refused
					}
					return nil
				}
			},
			intent: func() Intent {
				in := autoscaled()
				in.Fallback = func(error) (Intent, bool) { return autoscaled(), true }
				return in
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			tc.prepare(w)
			if tc.intent == nil {
				tc.intent = autoscaled
			}
			w.pass(tc.intent())
			if got := stored(w, "web", &appsv1.Deployment{}).Spec.Replicas; got == nil || *got != 40 {
				t.Errorf("replicas: got %v, want 40", got)
			}
			w.writes = nil
			w.pass(tc.intent())
			w.wrote()
		})
	}
}
