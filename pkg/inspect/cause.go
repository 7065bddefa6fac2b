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
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/message"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/podstate"
)

// podProblem is why a pod is not ready.
type podProblem struct {
	podstate.Diagnosis
	// message describes the problem, and remedy says what to do if the message does not.
	message, remedy string
	// quote is the essential part of message. If the cause of the object contains
	// it, the problem need not be repeated.
	quote string
	// event reports that only an event of the pod contains the cause.
	event bool
}

const (
	remedyImage     = "Correct the image, or what prevents it from being pulled: the registry, the network or a pull Secret."
	remedySchedule  = "Relax the scheduling constraints of spec.pod, or add nodes."
	remedyContainer = "Correct the spec of the container, or what the message names."
	remedyDescribe  = "See its events: kubectl -n %s describe pod %s"
	remedyCrash     = "See its log: kubectl -n %s logs %s -c %s"
)

// problemOf returns why a pod is not ready, or nil if it is ready.
func problemOf(p *corev1.Pod) *podProblem {
	f := podProblem{Diagnosis: podstate.DiagnosePod(p)}
	f.message = podstate.Excerpt(f.Text)
	switch f.Problem {
	case podstate.None:
		return nil
	case podstate.Unschedulable:
		f.remedy = remedySchedule
	case podstate.Starting:
		f.remedy, f.event = describePod(p), true
	case podstate.Initializing:
		f.Reason, f.message = "PodInitializing", "the init container runs, and the pod waits for it"
		f.remedy, f.event = describePod(p), true
	case podstate.NotReady:
		f.Reason, f.message = "NotReady", "the container runs, but its readiness probe fails"
		f.event = true
	case podstate.ImagePull:
		f.quote, f.remedy = "The image "+f.Image+" cannot be pulled: ", remedyImage
	case podstate.NotCreated:
		f.remedy = remedyContainer
	case podstate.Crash:
		f.message, f.quote = exits(f.Diagnosis)
		f.remedy = fmt.Sprintf(remedyCrash, p.Namespace, p.Name, f.Container)
		if f.Restarts > 0 {
			f.remedy += " --previous"
		}
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
	general := ""
	if worst == nil {
		w.refused(ctx, obj, o)
		w.probed(ctx, obj, o)
	} else {
		w.addEvents(ctx, of, worst)
		if worst.Problem != podstate.Starting || worst.message != "" { // otherwise it has only begun to start
			o.PodCause, general = "Pod "+of.Name+": "+worst.text(), worst.remedy
		}
	}
	o.Remedy = cmp.Or(o.Remedy, podstate.Remedy(oneLine(o.Cause+" "+o.PodCause)), general)
	if worst != nil && (contains(o.Cause, worst.message) || contains(o.Cause, worst.quote)) {
		o.PodCause = ""
	}
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
	}
}

// probed adds why the readiness probe of pods failed that were rolled back: only events
// contain it.
func (w *world) probed(ctx context.Context, obj *unstructured.Unstructured, o *Object) {
	if o.Reason != common.ReasonRolledBack || !strings.Contains(o.Cause, "does not become ready") {
		return
	}
	all, err := w.events(ctx, obj)
	if err != nil {
		w.note("Event", err)
	}
	existing := w.pods(ctx, obj)
	for _, e := range slices.Backward(all) {
		of := e.InvolvedObject
		if e.Reason == "Unhealthy" && !slices.ContainsFunc(existing, func(p *corev1.Pod) bool { return p.Name == of.Name }) {
			o.PodCause = fmt.Sprintf("Pod %s, which was deleted: %s: %s", of.Name, e.Reason, oneLine(e.Message))
			return
		}
	}
}

