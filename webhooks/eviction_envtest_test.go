//go:build envtest

package webhooks

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/pkg/naming"
)

// TestEviction_WaitsForAnotherPod checks that the API server asks before it evicts the only
// pod of an object whose node is drained, and what clients get.
func TestEviction_WaitsForAnotherPod(t *testing.T) {
	labels := map[string]string{"app": "evicted", naming.LabelManagedBy: naming.ManagedBy}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "evicted", Labels: labels,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "evicted", UID: "0a", Controller: new(true)}},
		},
		Spec: corev1.PodSpec{
			NodeName: "leaving", Containers: []corev1.Container{{Name: "c", Image: "nginx"}}, AutomountServiceAccountToken: new(false),
			TerminationGracePeriodSeconds: new(int64(0)),
		},
	}
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "evicted", Labels: labels, Annotations: map[string]string{naming.AnnotationKeepAvailable: "1"}},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "evicted"}}},
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "leaving"}}
	for _, o := range []client.Object{node, budget, pod} {
		if err := admin.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = admin.Delete(t.Context(), o) })
	}
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	budget.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: budget.Generation, ExpectedPods: 1, CurrentHealthy: 1, DisruptionsAllowed: 1}
	if err := errors.Join(admin.Status().Update(t.Context(), pod), admin.Status().Update(t.Context(), budget)); err != nil {
		t.Fatal(err)
	}
	evict := func(options ...client.SubResourceCreateOption) error {
		return admin.SubResource("eviction").Create(t.Context(), pod, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "evicted"}}, options...)
	}

	node.Spec.Unschedulable = true
	if err := admin.Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := evict(); !apierrors.IsTooManyRequests(err) {
			t.Fatalf("got %v, want too many requests", err)
		}
	}
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
		t.Fatal(err)
	}
	if at, err := time.Parse(time.RFC3339, pod.Annotations[naming.AnnotationEvictionRequested]); err != nil || time.Since(at) > time.Minute {
		t.Errorf("the annotations are %v", pod.Annotations)
	}
	if err := evict(client.DryRunAll); err != nil {
		t.Errorf("a dry run: %v", err)
	}

	budget.Status.CurrentHealthy = 2
	if err := admin.Status().Update(t.Context(), budget); err != nil {
		t.Fatal(err)
	}
	if err := evict(); err != nil {
		t.Errorf("with another pod: %v", err)
	}
}
