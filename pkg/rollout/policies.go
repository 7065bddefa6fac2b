package rollout

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/conditions"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/message"
	"github.com/platform-operator/platform-operator/pkg/podstate"
	"github.com/platform-operator/platform-operator/pkg/resources"
)

// progress is a rollout in progress: what is known about it, and what the policies
// change.
type progress struct {
	decision *Decision
	dep      *appsv1.Deployment
	pods     []corev1.Pod
	out      converge.Outcome
	// failure is why the pods are not serving. It is nil if no cause is visible.
	failure *failure
	// late reports that the pods had their time.
	late bool

	state  *conditions.State
	status *common.RolloutStatus
	memory *memory
}

// policies decide about a rollout in progress. The first one that applies decides, and
// if none applies, the state is that of the Deployment.
var policies = []struct {
	name    string
	applies func(*progress) bool
	decide  func(*progress)
}{
	{"failed before", (*progress).failedBefore, (*progress).reportFailed},
	{"mounts volumes", (*progress).mounts, (*progress).reportMounts},
	{"waits for the cluster", (*progress).waits, (*progress).stall},
	{"may start by itself", (*progress).mayStart, (*progress).reportWaiting},
	{"pinned revision fails", (*progress).pinnedFails, (*progress).reportPinned},
	{"fails", (*progress).fails, (*progress).fail},
	{"makes no progress yet", (*progress).lasts, (*progress).reportCause},
	{"is held", (*progress).holds, (*progress).reportHold},
}

// judge evaluates a rollout in progress, and records it if it has failed.
func (d *Decision) judge(state *conditions.State, status *common.RolloutStatus, m *memory, dep *appsv1.Deployment, pods []corev1.Pod, out converge.Outcome) {
	p := &progress{decision: d, dep: dep, pods: pods, out: out, failure: d.diagnose(dep, pods), state: state, status: status, memory: m}
	var left time.Duration
	if p.late, left = d.late(dep, pods, p.failure, out.Now); left > 0 {
		out.RequeueAfter(left)
		if resources.PastDeadline(dep) {
			state.Stalled = conditions.Condition{}
			state.Ready = conditions.False(msgStartedLate)
		}
	}
	for _, policy := range policies {
		if policy.applies(p) {
			policy.decide(p)
			return
		}
	}
}

// late reports whether the pods of a rollout had their time, or returns how much of it
// is left if the Deployment does not report when it is over.
func (d *Decision) late(dep *appsv1.Deployment, pods []corev1.Pod, f *failure, now time.Time) (late bool, left time.Duration) {
	late = resources.PastDeadline(dep)
	if f != nil && f.transient || !late && (f == nil || !d.hasNoDeadline(dep)) {
		return late, 0
	}
	left = d.timeLeft(dep, pods, f, now)
	return left <= 0, max(left, 0)
}

// A failure lasts until the revision serves, or the spec asks for another one.
func (p *progress) failedBefore() bool {
	return p.memory.failed.is(p.decision.Desired) && !p.decision.pinned
}

func (p *progress) reportFailed() {
	p.state.Stalled = conditions.Condition{Status: true, Reason: common.ReasonRolloutFailed, Message: p.decision.story(*p.status, p.dep, p.decision.outcome())}
}

func (p *progress) transient() bool { return p.failure != nil && p.failure.transient }

func (p *progress) mounts() bool {
	return p.transient() && p.failure.mounting && (!p.late || p.mountTimeLeft() > 0)
}

func (p *progress) mountTimeLeft() time.Duration {
	return p.decision.mountTimeLeft(p.pods, p.out.Now)
}

// Every rollout mounts volumes for a moment, which is not worth reporting.
func (p *progress) reportMounts() {
	if left := p.mountTimeLeft(); left > 0 {
		p.out.RequeueAfter(left)
		return
	}
	p.reportWaiting()
}

func (p *progress) waits() bool {
	return p.transient() && (p.late || p.failure.certain || p.failure.reason == ReasonRefused)
}

func (p *progress) stall() {
	p.state.Stalled = conditions.Condition{Status: true, Reason: p.reason(), Message: p.failure.summary}
}

// reason returns the reason of a condition that reports the failure while the rollout
// may continue.
func (p *progress) reason() string {
	switch {
	case p.failure.severity == recovered:
		return common.ReasonProgressing // the container is ready, and something else is missing
	case p.failure.reason == ReasonRefused:
		return resources.ReasonNotCreated(podstate.ReplicaFailure(p.dep))
	}
	return p.failure.reason
}

func (p *progress) mayStart() bool { return p.transient() }

func (p *progress) reportWaiting() {
	if p.failure.injected && !p.failure.lasts() {
		return
	}
	p.state.Ready = conditions.Condition{Reason: p.reason(), Message: message.Join(p.state.Ready.Message, p.failure.summary)}
}

func (p *progress) pinnedFails() bool { return p.decision.pinned && p.late }

func (p *progress) reportPinned() {
	p.state.Stalled = conditions.Condition{
		Status: true, Reason: common.ReasonRolloutFailed,
		Message: message.Join(msgPinnedFails.With(p.decision.Serving.Number), p.cause().summary),
	}
}

func (p *progress) fails() bool {
	return !p.decision.pinned && !p.decision.held && (p.late || p.certain())
}

// certain reports whether the rollout cannot succeed, although its deadline has not passed.
// A revision that was healthy is not judged early: what it needs has worked before, so that
// its surroundings are the cause. Neither is one that serves elsewhere. Without a revision to
// roll back to, only a configuration is judged early, which has a condition of its own.
func (p *progress) certain() bool {
	f, d := p.failure, p.decision
	if f != nil && f.severity == exceeded {
		return true
	}
	return f != nil && f.certain && !f.transient && (d.back != nil || f.severity == rejected) &&
		(d.preparing || !p.memory.healthy.is(d.Serving)) && !slices.ContainsFunc(podsOf(p.pods, d.Serving.hash), podstate.Ready) && p.had(f.within)
}

// had reports whether the pod that fails has had that much time, and otherwise requests a
// reconcile for when it has.
func (p *progress) had(time time.Duration) bool {
	now := p.out.Now
	left := remaining(countedFrom(p.failure.since, p.decision.waiting(now), now), time, now)
	if left > 0 {
		p.out.RequeueAfter(left)
	}
	return left <= 0
}

// fail records the failure before the operator acts on it.
func (p *progress) fail() {
	p.memory.failed = referenceTo(p.decision.Desired)
	p.status.LastActions = p.decision.record(p.status.LastActions, p.cause(), p.out.Now)
	p.reportFailed()
}

// In every rollout, containers are not ready for a moment.
func (p *progress) lasts() bool {
	return p.failure.lasts() || p.failure != nil && p.failure.severity == notReady && p.had(podstate.MountsWithin)
}

func (p *progress) reportCause() {
	p.state.Stalled = conditions.Condition{}
	p.reportWaiting()
}

// cause returns the failure, or that the deadline was exceeded if no cause is visible.
func (p *progress) cause() failure {
	if p.failure == nil {
		return failure{reason: ReasonDeadline, summary: msgTooSlow.With()}
	}
	return *p.failure
}
