package inspect

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/resources"
)

// podProblem is why a pod is not ready.
type podProblem struct {
	// reason is that of the kubelet or the scheduler, and message what it says.
	reason, message string
	remedy          string
	container       string
	// quote is the essential part of message. If the cause of the object contains
	// it, the problem need not be repeated.
	quote string
	// event reports that only an event of the pod contains the cause.
	event bool
	rank  int
}

// The ranks of problems: of several pods, the one with the highest rank is the
// cause of the others.
const (
	rankStarting = iota + 1
	rankNotReady
	rankUnschedulable
	rankFailed
	rankNotCreated
	rankCrash
)

const (
	remedyImage      = "Correct the image, or what prevents it from being pulled: the registry, the network or a pull Secret."
	remedySchedule   = "Request less, relax the scheduling constraints of spec.pod, or add nodes."
	remedyReference  = "Create the object that the message names, or correct the spec."
	remedyQuota      = "Raise the quota, or request less."
	remedyProbe      = "If this lasts, correct the readiness probe, or the program in the container."
	remedyDescribe   = "See its events: kubectl -n %s describe pod %s"
	remedyCrash      = "See its log: kubectl -n %s logs %s -c %s --previous"
	reasonUnsched    = "Unschedulable"
	reasonCrashLoop  = "CrashLoopBackOff"
	containerWaiting = "ContainerCreating"
)

// problemOf returns why a pod is not ready, or nil if it is ready.
func problemOf(p *corev1.Pod) *podProblem {
	if p.DeletionTimestamp != nil || resources.PodReady(p) || p.Status.Phase == corev1.PodSucceeded {
		return nil
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return &podProblem{reason: cmp.Or(c.Reason, reasonUnsched), message: c.Message, remedy: remedySchedule, rank: rankUnschedulable}
		}
	}
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if f := problemOfContainer(p, s); f != nil {
			f.container = s.Name
			return f
		}
	}
	if p.Status.Phase == corev1.PodFailed {
		return &podProblem{reason: cmp.Or(p.Status.Reason, "Failed"), message: p.Status.Message, rank: rankFailed}
	}
	return &podProblem{reason: string(cmp.Or(p.Status.Phase, corev1.PodPending)), remedy: describePod(p), event: true, rank: rankStarting}
}

func problemOfContainer(p *corev1.Pod, s corev1.ContainerStatus) *podProblem {
	ended := s.LastTerminationState.Terminated
	if s.State.Terminated != nil {
		ended = s.State.Terminated
	}
	if w := s.State.Waiting; w != nil {
		switch {
		case w.Reason == reasonCrashLoop, (w.Reason == "PodInitializing" || w.Reason == "" || w.Reason == containerWaiting) && ended != nil:
			return crash(p, s.Name, cmp.Or(w.Reason, reasonCrashLoop), ended)
		case w.Reason == "PodInitializing" && len(p.Status.InitContainerStatuses) > 0:
			return nil // an init container is the cause
		case w.Reason == containerWaiting || w.Reason == "PodInitializing" || w.Reason == "":
			return &podProblem{reason: cmp.Or(w.Reason, containerWaiting), message: w.Message, remedy: describePod(p), event: true, rank: rankStarting}
		case strings.Contains(w.Reason, "Image") || w.Reason == "RegistryUnavailable":
			return &podProblem{reason: w.Reason, message: w.Message, quote: "The image " + s.Image + " cannot be pulled: ", remedy: remedyImage, rank: rankNotCreated}
		}
		return &podProblem{reason: w.Reason, message: w.Message, remedy: remedyReference, rank: rankNotCreated}
	}
	if ended != nil && s.State.Running == nil && ended.ExitCode != 0 {
		return crash(p, s.Name, cmp.Or(ended.Reason, "Error"), ended)
	}
	if s.State.Running != nil && !s.Ready && !isInit(p, s.Name) {
		return &podProblem{reason: "NotReady", message: "the container runs, but its readiness probe fails", remedy: remedyProbe, event: true, rank: rankNotReady}
	}
	return nil
}

func isInit(p *corev1.Pod, container string) bool {
	return slices.ContainsFunc(p.Status.InitContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == container })
}

