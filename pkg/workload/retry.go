package workload

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/platform-operator/platform-operator/apis/common"
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
func retried(q retry) (at string, left time.Duration, noStep bool) {
	if q.deployment == nil {
		return "", 0, false
	}
	at = q.deployment.Annotations[naming.AnnotationRetriedAt]
	if q.paused {
		return at, 0, false
	}
	began, noStep, refused := q.refusedSince(at != "")
	if !refused {
		return "", 0, false
	}
	last, err := time.Parse(time.RFC3339, at)
	if err != nil || last.After(q.now) {
		at = ""
	}
	if at == "" || last.Before(began) {
		last = began
	}
	switch left = fault.Probe - q.now.Sub(last); {
	case left > 0:
		return at, min(left, fault.Probe), noStep && at != ""
	case retries.TryAccept():
		at = q.now.UTC().Format(time.RFC3339)
	}
	return at, fault.Probe, noStep && at != ""
}

// retry is what retried depends on.
type retry struct {
	deployment *appsv1.Deployment
	pods       []corev1.Pod
	now        time.Time
	// incomplete is since when the object has waited for its pods, or zero if it does not.
	incomplete time.Time
	// held reports that the pods of two revisions are to stay, or were until a moment ago.
	paused, held bool
}

// retry returns what retried depends on. c are the conditions of the object.
func (m *Model) retry(c []metav1.Condition, paused bool) retry {
	d := m.observed.Deployment
	q := retry{deployment: d, pods: m.observed.Pods, now: m.observed.Now, paused: paused, held: m.Decision.Canary()}
	if r := m.spec.Rollout; d != nil && r != nil && r.Canary != nil && d.Status.AvailableReplicas < d.Status.Replicas {
		q.held = true
	}
	if c := meta.FindStatusCondition(c, common.ConditionReconciling); c != nil && c.Status == metav1.ConditionTrue {
		q.incomplete = c.LastTransitionTime.Time
	}
	return q
}

// refusedSince returns since when something is refused, and false if nothing is. If noStep is
// set, that follows from what does not happen: the Deployment controller does not report that
// its requests fail.
func (q retry) refusedSince(retried bool) (since time.Time, noStep, refused bool) {
	d := q.deployment
	for _, c := range d.Status.Conditions {
		switch {
		case podstate.ReplicaSetRefused(c), c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue:
			return c.LastTransitionTime.Time, false, true
		case c.Type == appsv1.DeploymentProgressing:
			since = c.LastUpdateTime.Time
		}
	}
	rollsOut := d.Status.UpdatedReplicas < d.Status.Replicas
	if q.held || q.incomplete.IsZero() || !rollsOut && d.Status.Replicas == resources.Replicas(d) && d.Status.ObservedGeneration >= d.Generation {
		return since, false, false
	}
	// Once it is retried, that goes on until it is complete: each retry raises the
	// generation, which a controller that fails does not observe.
	if retried {
		return later(since, q.incomplete), q.allReady(&since), true
	}
	// A change during a rollout is not waited for since then.
	if rollsOut && d.Status.ObservedGeneration < d.Generation || !q.allReady(&since) {
		return since, false, false
	}
	return later(since, q.incomplete), true, true
}

// allReady reports whether all pods that the Deployment counts are known and ready, and moves
// since to when the last one became available.
func (q retry) allReady(since *time.Time) bool {
	var n int32
	for i := range q.pods {
		p := &q.pods[i]
		if podstate.HasEnded(p) || p.DeletionTimestamp != nil && q.deployment.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType {
			continue // the next step does not wait for it
		}
		ready, ok := podstate.ReadySince(p)
		if !ok || p.DeletionTimestamp != nil {
			return false
		}
		*since = later(*since, ready.Add(time.Duration(q.deployment.Spec.MinReadySeconds)*time.Second))
		n++
	}
	return n >= q.deployment.Status.Replicas
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
