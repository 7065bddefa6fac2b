package rollout

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/conditions"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/resources"
)

// mostActions is how many actions the status keeps.
const mostActions = 10

// Report says what the Deployment means for the object's conditions, and
// writes into status what must be remembered. d is the Deployment as it stands
// after the pass, nil where there is none; want is the number of replicas.
// container is the one whose image serves.
func (d *Decision) Report(status *common.RolloutStatus, dep *appsv1.Deployment, pods []corev1.Pod, want int32, container string, out converge.Outcome) conditions.State {
	state := resources.DeploymentState(dep, want)
	status.PendingChanges = d.pending
	if d.Template == nil || dep == nil || dep.Spec.Template.Annotations[naming.AnnotationTemplate] != d.Serving.hash {
		// What serves is not what was decided: the pass did not get that far.
		if state.Ready.Holds {
			state.Ready = conditions.Finding{Reason: common.ReasonProgressing, Message: "the Deployment is not yet as it should be"}
		}
		return state
	}
	m := d.memory
	m.current = referenceTo(d.Serving)
	if !d.unasked && !m.failed.is(d.Asked) {
		m.failed = reference{}
	}
	if m.failed.is(d.Asked) {
		m.failed = referenceTo(d.Asked) // a status of an earlier version, or a mark, says less
	}
	complete := state.Ready.Holds
	proven := complete && dep.Status.AvailableReplicas > 0
	if proven {
		status.Image, status.ImageID = serves(dep, pods, container, d.Serving.hash, *status)
		m.healthy = m.current
		if m.failed.is(d.Serving) {
			m.failed = reference{}
		}
	}
	switch {
	case d.RolledBack():
		story := d.story(*status, d.instead(state, dep, pods, want))
		state.Stalled = conditions.Finding{Holds: true, Reason: common.ReasonRolloutFailed, Message: story}
		state.Ready = conditions.Finding{Reason: common.ReasonRolledBack, Message: story}
	case proven || complete && !m.failed.is(d.Serving):
		if d.pinned {
			state.Ready.Message += fmt.Sprintf("; revision %d is pinned", d.Serving.Number)
		}
	default:
		d.judge(&state, status, &m, dep, pods, out)
	}
	if m.failed.is(d.Asked) {
		status.LastActions = d.amend(status.LastActions, out.Now)
	}
	status.Revisions = m.revisions()
	return state
}

// judge looks at a rollout that goes on, and records it where it has failed.
func (d *Decision) judge(state *conditions.State, status *common.RolloutStatus, m *memory, dep *appsv1.Deployment, pods []corev1.Pod, out converge.Outcome) {
	f := d.diagnose(dep, pods)
	late := resources.PastDeadline(dep)
	if !late && f != nil && !f.blameless && d.untimed(dep) {
		if left := d.timeLeft(dep, pods, out.Now); left > 0 {
			out.LookAgain(left)
		} else {
			late = true
		}
	} else if late && (f == nil || !f.blameless) {
		if left := d.timeLeft(dep, pods, out.Now); left > 0 {
			late = false
			state.Stalled = conditions.Finding{}
			state.Ready = conditions.Finding{Reason: common.ReasonProgressing, Message: "pods that could not start before have their time to become ready"}
			out.LookAgain(left)
		}
	}
	switch {
	case m.failed.is(d.Asked) && !d.pinned: // it stays failed until it serves, or the spec asks for something else
		state.Stalled = conditions.Finding{Holds: true, Reason: common.ReasonRolloutFailed, Message: d.story(*status, d.outcome())}
	case f != nil && f.mounting && f.blameless && !late:
		// Each rollout mounts for a moment, and that is nothing to report.
		if left := d.patience(pods, out.Now); left > 0 {
			out.LookAgain(left)
		} else {
			state.Ready.Message += "; " + f.what
		}
	case f != nil && f.blameless:
		if late || f.certain || f.reason == ReasonRefused {
			reason := f.reason
			if reason == ReasonRefused {
				reason = common.ReasonReplicaFailure
			}
			state.Stalled = conditions.Finding{Holds: true, Reason: reason, Message: f.what}
		} else {
			state.Ready.Message += "; " + f.what
		}
	case d.pinned && late:
		state.Stalled = conditions.Finding{Holds: true, Reason: common.ReasonRolloutFailed, Message: fmt.Sprintf("revision %d, which is pinned, does not become healthy: %s", d.Serving.Number, reasonOf(f).what)}
	case !d.pinned && !d.held && (late || f != nil && f.final):
		m.failed = referenceTo(d.Asked)
		status.LastActions = d.record(status.LastActions, reasonOf(f), out.Now)
		state.Stalled = conditions.Finding{Holds: true, Reason: common.ReasonRolloutFailed, Message: d.story(*status, d.outcome())}
	case f != nil && f.rank > 3: // to be created and to become ready takes its time
		state.Stalled = conditions.Finding{}
		state.Ready = conditions.Finding{Reason: common.ReasonProgressing, Message: waiting(state.Ready.Message) + f.what}
	}
}

