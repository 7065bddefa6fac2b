package immortalcontainer

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	immortalv1alpha1 "github.com/platform-operator/platform-operator/apis/immortalcontainer/v1alpha1"
	"github.com/platform-operator/platform-operator/pkg/conditions"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/message"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/podstate"
)

// UpdateStatus updates the status of the object.
func (m model) UpdateStatus(out converge.Outcome) {
	i, o := m.i, m.observed
	p := converge.ChildOrObserved(out, "Pod", i.Namespace, podName(i), o.Pod)
	st := &i.Status
	runs := ""
	if p != nil {
		var again time.Duration
		if runs, again = runningImage(p, st.Image, out.Now); again > 0 {
			out.RequeueAfter(again) // no event reports that time has passed
		}
	}
	conditions.Report(&st.Status, i.Generation, out.Now, state(i, p, runs, out), out.Problem)
	if p == nil {
		if i.Spec.Suspend {
			st.CurrentPod = ""
		}
		return
	}
	last := st.PodUID
	if count(i, p, out) {
		out.RequeueAfter(100 * time.Millisecond) // to delete it
	}
	if st.PodUID != last {
		out.WriteStatusNow() // the pod waits behind its gate until it is recorded
	}
	st.CurrentPod = p.Name
	st.ContainerRestarts = 0
	if c := container(p); c != nil {
		st.ContainerRestarts = c.RestartCount
	}
	if runs != "" {
		st.Image = runs
	}
}

// count counts a pod before its gate is removed, and reverts that if the pod must
// not run after all. The count is derived from the recorded and the observed state,
// so that repeating it, even after a crash, does not change the result. back
// reports whether the count was reverted.
func count(i *immortalv1alpha1.ImmortalContainer, p *corev1.Pod, out converge.Outcome) (back bool) {
	// A pod that cannot be released yet is not counted, because it may be deleted
	// before it runs.
	release := releasable(i, p) && !i.Spec.Paused && out.Problem.Reason != common.ReasonNotAllowed
	switch {
	case counted(i, p) && gated(p) && !release:
		i.Status.PodUID = ""
		i.Status.StartTimes--
		return true
	case counted(i, p), gated(p) && !(release && isolated(i, out)):
		return false
	}
	// The legacy operator counted its pods too, but recorded no UID: the pod that
	// it left running is already included in its count.
	takenOver := i.Status.PodUID == "" && i.Status.StartTimes > 0 && p.Annotations[naming.AnnotationTemplate] == ""
	i.Status.PodUID = string(p.UID)
	if !takenOver {
		i.Status.StartTimes++
	}
	return false
}

// isolated reports whether the NetworkPolicy that the pod has to wait for exists.
func isolated(i *immortalv1alpha1.ImmortalContainer, out converge.Outcome) bool {
	_, exists := converge.Child[*networkingv1.NetworkPolicy](out, "NetworkPolicy", i.Namespace, podName(i))
	return exists || i.Spec.NetworkPolicy == nil
}

// state returns the state of the pod. runs is the image that its container runs, if
// that is known.
func state(i *immortalv1alpha1.ImmortalContainer, p *corev1.Pod, runs string, out converge.Outcome) conditions.State {
	switch {
	case i.Spec.Suspend && p == nil:
		return conditions.State{
			Available: conditions.False(msgSuspended),
			Ready:     conditions.True(msgSuspended),
		}
	case p == nil:
		return notRunning(msgPodCreated)
	case podstate.DiagnoseNode(p).Problem != podstate.None:
		return notRunning(msgNodeLost, p.Spec.NodeName)
	case i.Spec.Suspend:
		return suspending(p)
	case !p.DeletionTimestamp.IsZero(), gated(p) && !releasable(i, p):
		return notRunning(msgPodDeleted)
	case podstate.HasEnded(p):
		return notRunning(msgPodEnded, why(p))
	case !podstate.Ready(p):
		return waiting(p, out)
	case outdated(i, p):
		return conditions.State{Available: up(), Ready: conditions.False(msgPodReplaced)}
	case !seen(p) || edited(i, p) || runs != image(p):
		return conditions.State{Available: up(), Ready: conditions.False(msgNewImage)}
	}
	return conditions.State{Available: up(), Ready: up()}
}

