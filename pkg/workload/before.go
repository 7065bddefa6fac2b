package workload

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/hash"
	"github.com/platform-operator/platform-operator/pkg/message"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/podstate"
	"github.com/platform-operator/platform-operator/pkg/resources"
	"github.com/platform-operator/platform-operator/pkg/rollout"
)

// reasonBeforeFailed is the reason of the action that records a failed command.
const reasonBeforeFailed = "BeforeFailed"

// before is the command that runs before the rollout of the revision that the spec asks
// for. A revision is recorded when it has succeeded (docs/decisions/0008-revisions.md).
type before struct {
	// revision is the one that waits for the command, or nil.
	revision *rollout.Revision
	// job creates the Job, if it is to be created, and stale are Jobs to delete.
	job   *apply.Intent
	stale []client.Object
	// template is the one that the Job is like.
	template *corev1ac.PodTemplateSpecApplyConfiguration
	// edited reports that the command succeeded for a revision that a user asked for. That
	// is older than the generation that the status has observed.
	edited bool
	// failed is the name of the revision whose command failed, or "", and failure what
	// happened, if that is not recorded yet.
	failed, failure string
}

// listJobs reads the Jobs of an object from the cache.
func listJobs(ctx context.Context, r client.Reader, owner client.Object) ([]*batchv1.Job, error) {
	var list batchv1.JobList
	if err := r.List(ctx, &list, client.InNamespace(owner.GetNamespace()), client.MatchingFields{naming.IndexOwner: string(owner.GetUID())}); err != nil {
		return nil, fmt.Errorf("listing the Jobs of %q: %w", owner.GetName(), err)
	}
	var all []*batchv1.Job
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}
	return all, nil
}

// holdBefore keeps the revision that was decided last until the command before the rollout
// of a new one has succeeded. podLabel is the only label by which its pod is selected.
func (m *Model) holdBefore(podLabel string) {
	s, d, b := m.spec, m.Decision, &m.before
	if r := s.RolloutStatus.Revisions; r != nil {
		b.failed = r.FailedBefore
	}
	if !m.current {
		return // it is not known what the spec asks for
	}
	name := jobName(s.Owner.GetName(), d.Desired)
	job, busy := b.survey(m.observed, name, s.Before != nil)
	isRecorded := b.failed == d.Desired.Name()
	b.failed = ""
	b.edited = isComplete(job, batchv1.JobComplete) && job.Annotations[naming.AnnotationSharedRollout] == ""
	switch {
	case s.Before == nil || !d.IsNew(m.observed.Deployment):
		return
	case s.Rollout.PinnedRevision != nil:
		m.Decision.Keep = apply.Intent{} // the command runs when the pin is removed
		return
	case isComplete(job, batchv1.JobComplete):
		return
	}
	b.revision = &d.Desired
	var why error
	switch failed := hasFailed(job, podsOf(m.observed.JobPods, name)); {
	case isRecorded || failed:
		b.failed = d.Desired.Name()
		why = b.fail(isRecorded, s, job, m.observed.JobPods)
	case job == nil && busy:
		why = fault.Waiting(0, msgBeforeWaits)
	default:
		why = waiting(name, podsOf(m.observed.JobPods, name))
		if job == nil {
			b.create(m, name, podLabel)
		}
	}
	if !m.observed.Offline {
		m.Decision, m.current, m.Err = d.HoldNew(m.observed.Observed, why)
	}
}

// survey returns the Job of the wanted revision, and whether another command may still run.
// Other Jobs are stale when they have ended, or have not started.
func (b *before) survey(o Observed, name string, wanted bool) (job *batchv1.Job, busy bool) {
	for _, j := range o.Jobs {
		if wanted && j.Name == name {
			job = j
			continue
		}
		ended := isComplete(j, batchv1.JobComplete) || isComplete(j, batchv1.JobFailed)
		busy = busy || !ended
		if ended || !slices.ContainsFunc(podsOf(o.JobPods, j.Name), func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning }) {
			b.stale = append(b.stale, j)
		}
	}
	return job, busy || slices.ContainsFunc(o.JobPods, func(p corev1.Pod) bool {
		return p.Labels[batchv1.JobNameLabel] != name && !podstate.HasEnded(&p)
	})
}

// create sets the Job of the revision that waits.
func (b *before) create(m *Model, name, podLabel string) {
	s := m.spec
	template, err := b.revision.Template()
	if err != nil {
		return // a new revision has one
	}
	labels := maps.Clone(template.Labels)
	maps.DeleteFunc(labels, func(key, _ string) bool { _, selects := s.Labels[key]; return selects && key != podLabel })
	in := resources.Job(resources.Command{
		Name: name, Namespace: s.Owner.GetNamespace(), Labels: s.Labels, PodLabels: labels,
		Template: template, Container: s.Container, Before: s.Before,
	})
	in.StartAfter = []apply.Ref{{Kind: "NetworkPolicy", Name: s.Owner.GetName()}}
	b.job, b.template = &in, template
}

