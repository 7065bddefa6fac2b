// Package eviction replaces pods before they are evicted. An eviction that would leave
// too few pods is refused until another pod is available, or until ten minutes have
// passed (docs/decisions/0045-evictions.md). The webhook records the request on the pod, from
// which the controllers decide.
package eviction

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/podstate"
)

const (
	// Wait is how long an eviction is refused at most.
	Wait = 10 * time.Minute
	// forget is when a request counts as a new one: until then, an eviction that has
	// waited for too long is allowed.
	forget = 2 * Wait
)

// Request is a request to evict a pod. The zero value is none.
type Request struct {
	// At is the time of the first request.
	At time.Time
	// Over reports that the pod may be evicted although it was not replaced.
	Over bool
}

// Until returns when the request is over.
func (r Request) Until() time.Time { return r.At.Add(Wait) }

// Of returns the request to evict one of an object's pods: the first one that is not
// over. Pods that are being deleted or have ended do not count.
func Of(pods []corev1.Pod, now time.Time) Request {
	var first Request
	for i := range pods {
		r := of(&pods[i], now)
		if !r.At.IsZero() && (first.At.IsZero() || first.Over && !r.Over || first.Over == r.Over && r.At.Before(first.At)) {
			first = r
		}
	}
	return first
}

// of returns the request to evict a pod. One from the future, by a clock that is ahead by
// more than the time that it may wait, does not count.
func of(p *corev1.Pod, now time.Time) Request {
	at, err := time.Parse(time.RFC3339, p.Annotations[naming.AnnotationEvictionRequested])
	age := now.Sub(at)
	if err != nil || p.DeletionTimestamp != nil || podstate.HasEnded(p) || age < -Wait || age >= forget {
		return Request{}
	}
	return Request{At: at, Over: age >= Wait}
}
