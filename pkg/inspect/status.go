package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/podstate"
)

// State summarizes the conditions of an object.
type State string

// The states, those that need attention first.
const (
	// StateStalled needs a change of the spec or of the cluster.
	StateStalled State = "Stalled"
	// StateNotReady is not serving the current spec, and does not say why.
	StateNotReady State = "NotReady"
	// StateUnprocessed has a spec that the operator has not processed.
	StateUnprocessed State = "Unprocessed"
	// StateDeleting is being deleted.
	StateDeleting State = "Deleting"
	// StateProgressing is converging to the spec.
	StateProgressing State = "Progressing"
	// StatePaused is ready, but its children are not changed.
	StatePaused State = "Paused"
	// StateReady serves the current spec.
	StateReady State = "Ready"
)

var order = []State{StateStalled, StateNotReady, StateUnprocessed, StateDeleting, StateProgressing, StatePaused, StateReady}

// Object is what is known about an object.
type Object struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Reference is the object as KIND/NAME, in the words of the command line.
	Reference string      `json:"reference"`
	Created   metav1.Time `json:"created"`
	State     State       `json:"state"`
	// Reason is the reason of the condition Ready.
	Reason string `json:"reason,omitempty"`
	// Cause is why the object is not ready.
	Cause string `json:"cause,omitempty"`
	// PodCause is what the pods show, if Cause does not contain it.
	PodCause string `json:"podCause,omitempty"`
	// Remedy is what to do, if Cause does not contain it.
	Remedy string `json:"remedy,omitempty"`

	Generation         int64 `json:"generation"`
	ObservedGeneration int64 `json:"observedGeneration"`
	// Replicas and ReadyReplicas are those of the status. They are nil for kinds
	// with a single pod.
	Replicas      *int32 `json:"replicas,omitempty"`
	ReadyReplicas *int32 `json:"readyReplicas,omitempty"`
	// StartTimes is the number of pods that were started, of kinds with a single pod, and
	// ContainerRestarts that of the restarts in the last one.
	StartTimes        *int64 `json:"startTimes,omitempty"`
	ContainerRestarts int64  `json:"containerRestarts,omitempty"`

	Revisions      *common.Revisions    `json:"revisions,omitempty"`
	PinnedRevision *int64               `json:"pinnedRevision,omitempty"`
	Canary         *common.CanaryStatus `json:"canary,omitempty"`
	Paused         bool                 `json:"paused,omitempty"`
	PendingChanges []string             `json:"pendingChanges,omitempty"`
	LastActions    []common.Action      `json:"lastActions,omitempty"`
	Conditions     []metav1.Condition   `json:"conditions,omitempty"`
	Children       []Child              `json:"children,omitempty"`
	Notes          []string             `json:"notes,omitempty"`
}

// Child is a child of an object, or a pod of a child.
type Child struct {
	Kind    string      `json:"kind"`
	Name    string      `json:"name"`
	Created metav1.Time `json:"created"`
	// State describes the child in a few words.
	State string `json:"state,omitempty"`
	// Problem reports that State is a reason why the object is not ready.
	Problem  bool    `json:"problem,omitempty"`
	Children []Child `json:"children,omitempty"`
}

// Report contains the objects of one or all namespaces.
type Report struct {
	Objects []Object `json:"objects"`
	// Notes describe what could not be read.
	Notes []string `json:"notes,omitempty"`
}

// Inspector reads objects.
type Inspector struct {
	// Client reads. Events must be selectable by the field
	// involvedObject.name, as they are by the API server.
	Client client.Reader
	Scheme *runtime.Scheme
	Kinds  Kinds

	outage func() []string // of a watch
}

// notes returns what is known about the connection.
func (i Inspector) notes() []string {
	if i.outage == nil {
		return nil
	}
	return i.outage()
}

// Get returns an object, and what it contains.
func (i Inspector) Get(ctx context.Context, namespace string, ref Reference) (*unstructured.Unstructured, Object, error) {
	obj := ref.Kind.New()
	if err := i.Client.Get(ctx, ref.key(namespace), obj); err != nil {
		return nil, Object{}, i.explain(err, ref, namespace)
	}
	o, err := summary(ref.Kind, obj)
	return obj, o, err
}

