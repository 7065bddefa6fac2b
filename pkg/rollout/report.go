package rollout

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/conditions"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/message"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/podstate"
	"github.com/platform-operator/platform-operator/pkg/resources"
)

// mostActions is the maximum number of actions in the status.
const mostActions = 10

// Report returns what the Deployment means for the object's conditions, and
// updates the status. dep is the Deployment after the reconcile, or nil if
// there is none. want is the number of replicas, and container the one whose
// image is reported. Later decisions depend on which revisions were healthy and have
// failed, so a change of that is written even if no condition changes. The one in use
// is read from the Deployment.
func (d *Decision) Report(status *common.RolloutStatus, dep *appsv1.Deployment, pods []corev1.Pod, want int32, container string, out converge.Outcome) conditions.State {
	known, actions := remembered(*status), status.LastActions
	state := d.report(status, dep, pods, want, container, out)
	status.Canary = d.canaryStatus(dep, pods)
	if d.unsettled > 0 {
		out.RequeueAfter(d.unsettled)
	}
	if now := remembered(*status); known.healthy != now.healthy || known.failed != now.failed || !equality.Semantic.DeepEqual(actions, status.LastActions) {
		out.WriteStatusNow()
	}
	return state
}

func (d *Decision) report(status *common.RolloutStatus, dep *appsv1.Deployment, pods []corev1.Pod, want int32, container string, out converge.Outcome) conditions.State {
	if d.Template == nil || dep == nil || dep.Spec.Template.Annotations[naming.AnnotationTemplate] != d.Serving.hash {
		return d.ReportDiffering(status, dep, want)
	}
	state := resources.DeploymentState(dep, want)
	status.PendingChanges = d.pending
	pods = d.prepared(pods)
	m := d.recall()
	complete := state.Ready.Status
	proven := complete && dep.Status.AvailableReplicas > 0
	if proven {
		status.Image, status.ImageID = serves(dep, pods, container, d.Serving.hash, *status)
		d.earn(&m, dep, pods, out)
	}
	switch {
	case d.RolledBack():
		story := d.story(*status, dep, d.instead(state, dep, pods, want))
		state.Stalled = conditions.Condition{Status: true, Reason: common.ReasonRolloutFailed, Message: story}
		state.Ready = conditions.Condition{Reason: common.ReasonRolledBack, Message: story}
	case complete && d.preparing:
		state.Ready = conditions.False(msgPreparing, d.next)
	case proven || complete && !m.failed.is(d.Serving):
		if d.pinned {
			state.Ready.Message = message.Join(state.Ready.Message, msgPinned.With(d.Serving.Number))
		}
	default:
		d.judge(&state, status, &m, dep, pods, out)
	}
	if m.failed.is(d.Desired) {
		status.LastActions = d.amend(status.LastActions, out.Now)
	}
	status.Revisions = m.revisions()
	return state
}

// earn records that the serving revision is healthy, if it is, and has not failed then.
func (d *Decision) earn(m *memory, dep *appsv1.Deployment, pods []corev1.Pod, out converge.Outcome) {
	if !d.isHealthy(*m, dep, pods, out) {
		return
	}
	m.healthy = m.current
	if m.failed.is(d.Serving) {
		m.failed = reference{}
	}
}

// HealthyAfter is how long all pods must have been available before a revision replaces
// the last healthy one. Tests shorten it.
var HealthyAfter = time.Minute

// isHealthy reports whether the pods of the serving revision, all of which are available,
// have been so for long enough. It requests a reconcile if they have not. Without another
// healthy revision, the first one is worth to be rolled back to as soon as it is available.
//
// By the clocks of the nodes, a pod must have been ready for that time without a restart. By
// the operator's own clock, the object must have been Ready, unless something else prevents
// that.
func (d *Decision) isHealthy(m memory, dep *appsv1.Deployment, pods []corev1.Pod, out converge.Outcome) bool {
	if _, kept := m.healthy.in(d.Kept); !kept || m.healthy.is(d.Serving) {
		return true
	}
	_, deadline := resources.DeadlinePassed(dep)
	period := min(HealthyAfter, deadline) - time.Duration(dep.Spec.MinReadySeconds)*time.Second
	left, now := period, out.Now
	complete := d.completeSince(now)
	for _, p := range podsOf(pods, d.Serving.hash) {
		if since, ok := podstate.ReadySince(p); ok {
			left = min(left, remaining(countedFrom(since, complete, now), period, now))
		}
	}
	if left > 0 {
		out.RequeueAfter(left)
	}
	return left <= 0
}

