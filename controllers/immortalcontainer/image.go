package immortalcontainer

import (
	"cmp"
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"

	immortalv1alpha1 "github.com/platform-operator/platform-operator/apis/immortalcontainer/v1alpha1"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/podstate"
)

// annotationImage is the annotation of the pod that contains its imageRecord. It is
// written in the same request as the image, so that the two cannot diverge because
// of a crash or a lost status.
const annotationImage = naming.Domain + "/image"

// imageRecord contains what the image of a pod does not show.
type imageRecord struct {
	// Asked is the spec.image from which the image of the pod was set.
	Asked string `json:"asked"`
	// Stored is the image that admission replaced Asked with when the pod was
	// created; empty if admission did not change it.
	Stored string `json:"stored,omitempty"`
	// Container is the ID of the last container that is known to have been started
	// before the image changed, and Ran is the image that it runs. Ran without
	// Container means that there was no container yet.
	//
	// Nothing else distinguishes the old container from the new one. The kubelet
	// reports the generation of the new image before it stops the old container,
	// which may take the whole grace period. The image that it reports for the
	// container is any tag of that image on the node, or its ID.
	Container string `json:"container,omitempty"`
	Ran       string `json:"ran,omitempty"`
}

// recordOf returns the record of a pod, which is empty if it is missing or cannot
// be parsed.
func recordOf(p *corev1.Pod) imageRecord {
	var r imageRecord
	if json.Unmarshal([]byte(p.Annotations[annotationImage]), &r) != nil {
		return imageRecord{}
	}
	return r
}

// statedImage returns the image to apply to the pod, and its record.
func statedImage(i *immortalv1alpha1.ImmortalContainer, live *corev1.Pod) (string, imageRecord) {
	if live == nil {
		return i.Spec.Image, imageRecord{Asked: i.Spec.Image}
	}
	r, now := recordOf(live), image(live)
	differs := r.Asked != i.Spec.Image
	switch {
	case differs:
		r.Asked, r.Stored = i.Spec.Image, ""
	case r.Stored == "" && gated(live) && now != i.Spec.Image && live.Generation <= 1:
		// A difference that appears later is drift. Clusters before Kubernetes 1.34
		// count no changes of a pod: its generation is 0.
		r.Stored = now
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

// seen reports whether the kubelet has observed the current generation of the pod.
// Kubelets before 1.34 do not report the generation; then the container status has
// to suffice.
func seen(p *corev1.Pod) bool {
	return p.Status.ObservedGeneration == 0 || p.Status.ObservedGeneration >= p.Generation
}

// admitted reports whether admission changed the image of the pod when it was
// created. Most webhooks that change images act only on creation, so that another
// image requires another pod.
func admitted(p *corev1.Pod) bool { return recordOf(p).Stored != "" }

// edited reports whether the image of the pod is that of an earlier spec.
func edited(i *immortalv1alpha1.ImmortalContainer, p *corev1.Pod) bool {
	asked := recordOf(p).Asked
	return asked != "" && asked != i.Spec.Image
}

// outdated reports whether a pod has to be replaced because of its image.
func outdated(i *immortalv1alpha1.ImmortalContainer, p *corev1.Pod) bool {
	return admitted(p) && edited(i, p)
}

// settling is the time within which a container that the kubelet stops has ended,
// in addition to its grace period.
const settling = 10 * time.Second

// runningImage returns the image that the container of a running pod runs. If that
// is not certain yet, it returns "" and when to check again. last is the image that
// was last found to be running.
func runningImage(p *corev1.Pod, last string, now time.Time) (string, time.Duration) {
	r, c := recordOf(p), container(p)
	switch {
	case !podstate.Ready(p) || c == nil:
		return "", 0
	case r.Container != "" && c.ContainerID == r.Container:
		return r.Ran, 0
	case !seen(p):
		return "", 0
	case r.Ran == "" || last == image(p) || config.SameImage(c.Image, image(p)) || config.SameImage(c.ImageID, image(p)):
		return image(p), 0
	}
	// The container is not the one that was known before the change. It may have
	// been started just before the kubelet observed the change, in which case the
	// kubelet stops it. startedAt is a time of the node's clock, so an age that is
	// negative by more than the wait is ignored.
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
