package immortalcontainer

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	immortalv1alpha1 "github.com/platform-operator/platform-operator/apis/immortalcontainer/v1alpha1"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/resources"
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

// model is an ImmortalContainer and what was observed of its pod, from which all
// else follows.
type model struct {
	i        *immortalv1alpha1.ImmortalContainer
	observed Observed
	platform config.Platform
}

func podName(i *immortalv1alpha1.ImmortalContainer) string { return i.Name + "-immortalpod" }

// Plan returns the desired children.
//
// A pod is born behind a scheduling gate. The status counts it by its UID, and
// only when that is recorded is the gate lifted:
//
//	no pod ─▶ pod, gated ─▶ status: its UID, one more ─▶ gate lifted ─▶ runs
//
// A pod that is not to be released after all takes the way back:
//
//	counted, gated ─▶ status: one less ─▶ deleted, if it is still as observed
//
// Whatever crashes in between, each pod that runs was counted once.
func (m model) Plan() (converge.Plan, error) {
	i, o, platform := m.i, m.observed, m.platform
	var plan converge.Plan
	// The policy comes first, and the pod is never open before it stands.
	if p := i.Spec.NetworkPolicy; p != nil {
		plan.Apply = append(plan.Apply, resources.NetworkPolicyOfAnyPort(podName(i), i.Namespace, labels(i), labels(i), p))
	} else if o.Policy != nil {
		plan.Prune = append(plan.Prune, o.Policy)
	}
	// Whether a pod may run as a service account is asked before one that stands
	// is touched: it stays as it is. To stop it is always allowed.
	if p := i.Spec.Pod; p != nil && p.ServiceAccountName != "" && !platform.ServiceAccounts && !i.Spec.Suspend && i.DeletionTimestamp.IsZero() {
		return plan, resources.NotGranted(p.ServiceAccountName)
	}
	alive := o.Pod != nil && o.Pod.DeletionTimestamp.IsZero()
	switch {
	case !i.DeletionTimestamp.IsZero(): // it is named to be released, however it is
		plan.Apply = append(plan.Apply, pod(i, o))
	case alive && ended(o.Pod) && pause(o) > 0 && !i.Spec.Suspend:
		return plan, fault.Waiting(pause(o), "the pod ended soon after its start (%s); the next one follows in a moment", why(o.Pod))
	case alive && gated(o.Pod) && !releasable(i, o.Pod):
		// If a former leader has lifted the gate meanwhile, the pod is not as it
		// was observed, and the API server refuses the delete.
		if !counted(i, o.Pod) {
			plan.Prune = append(plan.Prune, o.Pod)
		}
	case i.Spec.Suspend:
		if o.Pod != nil {
			plan.Prune = append(plan.Prune, o.Pod)
		}
	case alive && ended(o.Pod):
		plan.Prune = append(plan.Prune, o.Pod)
	case alive && admitted(o.Pod) && edited(i, o.Pod):
		plan.Prune = append(plan.Prune, o.Pod)
	default:
		in := pod(i, o)
		policy := []apply.Ref{{Kind: "NetworkPolicy", Name: podName(i)}}
		in.CreateAfter = policy
		if o.Pod != nil && gated(o.Pod) {
			in.Requires = policy // it starts to run when the gate is lifted
		}
		plan.Apply = append(plan.Apply, in)
	}
	plan.Accompany(apply.Ref{Kind: "Pod", Name: podName(i)})
	return plan, nil
}

// pause returns how long the next pod has to wait after one that ended.
func pause(o Observed) time.Duration {
	return between - max(o.Now.Sub(o.Pod.CreationTimestamp.Time), o.EndedFor)
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

// releasable reports whether the gate of a pod may be lifted once it is counted.
// One that is not is deleted, unless spec.paused keeps it.
func releasable(i *immortalv1alpha1.ImmortalContainer, p *corev1.Pod) bool {
	replaced := admitted(p) && edited(i, p)
	return !i.Spec.Suspend && p.DeletionTimestamp.IsZero() && !ended(p) && madeOf(p, i) && !replaced
}

func counted(i *immortalv1alpha1.ImmortalContainer, p *corev1.Pod) bool {
	return i.Status.PodUID == string(p.UID)
}
