package model

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/pkg/podstate"
)

// The tag of an image determines what it does.
const (
	tagCrashes = "crash"   // the container terminates as soon as it starts
	tagMissing = "missing" // no registry has the image
	tagBrief   = "brief"   // the container is ready, and then terminates each time
	tagLate    = "late"    // the container terminates twice, and then runs
)

const crashLoop = "CrashLoopBackOff"

// runs reports whether a container of an image runs.
func runs(image string) bool {
	return !slices.ContainsFunc([]string{tagCrashes, tagMissing, tagBrief}, func(tag string) bool { return strings.Contains(image, tag) })
}

// inputs are the ConfigMaps and Secrets of a namespace, as "ConfigMap/name".
type inputs map[string]map[string]string

// kubelet simulates the scheduler and the kubelet for one pod, and reports whether
// the pod changed. Like the kubelet, it first reports in the status that it has
// observed the new image, and then stops the container with the old one. Like the pod
// garbage collector, it deletes a terminating pod that has no node: the API server leaves
// one if the client disconnects in the middle of its deletion.
func (c *Cluster) kubelet(ctx context.Context, p *corev1.Pod, in inputs) (bool, error) {
	if !p.DeletionTimestamp.IsZero() && len(p.Finalizers) == 0 {
		if err := c.client.Delete(ctx, p, client.GracePeriodSeconds(0), client.Preconditions{UID: &p.UID}); client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("deleting a terminating pod: %w", err)
		}
		return true, nil
	}
	if !p.DeletionTimestamp.IsZero() || podstate.HasEnded(p) || c.lost[p.UID] {
		return false, nil
	}
	before := p.DeepCopy()
	st := &p.Status
	st.Phase = corev1.PodPending
	if len(p.Spec.SchedulingGates) > 0 {
		st.ObservedGeneration = p.Generation
		setPodCondition(p, corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonSchedulingGated)
		return c.writePod(ctx, before, p)
	}
	if c.full && !podIs(p, corev1.PodScheduled) {
		if c.room == 0 {
			setPodCondition(p, corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonUnschedulable)
			return c.writePod(ctx, before, p)
		}
		c.room--
	}
	setPodCondition(p, corev1.PodScheduled, corev1.ConditionTrue, "")
	for _, s := range st.ContainerStatuses {
		spec := containerNamed(p, s.Name)
		if spec != nil && s.State.Running != nil && s.Image != spec.Image && st.ObservedGeneration < p.Generation {
			st.Phase, st.ObservedGeneration = corev1.PodRunning, p.Generation
			return c.writePod(ctx, before, p) // observed; the container is replaced in the next step
		}
	}
	st.ObservedGeneration = p.Generation
	ready := c.initialise(p, in)
	statuses := st.ContainerStatuses
	st.ContainerStatuses = nil
	for i := range p.Spec.Containers {
		s := c.container(p, &p.Spec.Containers[i], statuses, ready, in)
		st.ContainerStatuses = append(st.ContainerStatuses, s)
		if s.State.Running != nil {
			st.Phase = corev1.PodRunning
		}
	}
	isReady := corev1.ConditionTrue
	for _, s := range st.ContainerStatuses {
		if !s.Ready {
			isReady = corev1.ConditionFalse
		}
	}
	setPodCondition(p, corev1.ContainersReady, isReady, "")
	setPodCondition(p, corev1.PodReady, isReady, "")
	return c.writePod(ctx, before, p)
}

// initialise runs the init containers and reports whether they are done.
func (c *Cluster) initialise(p *corev1.Pod, in inputs) bool {
	was := p.Status.InitContainerStatuses
	p.Status.InitContainerStatuses = nil
	for i := range p.Spec.InitContainers {
		spec := &p.Spec.InitContainers[i]
		if k := slices.IndexFunc(was, func(s corev1.ContainerStatus) bool {
			return s.Name == spec.Name && s.State.Terminated != nil && s.State.Terminated.ExitCode == 0
		}); k >= 0 {
			p.Status.InitContainerStatuses = append(p.Status.InitContainerStatuses, was[k])
			continue
		}
		s := c.container(p, spec, was, true, in)
		if s.State.Running != nil {
			s.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed"}}
			s.Ready = true
		}
		p.Status.InitContainerStatuses = append(p.Status.InitContainerStatuses, s)
		if s.State.Terminated == nil || s.State.Terminated.ExitCode != 0 {
			return false
		}
	}
	return true
}

