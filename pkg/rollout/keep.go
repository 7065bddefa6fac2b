package rollout

import (
	"errors"

	appsv1 "k8s.io/api/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/platform-operator/platform-operator/pkg/naming"
)

// DecideOrKeep calls decide. If that returns no template, or one that must not
// be used, the revision of the last decision keeps serving, so that the
// Deployment can still be scaled, repaired and created again. The error
// contains the reason.
//
// refuses returns why no pods may be created from a template. A Deployment that
// already has such a template keeps it, because its pods run in any case; a
// Deployment that does not exist is not created with it. asked reports whether
// the decision is about the revision that the spec asks for.
// is about what the spec asks for.
func DecideOrKeep(q Input, seen Observed, decide func() (Decision, error), refuses func(*corev1ac.PodTemplateSpecApplyConfiguration) error) (d Decision, asked bool, err error) {
	d, err = decide()
	if d.Template != nil {
		refused := refuses(d.Template)
		if refused == nil {
			return d, true, err
		}
		err = errors.Join(err, refused)
	}
	if err == nil {
		return d, true, nil
	}
	allowed := func(d Decision) bool {
		return d.Template == nil || has(seen.Deployment, d.Template) || refuses(d.Template) == nil
	}
	last, unreadable := LastKnown(q, seen)
	if !allowed(last) && q.Rollout != nil { // it may be the pinned one that is refused
		unpinned := *q.Rollout
		unpinned.PinnedRevision = nil
		q.Rollout = &unpinned
		last, unreadable = LastKnown(q, seen)
	}
	if !allowed(last) {
		last.Template = nil
	}
	return last, false, errors.Join(err, unreadable)
}

// has reports whether a Deployment has a template.
func has(d *appsv1.Deployment, t *corev1ac.PodTemplateSpecApplyConfiguration) bool {
	return d != nil && t.ObjectMetaApplyConfiguration != nil &&
		d.Spec.Template.Annotations[naming.AnnotationTemplate] == t.Annotations[naming.AnnotationTemplate]
}