// Object returns an object with its children and pods.
func (i Inspector) Object(ctx context.Context, namespace string, ref Reference) (Object, error) {
	obj, o, err := i.Get(ctx, namespace, ref)
	if err != nil {
		return Object{}, err
	}
	w := &world{Inspector: i, namespace: namespace}
	o.Children = w.children(ctx, ref, obj)
	w.diagnose(ctx, obj, &o)
	o.Notes = slices.Concat(i.notes(), w.notes, w.unreported(ctx, obj, o.State == StateReady))
	return o, nil
}

// List returns all objects in a namespace, or in all namespaces if it is empty.
// Those that need attention come first.
func (i Inspector) List(ctx context.Context, namespace string) (Report, error) {
	r := Report{Objects: []Object{}}
	worlds := map[string]*world{}
	var errs []error
	for _, k := range i.Kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(k.GroupVersion().WithKind(k.Kind + "List"))
		if err := i.Client.List(ctx, list, client.InNamespace(namespace)); err != nil {
			failed := fmt.Errorf("listing %s: %w", k.Names[1], err)
			if _, silent := errors.AsType[net.Error](err); silent {
				return r, failed // to ask for the other kinds takes as long again
			}
			errs = append(errs, failed)
			if !meta.IsNoMatchError(err) { // a disabled kind may have no CRD
				r.Notes = append(r.Notes, unread(k.Names[1], err))
			}
			continue
		}
		for n := range list.Items {
			obj := &list.Items[n]
			o, err := summary(k, obj)
			if err != nil {
				return r, err
			}
			if o.State != StateReady && o.State != StatePaused {
				w := worlds[o.Namespace]
				if w == nil {
					w = &world{Inspector: i, namespace: o.Namespace}
					worlds[o.Namespace] = w
				}
				w.diagnose(ctx, obj, &o)
			}
			r.Objects = append(r.Objects, o)
		}
	}
	if len(errs) == len(i.Kinds) {
		return r, errs[0] // nothing can be read: the reason is the same for all
	}
	slices.SortStableFunc(r.Objects, func(a, b Object) int {
		return cmp.Or(
			cmp.Compare(a.rank(), b.rank()),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name),
		)
	})
	r.Notes = append(r.Notes, i.notes()...)
	for _, w := range worlds {
		r.Notes = append(r.Notes, w.notes...)
	}
	slices.Sort(r.Notes)
	r.Notes = slices.Compact(r.Notes)
	return r, nil
}

// rank orders objects by how much attention they need.
func (o Object) rank() int {
	r := 2 * slices.Index(order, o.State)
	if o.PodCause == "" && o.Remedy == "" {
		r++
	}
	return r
}

// explain adds the remedy to an error of reading an object.
func (i Inspector) explain(err error, ref Reference, namespace string) error {
	switch {
	case meta.IsNoMatchError(err):
		return fmt.Errorf("reading %s: the cluster has no kind %s: install the operator first", ref, ref.Kind.Kind)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%s does not exist in namespace %q: check the name, or select a namespace with -n", ref, namespace)
	}
	return fmt.Errorf("reading %s in namespace %q: %w", ref, namespace, err)
}

// detail contains the fields that not all kinds have.
type detail struct {
	Spec struct {
		Rollout *common.Rollout `json:"rollout"`
		Paused  bool            `json:"paused"`
	} `json:"spec"`
	Status struct {
		common.Status        `json:",inline"`
		common.RolloutStatus `json:",inline"`

		Replicas      *int32 `json:"replicas"`
		ReadyReplicas *int32 `json:"readyReplicas"`

		StartTimes        *int64 `json:"startTimes"`
		ContainerRestarts int64  `json:"containerRestarts"`
	} `json:"status"`
}