// container returns the status of a container.
func (c *Cluster) container(p *corev1.Pod, spec *corev1.Container, was []corev1.ContainerStatus, initialised bool, in inputs) corev1.ContainerStatus {
	s := corev1.ContainerStatus{Name: spec.Name, Image: spec.Image}
	for _, w := range was {
		if w.Name != spec.Name {
			continue
		}
		if w.State.Running != nil && w.Image == spec.Image && runs(spec.Image) {
			return w
		}
		s.RestartCount, s.LastTerminationState = w.RestartCount, w.LastTerminationState
		if again := w.State.Waiting != nil && w.State.Waiting.Reason == crashLoop && w.RestartCount < 2; again || w.State.Running != nil {
			s.RestartCount++ // it is stopped because of another image, or starts again
		}
	}
	no := false
	s.Started = &no
	if !initialised {
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: "PodInitializing"}
		return s
	}
	if missingVolume(p, in) {
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}
		return s
	}
	if missing := missingEnv(spec, in); missing != "" {
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: "CreateContainerConfigError", Message: missing + " not found"}
		return s
	}
	switch {
	case strings.Contains(spec.Image, tagMissing):
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "Back-off pulling image " + spec.Image}
	case strings.Contains(spec.Image, tagCrashes):
		return crashing(spec, max(3, s.RestartCount), "no such file")
	case strings.Contains(spec.Image, tagBrief) && s.RestartCount > 0, strings.Contains(spec.Image, tagLate) && s.RestartCount < 2:
		return crashing(spec, s.RestartCount, "no database")
	default:
		yes := true
		s.Started, s.Ready = &yes, true
		s.ImageID = "docker.io/library/" + spec.Image + "@sha256:" + strings.Repeat("0", 64)
		s.ContainerID = fmt.Sprintf("containerd://%s-%d", p.UID, s.RestartCount)
		s.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.Now()}
	}
	return s
}

// crashing returns the status of a container that has exited once more than it was restarted.
func crashing(spec *corev1.Container, restarts int32, says string) corev1.ContainerStatus {
	no := false
	return corev1.ContainerStatus{
		Name: spec.Name, Image: spec.Image, RestartCount: restarts, Started: &no,
		State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: crashLoop}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", Message: says}},
	}
}

func (c *Cluster) writePod(ctx context.Context, before, p *corev1.Pod) (bool, error) {
	if equality.Semantic.DeepEqual(before.Status, p.Status) {
		return false, nil
	}
	err := c.client.Status().Patch(ctx, p, client.MergeFrom(before))
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("writing the status of pod %s: %w", p.Name, err)
	}
	return true, nil
}

func setPodCondition(p *corev1.Pod, t corev1.PodConditionType, s corev1.ConditionStatus, reason string) {
	for i := range p.Status.Conditions {
		if k := &p.Status.Conditions[i]; k.Type == t {
			if k.Status != s || k.Reason != reason {
				k.Status, k.Reason, k.LastTransitionTime = s, reason, metav1.Now()
			}
			return
		}
	}
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: t, Status: s, Reason: reason, LastTransitionTime: metav1.Now()})
}

func podIs(p *corev1.Pod, t corev1.PodConditionType) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == t && c.Status == corev1.ConditionTrue })
}

func containerNamed(p *corev1.Pod, name string) *corev1.Container {
	for i := range p.Spec.Containers {
		if p.Spec.Containers[i].Name == name {
			return &p.Spec.Containers[i]
		}
	}
	return nil
}

// missingVolume reports whether a ConfigMap or Secret does not exist that a volume needs.
func missingVolume(p *corev1.Pod, in inputs) bool {
	return slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
		return v.ConfigMap != nil && !yes(v.ConfigMap.Optional) && in["ConfigMap/"+v.ConfigMap.Name] == nil ||
			v.Secret != nil && !yes(v.Secret.Optional) && in["Secret/"+v.Secret.SecretName] == nil
	})
}

// missingEnv returns one that the environment variables of a container need, or "".
func missingEnv(c *corev1.Container, in inputs) string {
	for _, e := range c.EnvFrom {
		switch {
		case e.ConfigMapRef != nil && !yes(e.ConfigMapRef.Optional) && in["ConfigMap/"+e.ConfigMapRef.Name] == nil:
			return fmt.Sprintf("configmap %q", e.ConfigMapRef.Name)
		case e.SecretRef != nil && !yes(e.SecretRef.Optional) && in["Secret/"+e.SecretRef.Name] == nil:
			return fmt.Sprintf("secret %q", e.SecretRef.Name)
		}
	}
	return ""
}

func yes(b *bool) bool { return b != nil && *b }
