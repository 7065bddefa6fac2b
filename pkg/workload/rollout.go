package workload

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/rollout"
)

// Pods makes changes of pods trigger a reconcile of the object that they belong
// to. key is the label whose value is the object's name, and fixed are the
// other labels of the pods.
func Pods(key string, fixed map[string]string) converge.Watch {
	return converge.Watch{Object: &corev1.Pod{}, Index: podIndex(key), OwnerName: func(pod client.Object) string {
		l := pod.GetLabels()
		for k, v := range fixed {
			if l[k] != v {
				return ""
			}
		}
		return l[key]
	}}
}

// podIndex returns the name of the index of pods by the value of a label.
func podIndex(label string) string { return "pods-by-" + label }

// listPods reads the pods of an object from the cache, by the index of Pods. label
// is the one whose value is the name of the object, and labels are all labels that
// select its pods. Without an index, each reconcile would visit all pods in the
// namespace.
func listPods(ctx context.Context, r client.Reader, owner client.Object, label string, labels map[string]string) ([]corev1.Pod, error) {
	var pods corev1.PodList
	err := r.List(ctx, &pods, client.InNamespace(owner.GetNamespace()), client.MatchingFields{podIndex(label): owner.GetName()}, client.MatchingLabels(labels))
	if err != nil {
		return nil, fmt.Errorf("listing the pods of %q: %w", owner.GetName(), err)
	}
	return pods.Items, nil
}

// ObserveRollout reads from the cache what the rollouts of an object depend on. Pods
// are read even at rest, because replaced pods may run a different image, and
// even without a Deployment, because they may outlive it. label is the one that
// Pods was called with.
func ObserveRollout(ctx context.Context, r client.Reader, owner client.Object, deployment, label string, labels map[string]string) (rollout.Observed, error) {
	var s rollout.Observed
	var err error
	if s.Deployment, err = converge.GetOwned(ctx, r, owner, deployment, &appsv1.Deployment{}); err != nil {
		return s, err
	}
	var revisions appsv1.ControllerRevisionList
	if err := r.List(ctx, &revisions, client.InNamespace(owner.GetNamespace()), client.MatchingFields{naming.IndexOwner: string(owner.GetUID())}); err != nil {
		return s, fmt.Errorf("listing the revisions of %q: %w", owner.GetName(), err)
	}
	for i := range revisions.Items {
		if c := &revisions.Items[i]; c.DeletionTimestamp == nil {
			s.Revisions = append(s.Revisions, c)
		}
	}
	s.Pods, err = listPods(ctx, r, owner, label, labels)
	return s, err
}