// suspending returns the state of a pod that is deleted because of spec.suspend.
func suspending(p *corev1.Pod) conditions.State {
	s := notRunning(msgSuspending)
	if podstate.Ready(p) && p.DeletionTimestamp.IsZero() {
		s.Available = up()
	}
	return s
}

// waiting returns the state of a pod that does not run yet.
func waiting(p *corev1.Pod, out converge.Outcome) conditions.State {
	if mounts, again := unmounted(p, out.Now); again > 0 {
		out.RequeueAfter(again)
	} else if len(mounts) > 0 {
		return notRunning(msgNotMounted, strings.Join(mounts, ", "))
	}
	f := waitsFor(p)
	return conditions.State{Available: f, Ready: f}
}

func up() conditions.Condition {
	return conditions.True(msgRunning)
}

func notRunning(m *message.Message, values ...any) conditions.State {
	f := conditions.False(m, values...)
	return conditions.State{Available: f, Ready: f}
}

// image returns the image of the managed container in a pod.
func image(p *corev1.Pod) string {
	for _, c := range p.Spec.Containers {
		if c.Name == containerName {
			return c.Image
		}
	}
	return ""
}

func container(p *corev1.Pod) *corev1.ContainerStatus {
	for k := range p.Status.ContainerStatuses {
		if p.Status.ContainerStatuses[k].Name == containerName {
			return &p.Status.ContainerStatuses[k]
		}
	}
	return nil
}

// unmounted returns the Secrets and ConfigMaps that a pod mounts if it has waited for
// its volumes for too long, or else how long it may wait still.
func unmounted(p *corev1.Pod, now time.Time) (mounts []string, again time.Duration) {
	c := container(p)
	if c == nil || podstate.Diagnose(*c).Problem != podstate.Starting || podstate.ReadyToStart(p) {
		return nil, 0
	}
	mounts = podstate.Mounts(p.Spec.Volumes, func(string) bool { return false })
	if len(mounts) == 0 {
		return nil, 0
	}
	return mounts, podstate.MountTimeLeft(p, now)
}

// waitsFor returns what a pod that does not run is waiting for.
func waitsFor(p *corev1.Pod) conditions.Condition {
	if d := podstate.DiagnoseScheduling(p); d.Problem != podstate.None && d.Reason != corev1.PodReasonSchedulingGated {
		return conditions.False(msgUnschedulable)
	}
	c := container(p)
	if c == nil {
		return conditions.False(msgStarting)
	}
	d := podstate.Diagnose(*c)
	if name := injected(p); name != "" && !prevents(d) {
		return conditions.False(msgInjected, name)
	}
	switch {
	case d.Problem == podstate.ImagePull:
		return conditions.False(msgImagePull)
	case d.MissingReference:
		return conditions.Condition{Reason: msgReferenceMissing.Reason(), Message: msgReferenceMissing.Quoting(d.Text)}
	case d.Problem == podstate.NotCreated:
		return conditions.False(msgNotCreated)
	case d.Problem == podstate.Crash && d.Exit != nil:
		return conditions.False(msgExits, d.ExitCode())
	case d.Problem == podstate.Crash:
		return conditions.False(msgKeepsExiting)
	case d.Problem == podstate.NotReady && c.Started != nil && *c.Started:
		return conditions.False(msgNotReady)
	case c.State.Running != nil && c.Ready:
		return conditions.False(msgPodNotReady)
	}
	return conditions.False(msgStarting)
}

// prevents reports whether a problem is more than that a container is not ready yet.
func prevents(d podstate.Diagnosis) bool {
	return d.Problem == podstate.ImagePull || d.Problem == podstate.NotCreated || d.Problem == podstate.Crash
}

// injected returns the name of a container that another client added to a pod and that
// cannot run, or "".
func injected(p *corev1.Pod) string {
	for _, d := range podstate.Containers(p) {
		if d.Container != containerName && prevents(d) {
			return d.Container
		}
	}
	return ""
}
