package immortalcontainer

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"

	immortalv1alpha1 "github.com/platform-operator/platform-operator/apis/immortalcontainer/v1alpha1"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/podstate"
	"github.com/platform-operator/platform-operator/pkg/resources"
)

const (
	containerName = "acontainer"
	// gate is a scheduling gate, which prevents a new pod from running until it is
	// counted.
	gate = naming.Domain + "/counted"
	// between is the minimum time between the creation of two pods. Otherwise a pod
	// that fails immediately, because no node admits it, would be recreated as fast
	// as the API server responds.
	between = 10 * time.Second
)

// model contains an ImmortalContainer and the observed state of its pod. Plan and
// status are derived from it.
type model struct {
	i        *immortalv1alpha1.ImmortalContainer
	observed Observed
	platform config.Platform
}

func podName(i *immortalv1alpha1.ImmortalContainer) string { return i.Name + "-immortalpod" }

// Plan returns the desired children.
//
// A pod is created with a scheduling gate. The status counts the pod by its UID,
// and the gate is removed only after the UID is recorded:
//
//	no pod ─▶ pod, gated ─▶ status: its UID, one more ─▶ gate removed ─▶ runs
//
// If a pod that was already counted must not run after all, the count is reverted
// first:
//
//	counted, gated ─▶ status: one less ─▶ deleted, if it is still as observed
//
// Therefore each pod that runs was counted exactly once, no matter where the
// operator crashes.
func (m model) Plan() (converge.Plan, error) {
	i, o, platform := m.i, m.observed, m.platform
	var plan converge.Plan
	// The NetworkPolicy is first in the plan, so that the pod is never reachable
	// without it.
	if p := i.Spec.NetworkPolicy; p != nil {
		plan.Apply = append(plan.Apply, resources.NetworkPolicyOfAnyPort(podName(i), i.Namespace, i.PodLabels(), i.PodLabels(), p))
	} else if o.Policy != nil {
		plan.Prune = append(plan.Prune, o.Policy)
	}
	// The permission to use the service account is checked before a live pod is
	// modified: the pod remains as it is. Suspending and deleting are always
	// allowed.
	if p := i.Spec.Pod; p != nil && p.ServiceAccountName != "" && !platform.ServiceAccounts && !i.Spec.Suspend && i.DeletionTimestamp.IsZero() {
		return plan, resources.ServiceAccountNotAllowed(p.ServiceAccountName)
	}
	switch m.next() {
	case release:
		plan.Apply = append(plan.Apply, pod(i, o))
	case wait:
		return plan, fault.Waiting(pause(o), msgEndedSoon, why(o.Pod))
	case remove:
		plan.Prune = append(plan.Prune, o.Pod)
	case run:
		in := pod(i, o)
		policy := []apply.Ref{{Kind: "NetworkPolicy", Name: podName(i)}}
		in.StartAfter = policy
		if o.Pod != nil && gated(o.Pod) {
			in.Requires = policy // it starts to run when the gate is removed
		}
		plan.Apply = append(plan.Apply, in)
	}
	plan.Main = apply.Ref{Kind: "Pod", Name: podName(i)}
	return plan, nil
}

// step is what happens to the pod.
type step int

const (
	// run creates the pod, or keeps it as the spec states.
	run step = iota
	// keep does not change anything.
	keep
	// remove deletes the pod.
	remove
	// wait does not replace a pod that ended yet.
	wait
	// release lists the pod, in any state, so that it can be released.
	release
)

// next returns what happens to the pod.
func (m model) next() step {
	i, p := m.i, m.observed.Pod
	alive := p != nil && p.DeletionTimestamp.IsZero()
	switch {
	case !i.DeletionTimestamp.IsZero():
		return release
	case alive && podstate.HasEnded(p) && pause(m.observed) > 0 && !i.Spec.Suspend:
		return wait
	case alive && gated(p) && !releasable(i, p):
		return unreleasable(i, p)
	case i.Spec.Suspend && p == nil:
		return keep
	case i.Spec.Suspend, alive && podstate.HasEnded(p), alive && outdated(i, p):
		return remove
	}
	return run
}

// unreleasable returns what happens to a pod whose gate must not be removed.
func unreleasable(i *immortalv1alpha1.ImmortalContainer, p *corev1.Pod) step {
	if counted(i, p) {
		return keep // until the count is reverted
	}
	// If an earlier leader has removed the gate in the meantime, the pod
	// differs from the observed one, and the API server rejects the delete.
	return remove
}

// pause returns how long to wait before replacing a pod that ended.
func pause(o Observed) time.Duration {
	return between - max(o.Now.Sub(o.Pod.CreationTimestamp.Time), o.EndedFor)
}

// why returns the reason why a pod ended, as a single word.
func why(p *corev1.Pod) string {
	return cmp.Or(p.Status.Reason, string(p.Status.Phase))
}

// releasable reports whether the gate of a pod may be removed once it is counted. A
// gated pod that is not releasable is deleted, unless spec.paused prevents that.
func releasable(i *immortalv1alpha1.ImmortalContainer, p *corev1.Pod) bool {
	return !i.Spec.Suspend && p.DeletionTimestamp.IsZero() && !podstate.HasEnded(p) && madeOf(p, i) && !outdated(i, p)
}

func counted(i *immortalv1alpha1.ImmortalContainer, p *corev1.Pod) bool {
	return i.Status.PodUID == string(p.UID)
}