// summary returns what the object itself contains.
func summary(k Kind, obj *unstructured.Unstructured) (Object, error) {
	var d detail
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &d); err != nil {
		return Object{}, fmt.Errorf("reading %s/%s: %w", k.Names[0], obj.GetName(), err)
	}
	st := d.Status
	o := Object{
		Kind: k.Kind, Namespace: obj.GetNamespace(), Name: obj.GetName(), Reference: k.Names[0] + "/" + obj.GetName(), Created: obj.GetCreationTimestamp(),
		Generation: obj.GetGeneration(), ObservedGeneration: st.ObservedGeneration, Conditions: st.Conditions, Paused: d.Spec.Paused,
		Replicas: d.Status.Replicas, ReadyReplicas: d.Status.ReadyReplicas, Revisions: d.Status.Revisions, Canary: d.Status.Canary,
		StartTimes: d.Status.StartTimes, ContainerRestarts: d.Status.ContainerRestarts, PendingChanges: d.Status.PendingChanges, LastActions: d.Status.LastActions,
	}
	if r := d.Spec.Rollout; r != nil {
		o.PinnedRevision = r.PinnedRevision
	}
	ready := meta.FindStatusCondition(st.Conditions, common.ConditionReady)
	if ready != nil {
		o.Reason = ready.Reason
		if ready.Status != metav1.ConditionTrue {
			o.Cause = ready.Message
		}
	}
	switch {
	case !obj.GetDeletionTimestamp().IsZero():
		o.State, o.Reason = StateDeleting, ""
		o.deleting(obj)
	case ready == nil || st.ObservedGeneration < obj.GetGeneration():
		o.State, o.Reason = StateUnprocessed, ""
		o.Cause = "The operator has not processed the latest change of the spec."
		o.Remedy = "If this does not change within a few seconds, check that the operator is running: kubectl get pods -A -l app.kubernetes.io/name=platform-operator"
	case meta.IsStatusConditionTrue(st.Conditions, common.ConditionStalled):
		o.State = StateStalled
	case ready.Status == metav1.ConditionTrue && o.Paused:
		o.State, o.Cause = StatePaused, "Children are not changed, because spec.paused is true."
	case ready.Status == metav1.ConditionTrue:
		o.State = StateReady
	case o.Reason == common.ReasonPaused:
		o.State, o.Remedy = StatePaused, "Set spec.paused to false to apply the differences."
	case meta.IsStatusConditionTrue(st.Conditions, common.ConditionReconciling):
		o.State = StateProgressing
	default:
		o.State = StateNotReady
	}
	return o, nil
}

// deleting explains why an object that is being deleted still exists.
func (o *Object) deleting(obj *unstructured.Unstructured) {
	finalizers := obj.GetFinalizers()
	own := []string{naming.Finalizer, metav1.FinalizerDeleteDependents, metav1.FinalizerOrphanDependents}
	others := slices.DeleteFunc(slices.Clone(finalizers), func(f string) bool { return slices.Contains(own, f) })
	switch {
	case len(others) > 0:
		o.Cause = fmt.Sprintf("The object is being deleted, and waits for the finalizer %s of another component.", strings.Join(others, ", "))
		o.Remedy = "Check the component that set the finalizer. Remove the finalizer only if that component is uninstalled."
	case slices.Contains(finalizers, metav1.FinalizerDeleteDependents):
		o.Cause = "The object is being deleted, and waits until its children are deleted."
	case o.Cause == "" || !meta.IsStatusConditionPresentAndEqual(o.Conditions, common.ConditionReady, metav1.ConditionUnknown):
		o.Cause = "The object is being deleted, and the operator is releasing its children."
	}
}

// world reads each type in a namespace at most once.
type world struct {
	Inspector
	namespace string
	lists     map[schema.GroupVersionKind][]client.Object
	notes     []string
}

// labelled returns the objects of a type that have the label of children.
func (w *world) labelled(ctx context.Context, of client.Object) []client.Object {
	gvk, list, err := w.list(of)
	if all, ok := w.lists[gvk]; ok {
		return all
	}
	if w.lists == nil {
		w.lists = map[schema.GroupVersionKind][]client.Object{}
	}
	w.lists[gvk] = nil
	if err == nil {
		err = w.Client.List(ctx, list, client.InNamespace(w.namespace), client.MatchingLabels{naming.LabelManagedBy: naming.ManagedBy})
	}
	if _, partial := of.(*metav1.PartialObjectMetadata); partial && (meta.IsNoMatchError(err) || apierrors.IsNotFound(err)) {
		return nil // the cluster does not serve it
	}
	var items []runtime.Object
	if err == nil {
		items, err = meta.ExtractList(list)
	}
	if err != nil {
		w.note(gvk.Kind, err)
		return nil
	}
	var all []client.Object
	for _, item := range items {
		all = append(all, item.(client.Object))
	}
	slices.SortFunc(all, func(a, b client.Object) int { return cmp.Compare(a.GetName(), b.GetName()) })
	w.lists[gvk] = all
	return all
}