// completeSince returns since when all pods have been available, by the operator's clock,
// and the zero time if it is not known.
func (d *Decision) completeSince(now time.Time) time.Time {
	if c := meta.FindStatusCondition(d.question.Conditions, common.ConditionReady); c != nil && c.Status == metav1.ConditionTrue {
		return c.LastTransitionTime.Time
	}
	if meta.IsStatusConditionTrue(d.question.Conditions, common.ConditionReconciling) {
		return now
	}
	return time.Time{}
}

// recall returns what is known about the revisions before the Deployment is considered.
func (d *Decision) recall() memory {
	m := d.memory
	m.serves(d.Serving)
	switch {
	case m.failed.is(d.Desired):
		m.failed = referenceTo(d.Desired) // a status of an earlier version, or the annotation, is incomplete
	case !d.unasked:
		m.failed = reference{}
	}
	return m
}

// ReportDiffering is Report for a Deployment that is not as it was decided: it was not
// written in this reconcile. Its pods show nothing about a revision, because another
// client may have changed their template.
func (d *Decision) ReportDiffering(status *common.RolloutStatus, dep *appsv1.Deployment, want int32) conditions.State {
	state := resources.DeploymentState(dep, want)
	status.PendingChanges = d.pending
	if state.Ready.Status {
		state.Ready = conditions.False(msgNotUpdated)
	}
	return state
}

// hasNoDeadline reports whether the Deployment controller does not apply a deadline
// to pods none of which has been available yet: the first pods of a template
// that was rolled out at zero replicas, and those of a canary.
func (d *Decision) hasNoDeadline(dep *appsv1.Deployment) bool {
	return d.canary || resources.RolledOut(dep) && !d.memory.healthy.is(d.Serving) && (dep.Spec.Replicas == nil || *dep.Spec.Replicas > 0)
}

// timeLeft returns how much longer a rollout that exceeded its deadline may
// continue, or 0 if the revision is the cause. The clock of the Deployment does
// not stop while the cluster has no capacity for the pods, the namespace does
// not admit them, or an object that they refer to is missing; when that ends,
// the rollout exceeds its deadline at once. Therefore a pod that started after
// the deadline has the full duration from its start, and pods that could not be
// created do not count against their template.
//
// The cause is what diagnose found. A pod that exists is judged by its own
// status, also while the Deployment still reports that it could not be created:
// the Deployment controller removes that condition later.
func (d *Decision) timeLeft(dep *appsv1.Deployment, pods []corev1.Pod, cause *failure, now time.Time) time.Duration {
	passed, allowed := d.deadline(dep)
	noDeadline := d.hasNoDeadline(dep)
	if noDeadline {
		passed = time.Time{}
	}
	// Pod timestamps are from the clocks of nodes. By the operator's own clock,
	// pods have at least the full duration, and at most the full duration from
	// now.
	waiting := d.waitingFor(cause, now)
	// Timestamps have whole seconds: what has the second in which the deadline
	// passed was not there before.
	if waiting.Before(passed) {
		waiting = time.Time{}
	}
	if cause != nil && cause.reason == ReasonRefused {
		if noDeadline {
			return remaining(waiting, allowed, now)
		}
		return 0
	}
	left, own, of, lost := allowed, podsOf(pods, d.Serving.hash), d.containers(), lostNodes(pods)
	for _, p := range own {
		since := countedFrom(d.judgedSince(p, now), waiting, now)
		its := remaining(since, allowed, now)
		young := !since.Before(passed) && its > 0
		if young {
			left = min(left, its)
		} else if f := diagnosePod(p, of, lost); f != nil && !f.transient {
			return 0
		}
	}
	if len(own) == 0 && dep.Status.UpdatedReplicas > 0 {
		// They were created and deleted, and it is not known why they did not serve,
		// unless something else has prevented them from starting until now.
		return remaining(waiting, allowed, now)
	}
	return left
}

