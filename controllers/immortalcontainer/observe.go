package immortalcontainer

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	immortalv1alpha1 "github.com/platform-operator/platform-operator/apis/immortalcontainer/v1alpha1"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/podstate"
)

// Observed is the part of the cluster state that the plan and the status depend on.
// A child that does not exist or is not owned is nil.
type Observed struct {
	Pod    *corev1.Pod
	Policy *networkingv1.NetworkPolicy
	Now    time.Time
	// EndedFor is how long this process has known that the pod ended.
	EndedFor time.Duration
}

func observer(now func() time.Time) func(context.Context, converge.Reader, *immortalv1alpha1.ImmortalContainer) (Observed, error) {
	ended := &endings{since: map[types.UID]time.Time{}}
	return func(ctx context.Context, r converge.Reader, i *immortalv1alpha1.ImmortalContainer) (Observed, error) {
		pod, err := converge.GetOwned(ctx, r, i, podName(i), &corev1.Pod{})
		policy, policyErr := converge.GetOwned(ctx, r, i, podName(i), &networkingv1.NetworkPolicy{})
		t := now()
		return Observed{Pod: pod, Policy: policy, Now: t, EndedFor: ended.of(pod, t)}, errors.Join(err, policyErr)
	}
}

// endings records when this process learned that a pod ended. The pause before the
// next pod cannot depend on the API server's clock alone, which may be ahead of the
// operator's by any amount. A restart of the operator loses the records, and
// repeats the pause at most once.
type endings struct {
	mu    sync.Mutex
	since map[types.UID]time.Time // by the UID of the pod
}

// of returns how long the pod has been known to have ended.
func (e *endings) of(p *corev1.Pod, now time.Time) time.Duration {
	if p == nil || !podstate.HasEnded(p) {
		return 0
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	since, known := e.since[p.UID]
	if !known || now.Before(since) {
		// A clock without a monotonic reading may jump back by any amount. Then the
		// pause starts again, instead of lasting that much longer.
		//
		// Pods are deleted once the pause is over, so older entries are not needed.
		maps.DeleteFunc(e.since, func(_ types.UID, t time.Time) bool { return now.Sub(t) > 10*between })
		e.since[p.UID] = now
		return 0
	}
	return now.Sub(since)
}