func crash(p *corev1.Pod, container, reason string, ended *corev1.ContainerStateTerminated) *podProblem {
	f := &podProblem{reason: reason, rank: rankCrash, remedy: fmt.Sprintf(remedyCrash, p.Namespace, p.Name, container)}
	if ended == nil {
		f.message = "the container keeps ending"
		return f
	}
	f.message = fmt.Sprintf("the container exits with code %d", ended.ExitCode)
	f.quote = fmt.Sprintf("exits with code %d", ended.ExitCode)
	if ended.Reason != "" && ended.Reason != "Error" && ended.Reason != "Completed" {
		f.message += " (" + ended.Reason + ")"
	}
	if m := strings.TrimSpace(ended.Message); m != "" {
		f.message += ": " + m
		f.quote = m
	}
	return f
}

func describePod(p *corev1.Pod) string { return fmt.Sprintf(remedyDescribe, p.Namespace, p.Name) }

// text returns the problem in one line.
func (f podProblem) text() string {
	s := f.reason
	if f.container != "" {
		s = "container " + f.container + ": " + s
	}
	if f.message != "" {
		s += ": " + oneLine(f.message)
	}
	return s
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// diagnose adds what the pods of an object show to its cause.
func (w *world) diagnose(ctx context.Context, k Kind, obj converge.Object, o *Object) {
	if o.State == StateReady || o.State == StatePaused || o.State == StateDeleting {
		return
	}
	var worst *podProblem
	var of *corev1.Pod
	for _, p := range w.pods(ctx, k, obj) {
		if f := problemOf(p); f != nil && (worst == nil || f.rank > worst.rank) {
			worst, of = f, p
		}
	}
	if worst == nil {
		w.refused(ctx, obj, o)
		return
	}
	w.addEvent(ctx, of, worst)
	if worst.rank == rankStarting && worst.message == "" {
		return // it has only begun to start
	}
	o.PodCause = "Pod " + of.Name + ": " + worst.text()
	if contains(o.Cause, worst.message) || contains(o.Cause, worst.quote) {
		o.PodCause = ""
	}
	o.Remedy = cmp.Or(o.Remedy, worst.remedy)
}

// contains reports whether a condition quotes the message of a pod.
func contains(cause, message string) bool {
	return message != "" && strings.Contains(oneLine(cause), oneLine(message))
}

// refused adds why the pods of a Deployment cannot be created.
func (w *world) refused(ctx context.Context, obj converge.Object, o *Object) {
	for _, d := range w.labelled(ctx, &appsv1.Deployment{}, false) {
		dep := d.(*appsv1.Deployment)
		if dep.Name != obj.GetName() {
			continue
		}
		if cause := resources.ReplicaFailure(dep); cause != "" && !contains(o.Cause, cause) {
			o.PodCause = "Pods cannot be created: " + oneLine(cause)
			if strings.Contains(cause, "exceeded quota") {
				o.Remedy = cmp.Or(o.Remedy, remedyQuota)
			}
		}
	}
}

// addEvent adds the latest warning about a pod, if only an event contains the
// cause: the status of a pod does not name a volume that cannot be mounted.
func (w *world) addEvent(ctx context.Context, p *corev1.Pod, f *podProblem) {
	if !f.event {
		return
	}
	var list corev1.EventList
	if err := w.Client.List(ctx, &list, client.InNamespace(p.Namespace), client.MatchingFields{EventField: p.Name}); err != nil {
		w.note("Event", err)
		return
	}
	var latest *corev1.Event
	for i := range list.Items {
		e := &list.Items[i]
		if e.Type != corev1.EventTypeWarning || e.InvolvedObject.UID != "" && e.InvolvedObject.UID != p.UID {
			continue
		}
		if latest == nil || when(e).After(when(latest)) {
			latest = e
		}
	}
	if latest == nil {
		return
	}
	f.message = latest.Reason + ": " + latest.Message
	if strings.Contains(latest.Message, "not found") {
		f.remedy = remedyReference
	}
	if latest.Reason != "Unhealthy" {
		f.rank = max(f.rank, rankNotCreated)
	}
}

// EventField is the field by which the events of a pod are selected.
const EventField = "involvedObject.name"

func when(e *corev1.Event) time.Time {
	for _, t := range []time.Time{e.LastTimestamp.Time, e.EventTime.Time, e.FirstTimestamp.Time} {
		if !t.IsZero() {
			return t
		}
	}
	return e.CreationTimestamp.Time
}

// pod returns a pod as a child.
func (w *world) pod(ctx context.Context, p *corev1.Pod) Child {
	c := Child{Kind: "Pod", Name: p.Name, Created: p.CreationTimestamp}
	f := problemOf(p)
	switch {
	case p.DeletionTimestamp != nil:
		c.State = "being deleted"
	case f != nil:
		w.addEvent(ctx, p, f)
		c.State, c.Problem = f.text(), f.rank > rankStarting
	case p.Status.Phase == corev1.PodSucceeded:
		c.State = "completed"
	default:
		c.State = "ready"
		if restarts := restarts(p); restarts > 0 {
			c.State += fmt.Sprintf(", restarted %d times", restarts)
		}
	}
	if c.Problem || p.Spec.NodeName == "" || p.DeletionTimestamp != nil {
		return c
	}
	c.State += " on " + p.Spec.NodeName
	return c
}

func restarts(p *corev1.Pod) (n int32) {
	for _, s := range p.Status.ContainerStatuses {
		n += s.RestartCount
	}
	return n
}

// describe returns the state of a child in a few words.
func describe(o client.Object) string {
	switch o := o.(type) {
	case *appsv1.Deployment:
		s := fmt.Sprintf("%d of %d available", o.Status.AvailableReplicas, value(o.Spec.Replicas, 1))
		if o.Status.UpdatedReplicas != o.Status.Replicas {
			s += fmt.Sprintf(", %d updated", o.Status.UpdatedReplicas)
		}
		return s
	case *corev1.Service:
		s := string(o.Spec.Type)
		if s == "" {
			s = string(corev1.ServiceTypeClusterIP)
		}
		var ports strings.Builder
		for _, p := range o.Spec.Ports {
			fmt.Fprintf(&ports, " %d", p.Port)
			if p.NodePort != 0 {
				fmt.Fprintf(&ports, ":%d", p.NodePort)
			}
		}
		return s + ports.String()
	case *policyv1.PodDisruptionBudget:
		if o.Status.DisruptionsAllowed == 1 {
			return "1 eviction allowed"
		}
		return fmt.Sprintf("%d evictions allowed", o.Status.DisruptionsAllowed)
	case *autoscalingv2.HorizontalPodAutoscaler:
		return fmt.Sprintf("%d replicas, from %d to %d", o.Status.DesiredReplicas, value(o.Spec.MinReplicas, 1), o.Spec.MaxReplicas)
	case *networkingv1.Ingress:
		var hosts []string
		for _, r := range o.Spec.Rules {
			hosts = append(hosts, r.Host)
		}
		return strings.Join(hosts, ", ")
	}
	return ""
}

func value(n *int32, unset int32) int32 {
	if n == nil {
		return unset
	}
	return *n
}

// serving describes the revisions of an object in one line.
func (o Object) serving() string {
	r := o.Revisions
	if r == nil || r.Current == 0 {
		return ""
	}
	s := strconv.FormatInt(r.Current, 10)
	switch {
	case o.PinnedRevision != nil && *o.PinnedRevision == r.Current:
		s += ", pinned"
	case o.PinnedRevision != nil:
		s += fmt.Sprintf(", pinned to %d", *o.PinnedRevision)
	}
	if r.LastHealthy != 0 && r.LastHealthy != r.Current {
		s += fmt.Sprintf(", last healthy %d", r.LastHealthy)
	}
	if r.Failed != 0 {
		s += fmt.Sprintf(", failed %d", r.Failed)
	}
	return s
}

// readiness describes the pods of an object in the table.
func (o Object) readiness() string {
	if o.Replicas == nil || o.ReadyReplicas == nil {
		for _, c := range o.Conditions {
			if c.Type == common.ConditionAvailable {
				if c.Status == "True" {
					return "1/1"
				}
				return "0/1"
			}
		}
		return "-"
	}
	return fmt.Sprintf("%d/%d", *o.ReadyReplicas, *o.Replicas)
}