func waiting(message string) string {
	if message == "" {
		return ""
	}
	return message + "; "
}

func reasonOf(f *failure) failure {
	if f == nil {
		return failure{reason: ReasonDeadline, what: "the rollout did not get on within its deadline"}
	}
	return *f
}

// untimed reports whether the Deployment controller applies no deadline to pods
// of which none has been available: the first ones of a template that was rolled
// out at zero replicas.
func (d *Decision) untimed(dep *appsv1.Deployment) bool {
	return resources.RolledOut(dep) && !d.memory.healthy.is(d.Serving) && (dep.Spec.Replicas == nil || *dep.Spec.Replicas > 0)
}

// timeLeft is for how long a rollout past its deadline may still go on, 0 if
// the revision is to blame. The Deployment's clock does not stop while the
// cluster has no room for pods, or the namespace does not let them in, or
// something is missing that they refer to, and when that ends it is past the
// deadline at once. So a pod that started since then has the whole time from its
// start, and pods that were not created are no fault of their template.
func (d *Decision) timeLeft(dep *appsv1.Deployment, pods []corev1.Pod, now time.Time) time.Duration {
	passed, allowed := resources.DeadlinePassed(dep)
	untimed := d.untimed(dep)
	if untimed {
		passed = time.Time{}
	}
	// Pods have the clocks of their nodes. By the operator's own they have no
	// less than the whole time, and no more than that from now.
	waiting := d.waiting(now)
	if !waiting.After(passed) {
		waiting = time.Time{}
	}
	remains := func(since time.Time) time.Duration { return min(since.Add(allowed).Sub(now), allowed) }
	if resources.ReplicaFailure(dep) != "" {
		if untimed {
			return remains(waiting)
		}
		return 0
	}
	left, seen := allowed, false
	for _, p := range pods {
		if p.Annotations[naming.AnnotationTemplate] != d.Serving.hash || p.DeletionTimestamp != nil {
			continue
		}
		seen = true
		since := start(&p)
		if since.After(now) && !waiting.IsZero() || waiting.After(since) {
			since = waiting
		}
		its := remains(since)
		young := since.After(passed) && its > 0
		if young {
			left = min(left, its)
		} else if f := diagnosePod(&p); f != nil && !f.blameless {
			return 0
		}
	}
	if !seen && dep.Status.UpdatedReplicas > 0 {
		return 0 // they came, and went before anybody saw why
	}
	return left
}

// waiting returns since when the object waits for its pods, by the operator's
// clock: since now if until now something else kept them from starting, and the
// zero time if it is not known.
func (d *Decision) waiting(now time.Time) time.Time {
	if c := meta.FindStatusCondition(d.question.Conditions, common.ConditionReconciling); c != nil && c.Status == metav1.ConditionTrue {
		return c.LastTransitionTime.Time
	}
	if c := meta.FindStatusCondition(d.question.Conditions, common.ConditionStalled); c != nil && c.Status == metav1.ConditionTrue {
		switch c.Reason {
		case common.ReasonReferenceNotFound, common.ReasonUnschedulable, common.ReasonReplicaFailure:
			return now
		}
	}
	return time.Time{}
}

// mountsWithin is how long pods may take to mount their volumes before it is
// said what they mount.
const mountsWithin = 30 * time.Second

// patience is how much of that is left to the pod that waits longest.
func (d *Decision) patience(pods []corev1.Pod, now time.Time) time.Duration {
	left := mountsWithin
	for _, p := range pods {
		if p.Annotations[naming.AnnotationTemplate] != d.Serving.hash || p.DeletionTimestamp != nil {
			continue
		}
		if f := diagnosePod(&p); f != nil && f.mounting {
			left = min(left, start(&p).Add(mountsWithin).Sub(now))
		}
	}
	return left
}

