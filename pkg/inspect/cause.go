package inspect

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/podstate"
)

// podProblem is why a pod is not ready.
type podProblem struct {
	podstate.Diagnosis
	// message describes the problem, and remedy says what to do.
	message, remedy string
	// quote is the essential part of message. If the cause of the object contains
	// it, the problem need not be repeated.
	quote string
	// event reports that only an event of the pod contains the cause.
	event bool
}

const (
	remedyImage     = "Correct the image, or what prevents it from being pulled: the registry, the network or a pull Secret."
	remedyReference = "Create the object that the message names, or correct the spec."
	remedyQuota     = "Raise the quota, or request what it allows."
	remedyNode      = "Repair the node, or delete the Node object if the node no longer exists."
	remedyProbe     = "If this lasts, correct the readiness probe, or the program in the container."
	remedyDescribe  = "See its events: kubectl -n %s describe pod %s"
	remedyCrash     = "See its log: kubectl -n %s logs %s -c %s --previous"
)

// problemOf returns why a pod is not ready, or nil if it is ready.
func problemOf(p *corev1.Pod) *podProblem {
	f := podProblem{Diagnosis: podstate.DiagnosePod(p)}
	f.message = podstate.Excerpt(f.Text)
	switch f.Problem {
	case podstate.None:
		return nil
	case podstate.Unschedulable:
		f.remedy = remedySchedule(f.Text)
	case podstate.NodeLost:
		f.remedy = remedyNode
	case podstate.Starting:
		f.remedy, f.event = describePod(p), true
	case podstate.Initializing:
		f.Reason, f.message = "PodInitializing", "the init container runs, and the pod waits for it"
		f.remedy, f.event = describePod(p), true
	case podstate.NotReady:
		f.Reason, f.message = "NotReady", "the container runs, but its readiness probe fails"
		f.remedy, f.event = remedyProbe, true
	case podstate.ImagePull:
		f.quote, f.remedy = "The image "+f.Image+" cannot be pulled: ", remedyImage
	case podstate.NotCreated:
		f.remedy = remedyReference
	case podstate.Crash:
		f.message, f.quote = exits(f.Diagnosis)
		f.remedy = fmt.Sprintf(remedyCrash, p.Namespace, p.Name, f.Container)
	}
	return &f
}

// exits describes a container that crashes, and returns the essential part of that.
func exits(d podstate.Diagnosis) (text, quote string) {
	if d.Exit == nil {
		return "the container keeps exiting", ""
	}
	text, quote = "the container exits with code "+d.ExitCode(), fmt.Sprintf("exits with code %d", d.Exit.ExitCode)
	if log := podstate.Excerpt(d.Text); log != "" {
		text, quote = text+": "+log, log
	}
	return text, quote
}

// remedies are the remedies for what the scheduler says about the nodes
// (k8s.io/kubernetes 1.36, pkg/scheduler/framework/plugins).
var remedies = []struct{ says, remedy string }{
	{"Insufficient ", "Request less, or add nodes."},
	{"Too many pods", "Add nodes."},
	{"taint", "Tolerate the taint in spec.pod.tolerations, or remove it from a node."},
	{"node affinity/selector", "Correct spec.pod.nodeSelector and spec.pod.affinity, or label a node."},
	{"pod affinity rules", "Relax spec.pod.affinity."},
	{"anti-affinity rules", "Relax spec.pod.affinity, or add nodes."},
	{"topology spread constraints", "Relax spec.pod.topologySpreadConstraints, or add nodes."},
	{"were unschedulable", "Uncordon a node, or add nodes."},
}

// remedySchedule returns the remedies for the reasons that the scheduler gives. Each
// may be the reason of another node, so all of them are listed.
func remedySchedule(says string) string {
	var all []string
	for _, r := range remedies {
		if strings.Contains(says, r.says) {
			all = append(all, r.remedy)
		}
	}
	if len(all) == 0 {
		return "Relax the scheduling constraints of spec.pod, or add nodes."
	}
	return strings.Join(all, " ")
}

func describePod(p *corev1.Pod) string { return fmt.Sprintf(remedyDescribe, p.Namespace, p.Name) }

// text returns the problem in one line.
func (f podProblem) text() string {
	s := f.Reason
	if f.Container != "" {
		s = "container " + f.Container + ": " + s
	}
	if f.message != "" {
		s += ": " + oneLine(f.message)
	}
	return s
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// diagnose adds what the pods of an object show to its cause.
func (w *world) diagnose(ctx context.Context, obj *unstructured.Unstructured, o *Object) {
	if o.State == StateReady || o.State == StatePaused || o.State == StateDeleting {
		return
	}
	var worst *podProblem
	var of *corev1.Pod
	for _, p := range w.pods(ctx, obj) {
		if f := problemOf(p); f != nil && (worst == nil || f.Problem > worst.Problem) {
			worst, of = f, p
		}
	}
	if worst == nil {
		w.refused(ctx, obj, o)
		return
	}
	w.addEvent(ctx, of, worst)
	if worst.Problem == podstate.Starting && worst.message == "" {
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
func (w *world) refused(ctx context.Context, obj *unstructured.Unstructured, o *Object) {
	for _, d := range w.labelled(ctx, &appsv1.Deployment{}) {
		dep := d.(*appsv1.Deployment)
		if dep.Name != obj.GetName() {
			continue
		}
		cause := podstate.ReplicaFailure(dep)
		if cause != "" && !contains(o.Cause, cause) {
			o.PodCause = "Pods cannot be created: " + oneLine(cause)
		}
		if strings.Contains(cause, "exceeded quota") {
			o.Remedy = cmp.Or(o.Remedy, remedyQuota)
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
		f.Problem = max(f.Problem, podstate.NotCreated)
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
		c.State, c.Problem = f.text(), f.Problem > podstate.Initializing
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
	case *batchv1.Job:
		for _, c := range o.Status.Conditions {
			if c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) {
				return strings.ToLower(string(c.Type))
			}
		}
		return "running"
	case *policyv1.PodDisruptionBudget:
		if o.Status.DisruptionsAllowed == 1 {
			return "1 eviction allowed"
		}
		return fmt.Sprintf("%d evictions allowed", o.Status.DisruptionsAllowed)
	case *autoscalingv2.HorizontalPodAutoscaler:
		if c := podstate.AutoscalerProblem(o); c != nil {
			return fmt.Sprintf("%s is False, %s: %s", c.Type, c.Reason, oneLine(c.Message))
		}
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
	if c := o.Canary; c != nil && r.LastHealthy != 0 {
		return fmt.Sprintf("%d, canary %d", r.LastHealthy, c.Revision)
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
				switch {
				case c.Status == "True":
					return "1/1"
				case o.State == StateReady: // without pods, as its spec says
					return "0/0"
				}
				return "0/1"
			}
		}
		return "-"
	}
	return fmt.Sprintf("%d/%d", *o.ReadyReplicas, *o.Replicas)
}