// remaining returns how much of the allowed time since then is left, and at most all of it.
func remaining(since time.Time, allowed time.Duration, now time.Time) time.Duration {
	return min(since.Add(allowed).Sub(now), allowed)
}

// podsOf returns the pods of a template, except those that are being deleted, and those
// that have ended: they were evicted, or their node was shut down, and were replaced.
func podsOf(pods []corev1.Pod, template string) []*corev1.Pod {
	var own []*corev1.Pod
	for i := range pods {
		if p := &pods[i]; p.Annotations[naming.AnnotationTemplate] == template && p.DeletionTimestamp == nil && !podstate.HasEnded(p) {
			own = append(own, p)
		}
	}
	return own
}

// countedFrom returns since when time counts that began with a change of a pod, by the
// clock of its node, and with one of the object, by the operator's clock, which is zero if
// it is not known: the later one, unless the clock of the node is ahead.
func countedFrom(pod, object, now time.Time) time.Time {
	if pod.After(now) && !object.IsZero() || object.After(pod) {
		return object
	}
	return pod
}

// waitingFor is waiting, or now if all pods were available until now: one exit, or a probe
// that failed for a moment, is no evidence against their revision.
func (d *Decision) waitingFor(cause *failure, now time.Time) time.Time {
	if meta.IsStatusConditionTrue(d.question.Conditions, common.ConditionReady) && (cause == nil || !cause.repeated) {
		return now
	}
	return d.waiting(now)
}

// waiting returns since when the object has been waiting for its pods, by the
// operator's clock. It is now if something else has prevented them from
// starting until now, and the zero time if it is not known.
func (d *Decision) waiting(now time.Time) time.Time {
	if c := meta.FindStatusCondition(d.question.Conditions, common.ConditionReconciling); c != nil && c.Status == metav1.ConditionTrue {
		return c.LastTransitionTime.Time
	}
	if c := meta.FindStatusCondition(d.question.Conditions, common.ConditionStalled); c != nil && c.Status == metav1.ConditionTrue {
		switch c.Reason {
		case common.ReasonReferenceNotFound, common.ReasonUnschedulable, common.ReasonInjectedContainer, common.ReasonQuotaExceeded,
			common.ReasonAdmissionRefused, common.ReasonWebhookFailed, common.ReasonReplicaFailure,
			common.ReasonContainerNotCreated, common.ReasonNodeLost, common.ReasonImagePull:
			return now
		}
	}
	return time.Time{}
}

// mountTimeLeft returns how long the pods may wait for their volumes before that is
// reported. The pod that has waited longest decides.
func (d *Decision) mountTimeLeft(pods []corev1.Pod, now time.Time) time.Duration {
	left, of, lost := podstate.MountsWithin, d.containers(), lostNodes(pods)
	for _, p := range podsOf(pods, d.Serving.hash) {
		if f := diagnosePod(p, of, lost); f != nil && f.mounting {
			left = min(left, podstate.MountTimeLeft(p, now))
		}
	}
	return left
}

// record prepends the action for a failure to the earlier actions.
func (d *Decision) record(earlier []common.Action, f failure, now time.Time) []common.Action {
	return Prepend(earlier, common.Action{Type: d.action(), Reason: f.reason, Message: f.message(), Revision: d.Desired.Number, Time: metav1.NewTime(now).Rfc3339Copy()})
}

// Prepend returns the actions with a new one, without the oldest if there are too many.
func Prepend(earlier []common.Action, a common.Action) []common.Action {
	all := slices.Insert(slices.Clone(earlier), 0, a)
	return all[:min(len(all), mostActions)]
}

