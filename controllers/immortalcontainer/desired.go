package immortalcontainer

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	immortalv1alpha1 "github.com/platform-operator/platform-operator/apis/immortalcontainer/v1alpha1"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/workload"
)

const (
	containerName = "acontainer"
	// gate keeps a new pod from running until it is counted.
	gate = naming.Domain + "/counted"
	// between is the least time from one pod's birth to the next one's. A pod
	// that fails at once, because no node admits it, would otherwise be born
	// again as fast as the API server answers.
	between = 10 * time.Second
)

func podName(i *immortalv1alpha1.ImmortalContainer) string { return i.Name + "-immortalpod" }

// desired returns the pod that should be. It is pure.
//
// A pod is born behind a scheduling gate. The status counts it by its UID, and
// only when that is recorded is the gate lifted:
//
//	no pod ─▶ pod, gated ─▶ status: its UID, one more ─▶ gate lifted ─▶ runs
//
// Whatever crashes in between, each pod that runs was counted once.
func desired(i *immortalv1alpha1.ImmortalContainer, o Observed) (converge.Plan, error) {
	if o.Pod != nil && o.Pod.DeletionTimestamp.IsZero() && ended(o.Pod) {
		if wait := between - o.Now.Sub(o.Pod.CreationTimestamp.Time); wait > 0 {
			return converge.Plan{}, fault.Waiting(wait, "the pod ended soon after its start (%s); the next one follows in a moment", why(o.Pod))
		}
		return converge.Plan{Prune: []client.Object{o.Pod}}, nil
	}
	return converge.Plan{Apply: []apply.Intent{pod(i, o)}}, nil
}

// ended tells whether a pod will never run again: it failed, was evicted, or
// its container finished.
func ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded
}

// why says, in a word, how a pod ended.
func why(p *corev1.Pod) string {
	if p.Status.Reason != "" {
		return p.Status.Reason
	}
	return string(p.Status.Phase)
}

// gated tells whether a pod waits to be counted.
func gated(p *corev1.Pod) bool {
	for _, g := range p.Spec.SchedulingGates {
		if g.Name == gate {
			return true
		}
	}
	return false
}

func counted(i *immortalv1alpha1.ImmortalContainer, p *corev1.Pod) bool {
	return i.Status.PodUID == string(p.UID)
}

func pod(i *immortalv1alpha1.ImmortalContainer, o Observed) apply.Intent {
	if o.Pod != nil && (!gated(o.Pod) || counted(i, o.Pod)) {
		return release(i)
	}
	in := podIntent(i, podSpec(i).WithSchedulingGates(corev1ac.PodSchedulingGate().WithName(gate)))
	// A gate can be lifted but never put on a pod that runs. One may run that
	// we do not see: an earlier operator's, or ours without its label.
	in.Fallback = func(refused error) (apply.Intent, bool) {
		return release(i), fault.OnlyCause(refused, func(field string) bool { return field == "spec" || strings.HasPrefix(field, "spec.schedulingGates") })
	}
	return in
}

// release is the pod without its gate. The image changes in place; of what
// else is stated a pod lets nothing be changed, so it is made anew.
func release(i *immortalv1alpha1.ImmortalContainer) apply.Intent {
	in := podIntent(i, podSpec(i))
	in.Replace = func(refused error) bool {
		return fault.OnlyCause(refused, func(field string) bool { return field == "spec" })
	}
	return in
}

func podSpec(i *immortalv1alpha1.ImmortalContainer) *corev1ac.PodSpecApplyConfiguration {
	return workload.PodSpec().WithContainers(corev1ac.Container().WithName(containerName).WithImage(i.Spec.Image))
}

func podIntent(i *immortalv1alpha1.ImmortalContainer, spec *corev1ac.PodSpecApplyConfiguration) apply.Intent {
	return apply.New(corev1ac.Pod(podName(i), i.Namespace).WithLabels(map[string]string{"app": i.Name}).WithSpec(spec),
		func() *corev1.Pod { return &corev1.Pod{} })
}