// start is when a pod got its place on a node and, if that came later, its
// volumes there.
func start(p *corev1.Pod) time.Time {
	since := p.CreationTimestamp.Time
	for _, c := range p.Status.Conditions {
		if (c.Type == corev1.PodScheduled || c.Type == corev1.PodReadyToStartContainers) && c.Status == corev1.ConditionTrue && c.LastTransitionTime.After(since) {
			since = c.LastTransitionTime.Time
		}
	}
	return since
}

// record puts what is done about a failure before what was done earlier.
func (d *Decision) record(earlier []common.Action, f failure, now time.Time) []common.Action {
	return prepend(earlier, common.Action{Type: d.action(), Reason: f.reason, Message: f.message(), Revision: d.Asked.Number, Time: metav1.NewTime(now).Rfc3339Copy()})
}

func prepend(earlier []common.Action, a common.Action) []common.Action {
	all := slices.Insert(slices.Clone(earlier), 0, a)
	return all[:min(len(all), mostActions)]
}

// action is what is done about the failure of what the spec asks for.
func (d *Decision) action() common.ActionType {
	if d.onFailure() == common.OnFailureHalt || d.back == nil {
		return common.ActionHalt
	}
	return common.ActionRollback
}

// amend corrects the record of a failure if something else is done about it
// than was recorded, because rollout.onFailure was changed.
func (d *Decision) amend(actions []common.Action, now time.Time) []common.Action {
	i := slices.IndexFunc(actions, func(a common.Action) bool { return a.Revision == d.Asked.Number })
	if i < 0 || d.pinned || d.held || actions[i].Type == d.action() {
		return actions
	}
	a := actions[i]
	a.Type, a.Time = d.action(), metav1.NewTime(now).Rfc3339Copy()
	switch {
	case d.RolledBack() == (a.Type == common.ActionHalt):
		return actions // it was rolled back before it was to halt, or is not yet rolled back
	case a.Type == common.ActionRollback:
		return prepend(actions, a)
	default: // the rollback that was recorded has not been made
		actions = slices.Clone(actions)
		actions[i] = a
		return actions
	}
}

// story is what a user reads about a failed rollout: what happened, what was
// done about it, what to do.
func (d *Decision) story(status common.RolloutStatus, done string) string {
	what := "the rollout failed"
	for _, a := range status.LastActions {
		if a.Revision == d.Asked.Number {
			what = a.Message
			break
		}
	}
	return what + "; " + done + ". Change the spec, or set rollout.restartedAt to try again"
}

// outcome is what is done about a failure while what failed is deployed.
func (d *Decision) outcome() string {
	switch {
	case d.onFailure() == common.OnFailureHalt:
		return "it stays as it is (rollout.onFailure is Halt)"
	case d.back == nil:
		return "there is no earlier revision to roll back to"
	default:
		return fmt.Sprintf("it is rolled back to revision %d", d.back.Number)
	}
}

// instead says how the revision does that was rolled back to.
func (d *Decision) instead(state conditions.State, dep *appsv1.Deployment, pods []corev1.Pod, want int32) string {
	n := d.Serving.Number
	switch {
	case want == 0:
		return fmt.Sprintf("revision %d is used instead", n)
	case state.Available.Holds:
		return fmt.Sprintf("revision %d serves", n)
	}
	message := fmt.Sprintf("revision %d, to which it was rolled back, is not available", n)
	if f := diagnose(dep, pods, d.Serving.hash); f != nil && f.rank > 3 {
		message += ": " + f.what
	}
	return message
}

// serves is the image of a container that serves, by its name and by its digest.
func serves(dep *appsv1.Deployment, pods []corev1.Pod, container, template string, known common.RolloutStatus) (image, id string) {
	for _, c := range dep.Spec.Template.Spec.Containers {
		if c.Name == container {
			image = c.Image
		}
	}
	var ids []string
	for _, p := range pods {
		if p.DeletionTimestamp != nil || p.Annotations[naming.AnnotationTemplate] != template {
			continue
		}
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
	// Nodes may have pulled a moving tag at different times. One that is known
	// stays as long as any pod has it.
	if slices.Contains(ids, known.ImageID) {
		return image, known.ImageID
	}
	return image, slices.Min(ids)
}
