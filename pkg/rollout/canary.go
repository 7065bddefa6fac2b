package rollout

import (
	"math"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/conditions"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/podstate"
	"github.com/platform-operator/platform-operator/pkg/resources"
)

// The pods of a canary serve next to all pods of the earlier revision. The Deployment
// holds them: it may not end an old pod before a new one is available, and new ones are
// not available before minReadySeconds, which only the ReplicaSet of the new revision
// has. One request starts the rollout and the hold, so that no more pods follow whatever
// happens to the operator, and another one ends it: whether a revision is held is read
// from the Deployment.
const (
	// neverAvailable is minReadySeconds during the hold. Kubernetes requires that the
	// deadline is longer, and applies no deadline if it is unlimited.
	neverAvailable = math.MaxInt32 - 1
	unlimited      = math.MaxInt32
)

const defaultHold = 5 * time.Minute

// Canary reports whether the revision that should serve is held as a canary.
func (d *Decision) Canary() bool { return d.canary }

// Unsettled reports whether another canary waits for pods of the earlier revision.
func (d *Decision) Unsettled() bool { return d.unsettled > 0 }

// isCanary reports whether the revision that should serve is held as a canary. A hold
// begins with the first pods of a revision, if there is another one to return to. What
// ends it is in the spec or, if its pods were ready for long enough, in the Deployment.
func (d *Decision) isCanary(seen Observed) bool {
	live, r := seen.Deployment, d.question.Rollout
	switch {
	case r == nil || r.Canary == nil || d.preparing || d.pinned && !d.held:
		return false
	case live == nil || d.question.Idle || resources.Replicas(live) == 0:
		return false
	case r.PromotedRevision != nil && *r.PromotedRevision == d.Serving.Number:
		return false
	case live.Spec.Template.Annotations[naming.AnnotationTemplate] != d.Serving.hash:
		return d.back != nil && d.Serving.name == d.Desired.name
	}
	return isHeld(live) && (d.memory.failed.is(d.Serving) || !d.promotes(seen))
}

// isHeld reports whether a Deployment holds the pods of its template, or did before another
// client changed it.
func isHeld(live *appsv1.Deployment) bool {
	hash := live.Annotations[naming.AnnotationCanary]
	return live.Spec.MinReadySeconds == neverAvailable || hash != "" && hash == live.Spec.Template.Annotations[naming.AnnotationTemplate]
}

// startsWithin is how long another canary waits for pods of the earlier revision.
const startsWithin = time.Minute

// settle keeps a canary that is to be replaced by another one while pods of the earlier
// revision start: of the pods that are not available, the Deployment controller removes
// those of the oldest revision first.
func (d *Decision) settle(history []Revision, seen Observed) {
	live := seen.Deployment
	if live == nil || !isHeld(live) || d.back == nil || d.Serving.name != d.Desired.name || d.pinned {
		return
	}
	held, ok := servedBy(live, history, d.memory.current)
	if !ok || held.hash == d.Serving.hash {
		return
	}
	for _, p := range podsOf(seen.Pods, d.back.hash) {
		if !podstate.Ready(p) {
			now := d.question.Now
			d.unsettled = max(d.unsettled, remaining(countedFrom(p.CreationTimestamp.Time, d.waiting(now), now), startsWithin, now))
		}
	}
	if d.unsettled > 0 {
		d.Serving, d.held = held, true
	}
}

// promotes reports whether the hold ends because the pods were ready for long enough.
func (d *Decision) promotes(seen Observed) bool {
	left, ok := d.holdLeft(seen.Deployment, seen.Pods, d.question.Now)
	return ok && left <= 0 && d.passed(seen.Pods)
}

// holdLeft returns how much longer pods are held that are ready, and false if they are
// not, or if only the user ends the hold.
func (d *Decision) holdLeft(live *appsv1.Deployment, pods []corev1.Pod, now time.Time) (left time.Duration, ok bool) {
	since, ok := d.canarySince(live, pods)
	if !ok || d.question.Rollout.Canary.Promote == common.PromoteManual {
		return 0, false
	}
	return remaining(countedFrom(since, d.waiting(now), now), d.hold(), now), true
}

// canarySince returns since when as many pods of the canary as the spec asks for have
// been ready, by the clocks of their nodes, and false if one is not ready or missing.
func (d *Decision) canarySince(live *appsv1.Deployment, pods []corev1.Pod) (time.Time, bool) {
	own, want := podsOf(pods, d.Serving.hash), d.canaryPods(live)
	// Scaling the Deployment down leaves fewer of both revisions.
	exist := live.Status.UpdatedReplicas >= want || live.Status.Replicas >= resources.Replicas(live)+want
	if len(own) == 0 || !exist || live.Status.ObservedGeneration < live.Generation {
		return time.Time{}, false
	}
	times := make([]time.Time, len(own))
	for i, p := range own {
		var ready bool
		if times[i], ready = servesSince(p); !ready {
			return time.Time{}, false
		}
	}
	slices.SortFunc(times, time.Time.Compare)
	return times[min(int(want), len(times))-1], true
}

