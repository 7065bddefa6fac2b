package rollout

import (
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/converge"
)

// Deployment returns the Deployment to append to a plan that contains the
// snapshots and the revisions. build returns the Deployment for a template, and for how
// its pods are replaced.
//
// It gets the decided template only if the revision and the snapshots that the
// template mounts have been written: an unrecorded revision cannot be rolled
// back to or distinguished from the next one, and pods without their snapshot
// do not start. Until then it keeps the template of the last decision.
func (d *Decision) Deployment(plan converge.Plan, seen Observed, build func(*corev1ac.PodTemplateSpecApplyConfiguration, *common.Rollout) apply.Intent) apply.Intent {
	in := d.Mark(build(d.Template, d.Rolling()))
	d.markShared(in, seen.Deployment)
	in.Requires = Mounted(d.Template, plan)
	for _, other := range plan.Apply {
		if other.Kind == "ControllerRevision" {
			in.Requires = append(in.Requires, other.Ref())
		}
	}
	in.Otherwise = func() (apply.Intent, bool) {
		last, err := lastAllowed(d.question, seen, d.rules)
		if err != nil || last.Template == nil {
			return apply.Intent{}, false
		}
		otherwise := last.Mark(build(last.Template, last.Rolling()))
		last.markShared(otherwise, seen.Deployment)
		return otherwise, true
	}
	return in
}
