// Package podstate diagnoses pods: it is the only place that interprets the reasons
// and the states that the kubelet and the scheduler report. All kinds and the command
// line use it, so that a problem has the same name everywhere. It is pure.
package podstate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/platform-operator/platform-operator/pkg/judge"
)

// Problem is why a container or a pod is not ready.
type Problem int

// The problems.
const (
	// None means that no problem is visible.
	None Problem = iota
	// Recovered means that the container is ready, but crashed before.
	Recovered
	// Starting means that the kubelet has not created the container yet. It waits for
	// the volumes, the network or the init containers of the pod.
	Starting
	// Initializing means that an init container runs, and that the pod waits for it.
	Initializing
	// NotReady means that the container runs, and that a probe fails.
	NotReady
	// Unschedulable means that no node can run the pod.
	Unschedulable
	// NodeLost means that the kubelet of the pod's node does not respond. The states of
	// the containers are those before that.
	NodeLost
	// Ended means that the pod failed, and that its containers do not show why. It
	// was evicted, for example.
	Ended
	// ImagePull means that the image cannot be pulled.
	ImagePull
	// NotCreated means that the kubelet cannot create or start the container.
	NotCreated
	// Crash means that the container exits, and that the kubelet restarts it.
	Crash
)

// Diagnosis is what is wrong with a container or a pod.
type Diagnosis struct {
	Problem Problem
	// Container and Image are those of the container, or empty if the problem is not
	// one of a container. Init reports that it is an init container.
	Container, Image string
	Init             bool
	// Reason is the word of the kubelet or the scheduler for the problem.
	Reason string
	// Text is what the kubelet, the scheduler or the registry says, or the end of the
	// container's log. See Excerpt.
	Text string
	// Exit is the last exit of a container that crashes. It is nil if that is not
	// known.
	Exit *corev1.ContainerStateTerminated
	// Restarts is how often the container was restarted, also because of its node.
	Restarts int32
	// Running reports that the container runs again after Exit.
	Running bool
	// MissingReference reports that the container refers to a ConfigMap, a Secret or a
	// key that does not exist, which Text names.
	MissingReference bool
	// Missing reports that what the container itself names does not exist: the registry
	// has no such image, or the image no such command.
	Missing bool
	// Unreachable reports that the registry does not serve anything at the moment, or
	// that the node cannot store images.
	Unreachable bool
}

// waiting has the reasons for which the kubelet does not run a container
// (k8s.io/kubernetes 1.36: pkg/kubelet/kubelet_pods.go, images/types.go,
// kuberuntime/kuberuntime_container.go and container/sync_result.go;
// k8s.io/cri-api: pkg/errors). Any other reason is the text of an error that prevented
// the container from being started.
var waiting = map[string]Problem{
	"":                  Starting, // it has been created, or its state is not known
	"ContainerCreating": Starting,
	"PodInitializing":   Starting,

	"ErrImagePull":              ImagePull,
	"ImagePullBackOff":          ImagePull,
	"ErrImageNeverPull":         ImagePull,
	"ImageInspectError":         ImagePull,
	"InvalidImageName":          ImagePull,
	"RegistryUnavailable":       ImagePull,
	"SignatureValidationFailed": ImagePull,

	"CreateContainerConfigError": NotCreated,
	"CreateContainerError":       NotCreated,
	"PreCreateHookError":         NotCreated,
	"PreStartHookError":          NotCreated,
	"RunContainerError":          NotCreated,

	"CrashLoopBackOff":        Crash,
	"PostStartHookError":      Crash, // the kubelet stops the container if the hook fails
	"RestartingAllContainers": Crash,
}

// Diagnose returns why a container is not ready. It is not for init containers.
func Diagnose(s corev1.ContainerStatus) Diagnosis { return diagnose(s, false) }