// canaryPods returns how many pods of a canary there should be.
func (d *Decision) canaryPods(live *appsv1.Deployment) int32 {
	return min(d.surge(), resources.Replicas(live))
}

func (d *Decision) surge() int32 { return ptr.Deref(d.question.Rollout.Canary.Pods, 1) }

func (d *Decision) hold() time.Duration {
	if s := d.question.Rollout.Canary.HoldSeconds; s != nil {
		return time.Duration(*s) * time.Second
	}
	return defaultHold
}

// Rolling returns how the Deployment replaces its pods: as the spec says, unless they are
// held.
func (d *Decision) Rolling() *common.Rollout {
	if !d.canary {
		return d.question.Rollout
	}
	held := *d.question.Rollout
	held.MaxSurge, held.MaxUnavailable = new(intstr.FromInt32(d.surge())), new(intstr.FromInt32(0))
	held.MinReadySeconds, held.ProgressDeadlineSeconds = new(int32(neverAvailable)), new(int32(unlimited))
	return &held
}

// Scale returns the number of replicas to write, of those that are wanted. Kubernetes
// scales both revisions in proportion and rounds: a step that is worth less than half a
// pod of a canary leaves it as it is. An autoscaler takes steps of its own.
func (d *Decision) Scale(want *int32, live *appsv1.Deployment) *int32 {
	if want == nil || !d.canary || !isHeld(live) {
		return want
	}
	from := resources.Replicas(live)
	if live.Status.ObservedGeneration < live.Generation {
		return &from
	}
	step := max((from+d.surge()-1)/(2*max(live.Status.UpdatedReplicas, 1)), 1)
	return new(max(from-step, min(from+step, *want)))
}

// deadline returns when the Deployment reported that a rollout makes no progress, and how
// long one may do so. To a canary the Deployment applies none.
func (d *Decision) deadline(dep *appsv1.Deployment) (passed time.Time, allowed time.Duration) {
	if passed, allowed = resources.DeadlinePassed(dep); !d.canary {
		return passed, allowed
	}
	if s := d.question.Rollout.ProgressDeadlineSeconds; s != nil {
		return time.Time{}, time.Duration(*s) * time.Second
	}
	return time.Time{}, resources.DefaultDeadline
}

// judgedSince returns since when a pod has had time to become ready: a pod of a canary
// that was ready has all of it again.
func (d *Decision) judgedSince(p *corev1.Pod, now time.Time) time.Time {
	since := podstate.StartedAt(p)
	if !d.canary {
		return since
	}
	for _, c := range p.Status.Conditions {
		switch {
		case c.Type != corev1.PodReady:
		case c.Status == corev1.ConditionTrue:
			return now
		case c.LastTransitionTime.After(since):
			since = c.LastTransitionTime.Time
		}
	}
	return since
}

// canaryStatus returns what the status reports about a canary.
func (d *Decision) canaryStatus(dep *appsv1.Deployment, pods []corev1.Pod) *common.CanaryStatus {
	if !d.canary || dep == nil || !isHeld(dep) || dep.Spec.Template.Annotations[naming.AnnotationTemplate] != d.Serving.hash {
		return nil
	}
	s := &common.CanaryStatus{Revision: d.Serving.Number}
	var all int32
	for i := range pods {
		if p := &pods[i]; p.DeletionTimestamp == nil && podstate.Ready(p) {
			all++
			if p.Annotations[naming.AnnotationTemplate] == d.Serving.hash {
				s.ReadyPods++
			}
		}
	}
	if all > 0 {
		s.TrafficPercent = (100*s.ReadyPods + all/2) / all
	}
	if d.judged() {
		verdict, v := d.verdict(pods)
		s.Verdict, s.Requests, s.Errors = verdict, v.Requests, v.Errors
	}
	since, ok := d.canarySince(dep, pods)
	if !ok {
		return s
	}
	s.Since = new(metav1.NewTime(since))
	if d.question.Rollout.Canary.Promote != common.PromoteManual {
		s.Until = new(metav1.NewTime(since.Add(d.hold())))
	}
	return s
}

// holds reports whether the pods of a canary are ready, and wait for their promotion.
func (p *progress) holds() bool {
	if !p.decision.canary {
		return false
	}
	_, ready := p.decision.canarySince(p.dep, p.pods)
	return ready
}

func (p *progress) reportHold() {
	d := p.decision
	left, ok := d.holdLeft(p.dep, p.pods, p.out.Now)
	cause := d.uncounted(p.pods)
	switch {
	case cause != "" && left <= 0: // without a time, the first one
		p.state.Ready = conditions.Condition{Reason: msgUncounted.Reason(), Message: msgUncounted.Quoting(cause, d.Serving.Number)}
	case !ok:
		p.state.Ready = conditions.False(msgCanaryManual, d.Serving.Number, d.Serving.Number)
	case left <= 0 && !d.passed(p.pods): // a verdict triggers a reconcile
		p.state.Ready = conditions.False(msgNotJudged, d.Serving.Number, d.minRequests(), d.Serving.Number)
	default:
		p.state.Ready = conditions.False(msgCanary, d.Serving.Number)
		p.out.RequeueAfter(max(left, time.Second))
	}
}
