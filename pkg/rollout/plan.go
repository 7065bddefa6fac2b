package rollout

import (
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/converge"
)

// Deployment returns the Deployment that belongs at the end of a plan which has
// the snapshots and the revisions. build returns it for a template.
//
// It has the decided template only if the revision and the snapshots that the
// template mounts have been written: a revision that is not recorded can be
// neither rolled back to nor told from the next one, and pods without their
// snapshot do not start. Until then it has the template that was decided last.
func (d *Decision) Deployment(plan converge.Plan, seen Seen, build func(*corev1ac.PodTemplateSpecApplyConfiguration) apply.Intent) apply.Intent {
	in := d.Mark(build(d.Template))
	mounts := map[string]bool{}
	mentioned(d.Template, mounts)
	for _, other := range plan.Apply {
		if other.Kind == "ControllerRevision" || other.Kind == "ConfigMap" && mounts[other.Name] {
			in.Requires = append(in.Requires, other.Ref())
		}
	}
	in.Otherwise = func() (apply.Intent, bool) {
		last, err := LastKnown(d.question, seen)
		if err != nil || last.Template == nil {
			return apply.Intent{}, false
		}
		return last.Mark(build(last.Template)), true
	}
	return in
}