// addTo adds the Job to a plan that contains the snapshots and the NetworkPolicy. A Job that
// exists is never changed.
func (b *before) addTo(plan *converge.Plan) {
	if b.job != nil {
		b.job.Requires = rollout.Mounted(b.template, *plan)
		plan.Apply = append(plan.Apply, *b.job)
	}
}

// waiting reports that the command runs, and what keeps its pod from running.
func waiting(name string, pods []*corev1.Pod) error {
	f := &fault.Error{Class: fault.Wait, Reason: msgBefore.Reason(), Message: msgBefore.With(name)}
	if len(pods) == 0 {
		f.Message = msgBeforeNoPod.With(name, name)
	}
	for _, p := range pods {
		if reason, summary := rollout.CauseOf(p); reason != "" {
			f.Reason, f.Message = reason, message.Join(f.Message, summary)
		}
	}
	return f
}

// fail returns the error that reports the failure, which is recorded or that of a Job.
func (b *before) fail(isRecorded bool, s Spec, job *batchv1.Job, pods []corev1.Pod) error {
	what := msgBeforeLost.With()
	if !isRecorded {
		what = failureOf(job, podsOf(pods, job.Name))
		b.failure = what
	} else if i := slices.IndexFunc(s.RolloutStatus.LastActions, isBeforeFailed); i >= 0 {
		what = s.RolloutStatus.LastActions[i].Message
	}
	return &fault.Error{Class: fault.Stall, Reason: common.ReasonRolloutFailed, Message: message.Join(what, msgNothingChanged.With())}
}

func isBeforeFailed(a common.Action) bool { return a.Reason == reasonBeforeFailed }

// failureOf describes why a Job failed.
func failureOf(job *batchv1.Job, pods []*corev1.Pod) string {
	cause := ""
	for _, c := range job.Status.Conditions {
		if c.Type == batchv1.JobFailed || c.Type == batchv1.JobFailureTarget {
			cause = c.Reason
		}
	}
	for _, p := range pods {
		code, lines := rollout.ExitOf(p)
		switch {
		case code == "":
		case cause == batchv1.JobReasonDeadlineExceeded:
			return msgBeforeFailed.Quoting(lines, cause) // its exit code is that of the signal
		default:
			return msgBeforeFailed.Quoting(lines, "exit code "+code)
		}
	}
	return msgBeforeFailed.Quoting("", cause)
}

// hasFailed reports whether a Job, which may be nil, failed, and its command has ended. When
// the Job reports that itself, the pod of a command that took too long, and with it the last
// lines of the log, is deleted.
func hasFailed(job *batchv1.Job, pods []*corev1.Pod) bool {
	isRunning := func(p *corev1.Pod) bool { return !podstate.HasEnded(p) }
	return isComplete(job, batchv1.JobFailed) ||
		isComplete(job, batchv1.JobFailureTarget) && len(pods) > 0 && !slices.ContainsFunc(pods, isRunning)
}

// report records a command that failed, or that the one that did is not wanted any more.
func (b *before) report(status *common.RolloutStatus, out converge.Outcome) {
	if status.Revisions == nil && b.failed != "" {
		status.Revisions = &common.Revisions{}
	}
	if status.Revisions != nil {
		status.Revisions.FailedBefore = b.failed
	}
	if b.failure != "" {
		status.LastActions = rollout.Prepend(status.LastActions, common.Action{
			Type: common.ActionHalt, Reason: reasonBeforeFailed, Message: b.failure,
			Revision: b.revision.Number, Time: metav1.NewTime(out.Now).Rfc3339Copy(),
		})
		out.WriteStatusNow()
	}
}

// isComplete reports whether a Job, which may be nil, has ended in a way.
func isComplete(job *batchv1.Job, how batchv1.JobConditionType) bool {
	return job != nil && slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == how && c.Status == corev1.ConditionTrue
	})
}

// podsOf returns the pods of a Job.
func podsOf(pods []corev1.Pod, job string) []*corev1.Pod {
	var own []*corev1.Pod
	for i := range pods {
		if pods[i].Labels[batchv1.JobNameLabel] == job {
			own = append(own, &pods[i])
		}
	}
	return own
}

// jobName returns the name of the Job of a revision, which is also the value of a label.
func jobName(object string, r rollout.Revision) string {
	suffix := "-before-" + hash.Bytes("", []byte(r.Name()))
	return strings.TrimRight(object[:min(len(object), validation.LabelValueMaxLength-len(suffix))], "-") + suffix
}
