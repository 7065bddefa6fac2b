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
	// one, unless only pods of other ones are ready. Of those it is the newest, but not one whose
	// pods are all being deleted, if there is another.
	Reached int
	// Complete reports that there are no pods of other templates.
	Complete bool
}

// InUse returns the templates that are in use.
func (d *Decision) InUse(pods []corev1.Pod) InUse {
	const ending, staying = 1, 2
	ready := map[string]int{} // by the hashes of the templates of all pods
	for i := range pods {
		if p := &pods[i]; !podstate.HasEnded(p) {
			hash, is := p.Annotations[naming.AnnotationTemplate], 0
			if podstate.Ready(p) {
				is = staying
				if p.DeletionTimestamp != nil {
					is = ending
				}
			}
			ready[hash] = max(ready[hash], is)
		}
	}
	var in InUse
	most := 1
	if d.Template != nil {
		in.Templates = append(in.Templates, d.Template)
		if ready[d.Serving.hash] > 0 {
			most = staying + 1
		}
		delete(ready, d.Serving.hash)
	}
	for _, r := range d.Kept {
		is, used := ready[r.hash]
		t, err := r.Template()
		if !used || err != nil { // Snapshots reports the error
			continue
		}
		delete(ready, r.hash)
		in.Templates = append(in.Templates, t)
		if is >= most {
			in.Reached, most = len(in.Templates)-1, is
		}
	}
	in.Complete = len(ready) == 0
	return in
}
