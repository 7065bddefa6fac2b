package workload

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
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

// listPods reads the pods of an object from the cache, by the index of Pods, and those of
// its Jobs. label is the one whose value is the name of the object, and of all labels that
// select its pods, those of Jobs have only that. Without an index, each reconcile would
// visit all pods in the namespace.
func listPods(ctx context.Context, r client.Reader, owner client.Object, label string, all map[string]string) (pods, jobPods []corev1.Pod, err error) {
	var list corev1.PodList
	err = r.List(ctx, &list, client.InNamespace(owner.GetNamespace()), client.MatchingFields{podIndex(label): owner.GetName()})
	if err != nil {
		return nil, nil, fmt.Errorf("listing the pods of %q: %w", owner.GetName(), err)
	}
	selector := labels.SelectorFromSet(all)
	pods = slices.DeleteFunc(list.Items, func(p corev1.Pod) bool {
		if selector.Matches(labels.Set(p.Labels)) {
			return false
		}
		if p.Labels[batchv1.JobNameLabel] != "" {
			jobPods = append(jobPods, p)
		}
		return true
	})
	return pods, jobPods, nil
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
	s.Pods, s.JobPods, err = listPods(ctx, r, owner, label, labels)
	return s, err
}
