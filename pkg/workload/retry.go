package workload

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/podstate"
	"github.com/platform-operator/platform-operator/pkg/resources"
)

// retries limits how many retries begin in a second. By default, the Deployment controller,
// which sends a request for each, may send 20 (--kube-api-qps).
var retries = flowcontrol.NewTokenBucketRateLimiter(5, 20)

// retried returns when the Deployment controller was last made to try again what the API server
// refuses to it, as the value of naming.AnnotationRetriedAt, and how long it is until the next
// time: once a minute, as for the children that the operator itself writes. It returns "" in the
// first minute, and zero values if nothing is refused. Of a paused object, it stays.
//
// It tries at once if its Deployment changes, and so does the ReplicaSet controller, because the
// Deployment controller copies annotations to the ReplicaSet of the current template. Without
// that, pods would be missing for as long again after the cause has gone, and a rollout would
// not continue for minutes: the ReplicaSet controller doubles its delay up to 1,000 s
// (DefaultTypedControllerRateLimiter of client-go), and the Deployment controller gives up
// after 15 attempts.
func retried(d *appsv1.Deployment, pods []corev1.Pod, now time.Time, paused bool) (at string, left time.Duration) {
	if d == nil {
		return "", 0
	}
	at = d.Annotations[naming.AnnotationRetriedAt]
	if paused {
		return at, 0
	}
	began, refused := refusedSince(d, pods, at != "")
	if !refused {
		return "", 0
	}
	last, err := time.Parse(time.RFC3339, at)
	if err != nil || last.After(now) {
		at = ""
	}
	if at == "" || last.Before(began) {
		last = began
	}
	switch left = fault.Probe - now.Sub(last); {
	case left > 0:
		return at, min(left, fault.Probe)
	case retries.TryAccept():
		at = now.UTC().Format(time.RFC3339)
	}
	return at, fault.Probe
}

// refusedSince returns since when pods could not be created, or a rollout could continue but
// does not, and false if neither is so.
func refusedSince(d *appsv1.Deployment, pods []corev1.Pod, retried bool) (since time.Time, refused bool) {
	if c := resources.Condition(d, appsv1.DeploymentReplicaFailure); c != nil && c.Status == corev1.ConditionTrue {
		return c.LastTransitionTime.Time, true
	}
	// A retry raises the generation, which a controller that fails does not observe.
	if d.Status.ObservedGeneration < d.Generation && !retried {
		return since, false
	}
	if c := resources.Condition(d, appsv1.DeploymentProgressing); c != nil {
		since = c.LastUpdateTime.Time
	}
	isCurrent := map[bool]bool{}
	for i := range pods {
		p := &pods[i]
		if p.DeletionTimestamp != nil || podstate.HasEnded(p) {
			continue
		}
		ready, ok := podstate.ReadySince(p)
		if !ok {
			return since, false
		}
		if ready = ready.Add(time.Duration(d.Spec.MinReadySeconds) * time.Second); ready.After(since) {
			since = ready
		}
		isCurrent[p.Annotations[naming.AnnotationTemplate] == d.Spec.Template.Annotations[naming.AnnotationTemplate]] = true
	}
	return since, len(isCurrent) == 2
}
