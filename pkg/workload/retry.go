package workload

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/resources"
)

// retries limits how many retries begin in a second. By default, the Deployment controller,
// which sends a request for each, may send 20 (--kube-api-qps).
var retries = flowcontrol.NewTokenBucketRateLimiter(5, 20)

// retried returns when Kubernetes was last made to try again to create pods that were refused,
// for example by a quota, as the value of naming.AnnotationRetriedAt, and how long it is until
// the next time: once a minute, as for the children that the operator itself creates. It returns
// "" in the first minute, and zero values if pods can be created. Of a paused object, it stays.
//
// The ReplicaSet controller doubles its delay up to 1,000 s (DefaultTypedControllerRateLimiter
// of client-go), so after the cause has gone, pods would be missing for as long again. It tries
// at once if its ReplicaSet changes, to which the Deployment controller copies annotations, if
// it is the one of the current template.
func retried(d *appsv1.Deployment, now time.Time, paused bool) (at string, left time.Duration) {
	if d == nil {
		return "", 0
	}
	at = d.Annotations[naming.AnnotationRetriedAt]
	if paused {
		return at, 0
	}
	c := resources.Condition(d, appsv1.DeploymentReplicaFailure)
	if c == nil || c.Status != corev1.ConditionTrue {
		return "", 0
	}
	last, err := time.Parse(time.RFC3339, at)
	if began := c.LastTransitionTime.Time; err != nil || last.Before(began) || last.After(now) {
		at, last = "", began
	}
	switch left = fault.Probe - now.Sub(last); {
	case left > 0:
		return at, min(left, fault.Probe)
	case retries.TryAccept():
		at = now.UTC().Format(time.RFC3339)
	}
	return at, fault.Probe
}