// diagnose is Diagnose. ends reports that the container is to end before others start.
func diagnose(s corev1.ContainerStatus, ends bool) Diagnosis {
	d := Diagnosis{Container: s.Name, Image: s.Image, Restarts: s.RestartCount}
	exit := lastCrash(s, ends)
	switch w := s.State.Waiting; {
	case w != nil:
		d.Reason, d.Problem = w.Reason, NotCreated
		if known, ok := waiting[w.Reason]; ok {
			d.Problem = known
		}
		if d.Problem == Starting && exit != nil {
			d.Problem = Crash
		}
		d.describe(w)
	case s.Ready && s.State.Running == nil: // an init container that has finished
	case s.Ready && exit != nil:
		d.Problem = Recovered
	case exit != nil:
		d.Problem = Crash
	case s.State.Running != nil && !s.Ready:
		d.Problem = NotReady
	}
	if exit != nil && (d.Problem == Crash || d.Problem == Recovered) {
		d.Exit, d.Text, d.Running = exit, strings.TrimSpace(exit.Message), s.State.Running != nil
		d.Reason = cmp.Or(d.Reason, exit.Reason, "Error")
		d.Missing = lacksCommand(exit.Message)
	}
	return d
}

// describe sets what the kubelet says about a container that it does not run.
func (d *Diagnosis) describe(w *corev1.ContainerStateWaiting) {
	switch d.Problem {
	case ImagePull:
		d.Text = pullError(w.Message)
		d.Missing = w.Reason == "InvalidImageName" || imageMissing.MatchString(d.Text)
		d.Unreachable = !d.Missing && (w.Reason == "RegistryUnavailable" || unreachable.MatchString(d.Text))
	case NotCreated:
		d.Text = cmp.Or(strings.TrimSpace(w.Message), w.Reason)
		d.MissingReference = w.Reason == "CreateContainerConfigError" && isMissingReference(w.Message)
		d.Missing = lacksCommand(w.Message)
	case Starting:
		d.Text = w.Message
	}
}

// nodeOff has the reasons of containers that ended with their node, as containerd 2.4
// (internal/cri/server/restart.go) and the kubelet 1.36 (kuberuntime_container.go) report
// them. Their exit codes, 255 and 137, are not those of the program.
var nodeOff = []string{"Unknown", "ContainerStatusUnknown"}

// lastCrash returns the last exit of a container if it is a crash: an error, or the end
// of a container that is not to end, has been restarted, and is not ready. The kubelet
// restarts an init container, which is to end, after a reboot of the node, too.
func lastCrash(s corev1.ContainerStatus, ends bool) *corev1.ContainerStateTerminated {
	for _, t := range []*corev1.ContainerStateTerminated{s.State.Terminated, s.LastTerminationState.Terminated} {
		if t == nil || slices.Contains(nodeOff, t.Reason) {
			continue
		}
		if judge.IsReport(t.Message) {
			continue
		}
		if t.ExitCode != 0 || !ends && !s.Ready && s.RestartCount > 0 {
			return t
		}
	}
	return nil
}

// ExitCode returns the exit code of a container that crashes, and its reason if that
// says more.
func (d Diagnosis) ExitCode() string {
	code := fmt.Sprint(d.Exit.ExitCode)
	switch d.Exit.Reason {
	case "", "Error", "Completed":
		return code
	}
	return code + " (" + d.Exit.Reason + ")"
}

// Containers returns the diagnoses of the containers of a pod that have a problem, in
// the order in which they start.
func Containers(p *corev1.Pod) []Diagnosis {
	started := slices.ContainsFunc(p.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.State.Running != nil || s.State.Terminated != nil || s.LastTerminationState.Terminated != nil
	})
	var all []Diagnosis
	for i, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		init := i < len(p.Status.InitContainerStatuses)
		d := diagnose(s, init && !isSidecar(p, s.Name))
		d.Init = init
		if d.Init && d.Problem == NotReady && !started {
			d.Problem = Initializing
		}
		if d.Problem != None {
			all = append(all, d)
		}
	}
	return all
}

// isSidecar reports whether an init container is to run as long as the pod.
func isSidecar(p *corev1.Pod, name string) bool {
	return slices.ContainsFunc(p.Spec.InitContainers, func(c corev1.Container) bool {
		return c.Name == name && c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
	})
}

