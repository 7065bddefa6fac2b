package rollout

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/podstate"
)

// IsNew reports whether the revision that the spec asks for was never rolled out: it is
// neither kept nor recorded, and the Deployment does not have its template.
func (d *Decision) IsNew(live *appsv1.Deployment) bool {
	return d.Desired.live == nil && !d.memory.names(d.Desired) &&
		(live == nil || live.Spec.Template.Annotations[naming.AnnotationTemplate] != d.Desired.hash)
}

// HoldNew returns what Hold returns for a revision that may not be rolled out yet. The
// snapshots that its template mounts are kept meanwhile.
func (d Decision) HoldNew(seen Observed, why error) (last Decision, asked bool, err error) {
	last, asked, err = d.Hold(seen, why)
	last.upcoming = d.Desired.fresh
	return last, asked, err
}

// Mounted returns the snapshots in a plan that a template refers to.
func Mounted(t *corev1ac.PodTemplateSpecApplyConfiguration, plan converge.Plan) []apply.Ref {
	names := map[string]bool{}
	mentioned(t, names)
	var refs []apply.Ref
	for _, in := range plan.Apply {
		if in.Kind == "ConfigMap" && names[in.Name] {
			refs = append(refs, in.Ref())
		}
	}
	return refs
}

// CauseOf returns why a pod does not run, as a reason and a description, or "".
func CauseOf(p *corev1.Pod) (reason, summary string) {
	f := diagnosePod(p, nil, lostNodes([]corev1.Pod{*p}))
	if !f.lasts() && (f == nil || f.severity != notAdmitted) {
		return "", ""
	}
	return f.reason, f.summary
}

// ExitOf returns the exit code of a pod that failed, and the last lines of its log, or "".
func ExitOf(p *corev1.Pod) (code, lines string) {
	for _, d := range podstate.Containers(p) {
		if d.Exit != nil {
			return d.ExitCode(), podstate.Excerpt(d.Text)
		}
	}
	return "", ""
}