// addEvents adds what only events contain: the status of a pod does not name a volume that
// cannot be mounted, nor why a claim is not bound.
func (w *world) addEvents(ctx context.Context, p *corev1.Pod, f *podProblem) {
	if strings.Contains(f.message, "unbound immediate PersistentVolumeClaims") {
		for _, v := range p.Spec.Volumes {
			if c := v.PersistentVolumeClaim; c != nil {
				if e := w.latest(ctx, p.Namespace, c.ClaimName, func(e *corev1.Event) bool {
					return e.Reason == "ProvisioningFailed" || e.Reason == "FailedBinding"
				}); e != nil {
					f.message = fmt.Sprintf("%s; PersistentVolumeClaim %s: %s: %s", strings.TrimSuffix(f.message, "."), c.ClaimName, e.Reason, oneLine(e.Message))
				}
			}
		}
	}
	if !f.event {
		return
	}
	e := w.latest(ctx, p.Namespace, p.Name, func(e *corev1.Event) bool {
		return e.Type == corev1.EventTypeWarning && (e.InvolvedObject.UID == "" || e.InvolvedObject.UID == p.UID)
	})
	if e == nil {
		return
	}
	f.message = e.Reason + ": " + e.Message
	if e.Reason != "Unhealthy" {
		f.Problem = max(f.Problem, podstate.NotCreated)
	}
}

// latest returns the latest of the events of an object that matter, or nil.
func (w *world) latest(ctx context.Context, namespace, name string, matters func(*corev1.Event) bool) *corev1.Event {
	var list corev1.EventList
	if err := w.Client.List(ctx, &list, client.InNamespace(namespace), client.MatchingFields{EventField: name}); err != nil {
		w.note("Event", err)
		return nil
	}
	var latest *corev1.Event
	for i := range list.Items {
		if e := &list.Items[i]; matters(e) && (latest == nil || when(e).After(when(latest))) {
			latest = e
		}
	}
	return latest
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
		w.addEvents(ctx, p, f)
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
		s := fmt.Sprintf("%d of %d available", o.Status.AvailableReplicas, ptr.Deref(o.Spec.Replicas, 1))
		if o.Status.UpdatedReplicas != o.Status.Replicas {
			s += fmt.Sprintf(", %d updated", o.Status.UpdatedReplicas)
		}
		return s
	case *corev1.Service:
		s := string(cmp.Or(o.Spec.Type, corev1.ServiceTypeClusterIP))
		var ports strings.Builder
		for _, p := range o.Spec.Ports {
			fmt.Fprintf(&ports, " %d", p.Port)
			if p.NodePort != 0 {
				fmt.Fprintf(&ports, ":%d", p.NodePort)
			}
		}
		if unreached(o) {
			ports.WriteString(noAddress)
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
		return fmt.Sprintf("%d replicas, from %d to %d", o.Status.DesiredReplicas, ptr.Deref(o.Spec.MinReplicas, 1), o.Spec.MaxReplicas)
	case *networkingv1.Ingress:
		var hosts []string
		for _, r := range o.Spec.Rules {
			hosts = append(hosts, r.Host)
		}
		s := strings.Join(hosts, ", ")
		if c := o.Spec.IngressClassName; c != nil {
			s += ", class " + *c
		}
		if len(o.Status.LoadBalancer.Ingress) == 0 {
			s += noAddress
		}
		return s
	}
	return ""
}

// noAddress describes that no controller has set an address.
const noAddress = ", no address"

// unreached reports whether a Service waits for a load balancer.
func unreached(s *corev1.Service) bool {
	return s.Spec.Type == corev1.ServiceTypeLoadBalancer && len(s.Status.LoadBalancer.Ingress) == 0
}

// unreported returns notes about what no condition reports: Services that wait for a load
// balancer, and, of an object that is Ready, pods that were evicted.
func (w *world) unreported(ctx context.Context, obj *unstructured.Unstructured, ready bool) (notes []string) {
	for _, p := range w.pods(ctx, obj) {
		if f := problemOf(p); ready && f != nil && f.Problem == podstate.Ended {
			notes = append(notes, message.Join("Pod "+p.Name+": "+f.text(), podstate.Remedy(f.text())))
		}
	}
	for _, o := range w.labelled(ctx, &corev1.Service{}) {
		if s, ok := o.(*corev1.Service); ok && naming.OwnerUID(s) == obj.GetUID() && unreached(s) {
			notes = append(notes, fmt.Sprintf("Service %q has no address: no load balancer has been provisioned. If the cluster has none, use spec.expose, or set spec.service.type to NodePort.", s.Name))
		}
	}
	return notes
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
