package rollout

import (
	appsv1 "k8s.io/api/apps/v1"

	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/resources"
)

// StartsRollout reports whether the decision replaces the pods of a Deployment
// by those of a revision that the spec asks for. A rollback and a pinned
// revision do not count: they restore what is known. Neither does the repair of
// a template that another client changed after it was rolled out.
func (d *Decision) StartsRollout(live *appsv1.Deployment) bool {
	if live != nil && d.startsPreparing(live) && !d.pinned && !d.memory.failed.is(d.Desired) {
		return true
	}
	if live == nil || d.Template == nil || d.continues || d.pinned || d.Serving.name != d.Desired.name || d.memory.failed.is(d.Desired) {
		return false
	}
	if r := d.question.Status.Revisions; r != nil && r.CurrentName == d.Desired.name {
		return false
	}
	hash := live.Spec.Template.Annotations[naming.AnnotationTemplate]
	return hash != "" && hash != d.Serving.hash
}

// Hash identifies the template of a revision.
func (r Revision) Hash() string { return r.hash }

// MarkShared records that the rollout was started by the change of an object
// that others may use too. See IsShared.
func (d *Decision) MarkShared() { d.shared = true }

// SharedRollout reports whether the rollout of the desired revision was started
// by the change of a shared object and has not succeeded, and whether it failed.
func (d *Decision) SharedRollout(live *appsv1.Deployment) (rolling, failed bool) {
	if !d.isMarked(live) {
		return false, false
	}
	serves := live.Spec.Template.Annotations[naming.AnnotationTemplate] == d.Desired.hash
	if d.memory.healthy.is(d.Desired) || serves && resources.Complete(live) {
		return false, false
	}
	return true, d.memory.failed.is(d.Desired)
}

// IsShared reports whether a shared rollout of a Deployment is in progress or
// failed, according to the Deployment alone.
func IsShared(live *appsv1.Deployment) bool {
	hash := live.Annotations[naming.AnnotationSharedRollout]
	return hash != "" && (live.Spec.Template.Annotations[naming.AnnotationTemplate] != hash || !resources.Complete(live))
}

// markShared annotates the Deployment with the revision whose rollout is a
// shared one. The annotation is written together with the template, which costs
// no additional request, and stays until another revision is asked for.
func (d *Decision) markShared(deployment apply.Intent, live *appsv1.Deployment) {
	if d.Desired.hash == "" {
		return
	}
	if d.shared || d.isMarked(live) {
		deployment.Annotate(naming.AnnotationSharedRollout, d.Desired.hash)
	}
}

// isMarked reports whether the rollout of the desired revision was started by the
// change of a shared object, according to the Deployment.
func (d *Decision) isMarked(live *appsv1.Deployment) bool {
	return live != nil && d.Desired.hash != "" && live.Annotations[naming.AnnotationSharedRollout] == d.Desired.hash
}
