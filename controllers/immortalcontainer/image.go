package immortalcontainer

import (
	"cmp"
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"

	immortalv1alpha1 "github.com/platform-operator/platform-operator/apis/immortalcontainer/v1alpha1"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

// annotationImage is on the pod and holds its imageRecord. It is written by the
// request that writes the image, so that neither a crash nor a lost status can
// part the two.
const annotationImage = naming.Domain + "/image"

// imageRecord is what the image of a pod alone does not say.
type imageRecord struct {
	// Asked is the spec.image that the pod's image was stated for.
	Asked string `json:"asked"`
	// Stored is what admission made of Asked when the pod was created; empty if
	// it left it as it was.
	Stored string `json:"stored,omitempty"`
	// Container is the ID of the last container that is known to have been
	// started before the image changed, and Ran the image that it runs. Ran
	// without Container says that there was none yet.
	//
	// Nothing else tells the two apart. The kubelet reports the generation of
	// the new image before it ends the old container, which may take the grace
	// period; and what it reports as the container's image is any tag that the
	// image has on the node, or its ID.
	Container string `json:"container,omitempty"`
	Ran       string `json:"ran,omitempty"`
}

// recordOf returns the record of a pod, empty if it has none that can be read.
func recordOf(p *corev1.Pod) imageRecord {
	var r imageRecord
	if json.Unmarshal([]byte(p.Annotations[annotationImage]), &r) != nil {
		return imageRecord{}
	}
	return r
}

// statedImage returns the image to state of the pod, and its record.
func statedImage(i *immortalv1alpha1.ImmortalContainer, live *corev1.Pod) (string, imageRecord) {
	if live == nil {
		return i.Spec.Image, imageRecord{Asked: i.Spec.Image}
	}
	r, now := recordOf(live), image(live)
	differs := r.Asked != i.Spec.Image
	switch {
	case differs:
		r.Asked, r.Stored = i.Spec.Image, ""
	case r.Stored == "" && gated(live) && now != i.Spec.Image:
		r.Stored = now // a difference that comes later is drift
	}
	want := cmp.Or(r.Stored, r.Asked)
	if !differs || now == want || gated(live) {
		return want, r
	}
	if c := container(live); c != nil && c.ContainerID != "" && c.ContainerID != r.Container && seen(live) {
		r.Container, r.Ran = c.ContainerID, now
	}
	r.Ran = cmp.Or(r.Ran, now)
	return want, r
}

// seen reports whether the kubelet has seen the pod as it is. A kubelet before
// 1.34 reports no generation; its container status has to do.
func seen(p *corev1.Pod) bool {
	return p.Status.ObservedGeneration == 0 || p.Status.ObservedGeneration >= p.Generation
}

// admitted reports whether admission changed the image of the pod when it was
// created. Most webhooks that do so act on creation only, so another image has
// to come with another pod.
func admitted(p *corev1.Pod) bool { return recordOf(p).Stored != "" }

// edited reports whether the image of the pod is still that of an earlier spec.
func edited(i *immortalv1alpha1.ImmortalContainer, p *corev1.Pod) bool {
	asked := recordOf(p).Asked
	return asked != "" && asked != i.Spec.Image
}

// settling is how long after its grace period a container has ended that the
// kubelet has decided to end.
const settling = 10 * time.Second

// runningImage returns the image that the container of a running pod runs, or
// "" and when to look again if that is not certain yet. last is the image that
// was last found to run.
func runningImage(p *corev1.Pod, last string, now time.Time) (string, time.Duration) {
	r, c := recordOf(p), container(p)
	switch {
	case !running(p) || c == nil:
		return "", 0
	case r.Container != "" && c.ContainerID == r.Container:
		return r.Ran, 0
	case !seen(p):
		return "", 0
	case r.Ran == "" || last == image(p) || config.SameImage(c.Image, image(p)) || config.SameImage(c.ImageID, image(p)):
		return image(p), 0
	}
	// The container is not the one that was known before the change. It may
	// still have been started just before the kubelet saw the change; the
	// kubelet then ends it. startedAt is of the node's clock, so a difference
	// of more than the time to wait means nothing.
	wait := settling
	if g := p.Spec.TerminationGracePeriodSeconds; g != nil {
		wait += time.Duration(*g) * time.Second
	}
	started := c.State.Running
	if started == nil {
		return image(p), 0
	}
	if age := now.Sub(started.StartedAt.Time); age.Abs() < wait {
		return "", wait - max(age, 0)
	}
	return image(p), 0
}