func (w *world) note(kind string, err error) {
	if n := unread(kind, err); !slices.Contains(w.notes, n) {
		w.notes = append(w.notes, n)
	}
}

// unread describes a type that could not be listed.
func unread(kind string, err error) string {
	if apierrors.IsForbidden(err) {
		return fmt.Sprintf("%s: not shown, because you do not have permission to list them.", kind)
	}
	return fmt.Sprintf("%s: not shown, because they cannot be listed: %v", kind, err)
}

// pods returns the pods of an object: its own, and those of its Deployment and its Jobs.
func (w *world) pods(ctx context.Context, obj *unstructured.Unstructured) []*corev1.Pod {
	var selectors []labels.Selector
	for _, o := range w.labelled(ctx, &appsv1.Deployment{}) {
		if s, err := metav1.LabelSelectorAsSelector(o.(*appsv1.Deployment).Spec.Selector); err == nil && naming.OwnerUID(o) == obj.GetUID() {
			selectors = append(selectors, s)
		}
	}
	for _, o := range w.labelled(ctx, &batchv1.Job{}) {
		if naming.OwnerUID(o) == obj.GetUID() {
			selectors = append(selectors, labels.SelectorFromSet(labels.Set{batchv1.JobNameLabel: o.GetName()}))
		}
	}
	var all []*corev1.Pod
	for _, o := range w.labelled(ctx, &corev1.Pod{}) {
		matches := func(s labels.Selector) bool { return s.Matches(labels.Set(o.GetLabels())) }
		if naming.OwnerUID(o) == obj.GetUID() || slices.ContainsFunc(selectors, matches) {
			all = append(all, o.(*corev1.Pod))
		}
	}
	return all
}

// childTypes returns the types of children that an object may have.
func childTypes(obj *unstructured.Unstructured) []client.Object {
	all := slices.Clone(children)
	for field, t := range optional {
		if _, requested, err := unstructured.NestedFieldNoCopy(obj.Object, "spec", field); err == nil && requested {
			all = append(all, t)
		}
	}
	return all
}

// children returns the children of an object, the workload first, and its pods
// below the workload.
func (w *world) children(ctx context.Context, ref Reference, obj *unstructured.Unstructured) []Child {
	var first, all []Child
	history := 0
	for _, t := range childTypes(obj) {
		for _, o := range w.labelled(ctx, t) {
			if naming.OwnerUID(o) != obj.GetUID() {
				continue
			}
			gvk, _, _ := w.list(o)
			c := Child{Kind: gvk.Kind, Name: o.GetName(), Created: o.GetCreationTimestamp()}
			list := &all
			switch o := o.(type) {
			case *appsv1.ControllerRevision:
				history++
				continue
			case *corev1.Pod:
				c, list = w.pod(ctx, o), &first
			case *appsv1.Deployment:
				c.State, list = describe(o), &first
				for _, p := range w.pods(ctx, obj) {
					c.Children = append(c.Children, w.pod(ctx, p))
				}
			default:
				c.State = describe(o)
				hpa, ok := o.(*autoscalingv2.HorizontalPodAutoscaler)
				c.Problem = ok && podstate.AutoscalerProblem(hpa) != nil
			}
			if o.GetDeletionTimestamp() != nil {
				c.State, c.Problem = "being deleted", true
			}
			*list = append(*list, c)
		}
	}
	slices.SortStableFunc(all, func(a, b Child) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name)) })
	if history > 0 {
		all = append(all, Child{Kind: "ControllerRevision", State: fmt.Sprintf("%d kept; see history %s", history, ref)})
	}
	return append(first, all...)
}
