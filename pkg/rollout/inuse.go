package rollout

import (
	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/podstate"
)

// InUse is the templates that the pods of an object have or are about to get.
type InUse struct {
	// Templates are the decided one, and those of the pods.
	Templates []*corev1ac.PodTemplateSpecApplyConfiguration
	// Reached is the index of the template whose pods clients reach now: the decided
	// one, unless only pods of another one are ready.
	Reached int
	// Complete reports that there are no pods of other templates.
	Complete bool
}

// InUse returns the templates that are in use.
func (d *Decision) InUse(pods []corev1.Pod) InUse {
	ready := map[string]bool{} // by the hashes of the templates of all pods
	for i := range pods {
		if p := &pods[i]; !podstate.HasEnded(p) {
			hash := p.Annotations[naming.AnnotationTemplate]
			ready[hash] = ready[hash] || podstate.Ready(p)
		}
	}
	var in InUse
	if d.Template != nil {
		in.Templates = append(in.Templates, d.Template)
		in.Reached = -1
		if ready[d.Serving.hash] {
			in.Reached = 0
		}
		delete(ready, d.Serving.hash)
	}
	for _, r := range d.Kept {
		isReady, used := ready[r.hash]
		t, err := r.Template()
		if !used || err != nil { // Snapshots reports the error
			continue
		}
		delete(ready, r.hash)
		in.Templates = append(in.Templates, t)
		if isReady && in.Reached < 0 {
			in.Reached = len(in.Templates) - 1
		}
	}
	in.Reached, in.Complete = max(in.Reached, 0), len(ready) == 0
	return in
}