// action returns the action for a failure of the revision that the spec asks
// for.
func (d *Decision) action() common.ActionType {
	if d.onFailure() == common.OnFailureHalt || d.back == nil {
		return common.ActionHalt
	}
	return common.ActionRollback
}

// amend corrects the recorded action if another one is taken because
// rollout.onFailure was changed.
func (d *Decision) amend(actions []common.Action, now time.Time) []common.Action {
	i := slices.IndexFunc(actions, func(a common.Action) bool { return a.Revision == d.Desired.Number })
	if i < 0 || d.pinned || d.held || actions[i].Type == d.action() {
		return actions
	}
	a := actions[i]
	a.Type, a.Time = d.action(), metav1.NewTime(now).Rfc3339Copy()
	switch {
	case d.RolledBack() == (a.Type == common.ActionHalt):
		return actions // it was rolled back before the change to Halt, or is not rolled back yet
	case a.Type == common.ActionRollback:
		return Prepend(actions, a)
	default: // the recorded rollback has not happened
		actions = slices.Clone(actions)
		actions[i] = a
		return actions
	}
}

// story returns the message about a failed rollout: what happened, what the
// operator did, and what the user can do.
func (d *Decision) story(status common.RolloutStatus, dep *appsv1.Deployment, done string) string {
	what := msgFailed.With()
	for _, a := range status.LastActions {
		if a.Revision == d.Desired.Number {
			what = a.Message
			break
		}
	}
	todo := msgTryAgain.With()
	if d.isMarked(dep) {
		todo = msgCorrect.With()
	}
	return message.Join(what, done, todo)
}

// outcome describes the action for a failure while the failed revision is
// deployed.
func (d *Decision) outcome() string {
	switch {
	case d.onFailure() == common.OnFailureHalt:
		return msgHalted.With()
	case d.back == nil:
		return msgNoEarlier.With()
	default:
		return msgRollsBack.With(d.back.Number)
	}
}

// instead describes the state of the revision that was rolled back to.
func (d *Decision) instead(state conditions.State, dep *appsv1.Deployment, pods []corev1.Pod, want int32) string {
	n := d.Serving.Number
	switch {
	case want == 0:
		return msgUsed.With(n)
	case d.serves(state, pods):
		return msgServes.With(n)
	}
	said := msgNotAvailable.With(n)
	f := diagnose(dep, pods, d.Serving.hash, d.containers())
	if !f.lasts() {
		return said
	}
	said = message.Join(said, f.summary)
	for _, r := range slices.Backward(d.Kept) {
		if !f.transient && r.name != d.Serving.name && r.name != d.Desired.name {
			return message.Join(said, msgPin.With(r.Number))
		}
	}
	return said
}

// serves reports whether the revision that was rolled back to is available. That
// something is available is not enough: it may be pods of the failed revision.
func (d *Decision) serves(state conditions.State, pods []corev1.Pod) bool {
	return state.Ready.Status || state.Available.Status && slices.ContainsFunc(podsOf(pods, d.Serving.hash), podstate.Ready)
}

// serves returns the image of a container that is serving, by its name and by
// its digest.
func serves(dep *appsv1.Deployment, pods []corev1.Pod, container, template string, known common.RolloutStatus) (image, id string) {
	for _, c := range dep.Spec.Template.Spec.Containers {
		if c.Name == container {
			image = c.Image
		}
	}
	var ids []string
	for _, p := range podsOf(pods, template) {
		for _, s := range p.Status.ContainerStatuses {
			if s.Name == container && s.Ready && s.ImageID != "" {
				ids = append(ids, s.ImageID)
			}
		}
	}
	if len(ids) == 0 {
		if image == known.Image {
			return image, known.ImageID
		}
		return image, ""
	}
	// Nodes may have pulled a moving tag at different times. The known digest
	// is kept as long as any pod has it.
	if slices.Contains(ids, known.ImageID) {
		return image, known.ImageID
	}
	return image, slices.Min(ids)
}