// DiagnoseNode returns whether the node of a pod is NodeLost, or None. The node lifecycle
// controller then sets the Ready condition of a pod to False, but keeps its reason, which
// is empty while it is True, and the states of the containers as the kubelet last wrote
// them. A pod that was not ready does not show it.
func DiagnoseNode(p *corev1.Pod) Diagnosis {
	lost := p.Status.Phase == corev1.PodRunning && len(p.Status.ContainerStatuses) > 0 &&
		slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionFalse && c.Reason == ""
		}) &&
		!slices.ContainsFunc(p.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
			return !s.Ready || s.State.Running == nil
		})
	if !lost {
		return Diagnosis{}
	}
	return Diagnosis{Problem: NodeLost, Reason: "NodeLost", Text: fmt.Sprintf("node %q does not respond", p.Spec.NodeName)}
}

// DiagnoseScheduling returns whether a pod is Unschedulable, or None.
func DiagnoseScheduling(p *corev1.Pod) Diagnosis {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return Diagnosis{Problem: Unschedulable, Reason: cmp.Or(c.Reason, corev1.PodReasonUnschedulable), Text: c.Message}
		}
	}
	return Diagnosis{}
}

// DiagnosePod returns why a pod is not ready, or None if it is ready, has completed or
// is being deleted. If several containers have a problem, the one that starts first is
// the cause.
func DiagnosePod(p *corev1.Pod) Diagnosis {
	if p.DeletionTimestamp != nil || Ready(p) || p.Status.Phase == corev1.PodSucceeded {
		return Diagnosis{}
	}
	if d := DiagnoseScheduling(p); d.Problem != None {
		return d
	}
	if d := DiagnoseNode(p); d.Problem != None {
		return d
	}
	failed := p.Status.Phase == corev1.PodFailed
	ended := Diagnosis{Problem: Ended, Reason: cmp.Or(p.Status.Reason, string(p.Status.Phase)), Text: p.Status.Message}
	if failed && p.Status.Reason != "" { // such as Evicted
		return ended
	}
	for _, d := range Containers(p) {
		if d.Problem != Recovered {
			return d
		}
	}
	if failed {
		return ended
	}
	return Diagnosis{Problem: Starting, Reason: string(cmp.Or(p.Status.Phase, corev1.PodPending))}
}

// HasEnded reports whether a pod will never run again, because it failed, was evicted or
// completed.
func HasEnded(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded
}

// Ready reports whether the kubelet considers a pod ready. A pod that is being
// deleted may be ready still.
func Ready(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// ReadySince returns since when a pod has been ready without a restart of a container, by
// the clock of its node, and false if it is not ready.
func ReadySince(p *corev1.Pod) (since time.Time, ok bool) {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			since, ok = c.LastTransitionTime.Time, true
		}
	}
	if running := RunningSince(p); running.After(since) {
		since = running
	}
	return since, ok
}

// RunningSince returns since when the containers of a pod that serve have all been running
// without a restart, by the clock of its node.
func RunningSince(p *corev1.Pod) (since time.Time) {
	for _, s := range p.Status.ContainerStatuses {
		if r := s.State.Running; r != nil && r.StartedAt.After(since) {
			since = r.StartedAt.Time
		}
	}
	return since
}

// pullError returns the error of the registry, which the message of a back-off repeats
// or omits.
func pullError(message string) string {
	if i := strings.LastIndex(message, "rpc error: "); i >= 0 {
		message = message[i:]
	}
	if strings.HasPrefix(message, "Back-off pulling") && !strings.Contains(message, ": ") {
		return ""
	}
	return strings.TrimSpace(message)
}

// isMissingReference reports whether the kubelet's message about a container that
// cannot be created means that a ConfigMap or Secret, or a key in it, does not exist.
// Such a message is the same in each attempt; other messages may contain pod names.
func isMissingReference(message string) bool {
	return strings.HasSuffix(message, " not found") || strings.HasPrefix(message, "couldn't find key ")
}
