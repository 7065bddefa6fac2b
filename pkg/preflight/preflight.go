package preflight

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/configsource"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/podstate"
)

// world is the state that objects are evaluated against.
type world struct {
	client  client.Client // reads are answered from lists
	applier *apply.Applier
	refs    *configsource.Reader
	now     time.Time
}

// look does what a reconcile does before its first write.
func look(ctx context.Context, w world, k converge.AnyKind, obj converge.Object) Object {
	out := Object{Namespace: obj.GetNamespace(), Name: obj.GetName()}
	gvk, err := apiutil.GVKForObject(obj, w.client.Scheme())
	if err != nil {
		out.unread(err)
		return out
	}
	out.Kind = gvk.Kind
	out.look(ctx, w, k, obj, metav1.GroupVersionKind(gvk))
	return out
}

func (o *Object) look(ctx context.Context, w world, k converge.AnyKind, obj converge.Object, gvk metav1.GroupVersionKind) {
	if !obj.GetDeletionTimestamp().IsZero() {
		o.note("it is being deleted; it is left out")
		return
	}
	if st := obj.GetStatus(); st.ObservedGeneration != obj.GetGeneration() {
		o.note("the operator that runs now has not yet acted on the latest change of its spec, which is a part of this report")
	}
	model, err := k.ObserveModel(ctx, converge.Reader{Reader: w.client, Now: time.Now()}, w.refs, obj)
	if err != nil {
		o.unread(err)
		return
	}
	plan, err := model.Plan()
	o.problem(err)
	o.Paused = k.Paused(obj)
	owner := apply.Owner{Object: obj, GVK: gvk}
	stand := map[string]client.Object{}
	owned := func(ctx context.Context, in apply.Intent) (bool, error) { return w.applier.Owned(ctx, owner, in) }
	o.problem(converge.ForEachChild(ctx, plan, owned, func(in apply.Intent) error {
		f, err := w.applier.Diff(ctx, owner, in, true)
		switch {
		case meta.IsNoMatchError(err) && in.Optional:
			return nil
		case meta.IsNoMatchError(err):
			return &fault.Error{Class: fault.Stall, Reason: common.ReasonFeatureUnavailable, Message: in.Kind + " is not available in this cluster."}
		case err != nil:
			return fmt.Errorf("%s: %w", in, err)
		}
		if f.Live != nil {
			stand[in.Kind] = f.Live
		}
		if f.Action != apply.Unchanged {
			o.change(in.Kind, in.Name, f)
		}
		return nil
	}))
	for _, p := range plan.Prune {
		if err := o.prune(w.client.Scheme(), obj, p); err != nil {
			o.unread(err)
		}
	}
	o.Pending = pending(model, obj, w.now, stand)
}

// pending returns the value that the model would write into
// status.pendingChanges. obj is not read afterwards.
func pending(model converge.Model, obj converge.Object, now time.Time, stand map[string]client.Object) []string {
	model.UpdateStatus(converge.NewOutcome(now, fault.Verdict{}, stand))
	var o struct {
		Status struct {
			PendingChanges []string `json:"pendingChanges"`
		} `json:"status"`
	}
	raw, err := json.Marshal(obj)
	if err != nil || json.Unmarshal(raw, &o) != nil {
		return nil // cannot happen: obj was just decoded from JSON
	}
	return o.Status.PendingChanges
}

// Options select the objects to evaluate.
type Options struct {
	// Namespaces are the namespaces to evaluate. Empty means all.
	Namespaces []string
	// MustExist are namespaces that a user named: one that does not exist is misspelled.
	MustExist []string
	// Configuration is where the platform configuration is from, for the report.
	Configuration string
	// Version is the version of this operator, for the report.
	Version string
	// Objects, if set, are evaluated instead of those of the cluster, as if they
	// were applied: with the spec, labels and annotations in them, and with the
	// status and the children in the cluster.
	Objects []converge.Object
	// Disabled are kinds that this operator does not manage.
	Disabled []converge.AnyKind
}

// Run evaluates all objects of all kinds. Anything that cannot be read is
// listed in the report. An error means that there is no report.
func Run(ctx context.Context, cfg *rest.Config, scheme *runtime.Scheme, kinds []converge.AnyKind, o Options) (Report, error) {
	c, err := client.New(ReadOnly(cfg), client.Options{Scheme: scheme})
	if err != nil {
		return Report{}, fmt.Errorf("making a client: %w", err)
	}
	return run(ctx, c, kinds, o), ctx.Err()
}

func run(ctx context.Context, c client.Client, kinds []converge.AnyKind, o Options) Report {
	r := Report{Version: o.Version, Configuration: o.Configuration, Objects: []Object{}}
	s := &snapshot{Client: c, namespaces: o.Namespaces, types: map[listed]*held{}, indexes: map[string]client.IndexerFunc{}}
	w := world{
		client: s, applier: apply.NewApplier(s, c, nil), now: time.Now(),
		refs: configsource.NewReader(s, c),
	}
	load := func(t client.Object, opts ...client.ListOption) *held {
		h, err := s.load(ctx, t, opts...)
		if err != nil {
			r.Unread = append(r.Unread, reason(err))
		}
		return h
	}
	for _, ns := range o.MustExist {
		// Without permission to read the namespace, its objects decide.
		if err := c.Get(ctx, client.ObjectKey{Name: ns}, &corev1.Namespace{}); apierrors.IsNotFound(err) {
			r.Unread = append(r.Unread, fmt.Sprintf("namespace %q does not exist", ns))
		}
	}
	served := len(kinds) == 0
	for _, k := range kinds {
		if o.Objects != nil && !slices.ContainsFunc(o.Objects, func(obj converge.Object) bool { return reflect.TypeOf(obj) == reflect.TypeOf(k.New()) }) {
			continue
		}
		objects := load(k.New())
		if objects == nil {
			continue
		}
		served = served || !meta.IsNoMatchError(objects.err)
		evaluated := slices.Collect(maps.Values(objects.byKey))
		if o.Objects != nil {
			evaluated = applied(&r, k, o.Objects, objects.byKey)
		}
		if len(evaluated) == 0 {
			continue // the types of its children need neither be readable nor served
		}
		for _, t := range k.Unowned {
			load(t)
		}
		for _, w := range k.Watches {
			s.indexes[w.Index] = w.IndexValues
		}
		for _, t := range k.Watched() {
			load(t, ours)
		}
		for _, obj := range evaluated {
			r.Objects = append(r.Objects, look(ctx, w, k, obj.DeepCopyObject().(converge.Object)))
		}
	}
	if !served {
		r.Unread = append(r.Unread, "the API server serves no kind of this operator: check the context, or install the CRDs")
	}
	for _, k := range o.Disabled {
		h, err := s.load(ctx, k.New())
		if err != nil { // which pods restart is known nevertheless
			r.Unmanaged = append(r.Unmanaged, fmt.Sprintf("%s is disabled: %s.", k.Name(), reason(err)))
			continue
		}
		r.disabled(k.Name(), h.byKey)
	}
	r.sum()
	return r
}

// applied returns the objects of a kind as they would be after they were applied.
func applied(r *Report, k converge.AnyKind, wanted []converge.Object, live map[client.ObjectKey]client.Object) []client.Object {
	var all []client.Object
	for _, obj := range wanted {
		if reflect.TypeOf(obj) != reflect.TypeOf(k.New()) {
			continue
		}
		if existing := live[client.ObjectKeyFromObject(obj)]; existing != nil {
			merged, err := merge(k.New(), obj, existing)
			if err != nil {
				r.Unread = append(r.Unread, reason(err))
				continue
			}
			obj = merged
		}
		all = append(all, obj)
	}
	return all
}

// merge sets into to an existing object with the spec, labels and annotations of
// another one.
func merge(into, from converge.Object, existing client.Object) (converge.Object, error) {
	var spec, all map[string]any
	for source, target := range map[client.Object]*map[string]any{from: &spec, existing: &all} {
		raw, err := json.Marshal(source)
		if err == nil {
			err = json.Unmarshal(raw, target)
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", from.GetName(), err)
		}
	}
	var owned []map[string]any
	for _, m := range existing.GetManagedFields() {
		var fields map[string]any
		if m.FieldsV1 != nil && json.Unmarshal(m.FieldsV1.GetRawBytes(), &fields) == nil {
			owned = append(owned, fields)
		}
	}
	if len(owned) > 0 {
		spec["spec"] = keepUnowned(spec["spec"], all["spec"], below(owned, "spec"))
	}
	all["spec"] = spec["spec"]
	raw, err := json.Marshal(all)
	if err == nil {
		err = json.Unmarshal(raw, into)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", from.GetName(), err)
	}
	labels, annotations := maps.Clone(into.GetLabels()), maps.Clone(into.GetAnnotations())
	if labels == nil {
		labels = map[string]string{}
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	maps.Copy(labels, from.GetLabels())
	maps.Copy(annotations, from.GetAnnotations())
	into.SetLabels(labels)
	into.SetAnnotations(annotations)
	return into, nil
}

// keepUnowned adds to a value what an existing one has in addition and no client owns: the
// defaults of the platform configuration, which applying a manifest does not remove.
func keepUnowned(value, existing any, owned []map[string]any) any {
	merged, ok := value.(map[string]any)
	if !ok {
		return value
	}
	had, _ := existing.(map[string]any)
	for name, was := range had {
		by := below(owned, name)
		if now, stated := merged[name]; stated {
			merged[name] = keepUnowned(now, was, by)
		} else if len(by) == 0 {
			merged[name] = was
		}
	}
	return merged
}

// below returns the sets of managed fields that contain a field, from there on.
func below(owned []map[string]any, name string) []map[string]any {
	var all []map[string]any
	for _, fields := range owned {
		if f, ok := fields["f:"+name].(map[string]any); ok {
			all = append(all, f)
		}
	}
	return all
}

// change records that a child would be written.
func (o *Object) change(kind, name string, f apply.Preview) {
	c := Child{Kind: kind, Name: name, Action: verbs[f.Action]}
	for _, d := range f.Differences {
		c.Fields = append(c.Fields, d.String())
	}
	if restarts(f) {
		c.Pods = podsOf(f.Live)
	}
	c.Addresses = lost(f)
	o.add(c)
}

// prune records that a child would be deleted. A child that is unowned or
// already being deleted is ignored, as by the operator.
func (o *Object) prune(scheme *runtime.Scheme, owner, child client.Object) error {
	if !apply.Owns(owner, child) || !child.GetDeletionTimestamp().IsZero() {
		return nil
	}
	gvk, err := apiutil.GVKForObject(child, scheme)
	if err != nil {
		return err
	}
	o.add(Child{Kind: gvk.Kind, Name: child.GetName(), Action: "delete", Pods: podsOf(child), Addresses: addressesOf(child)})
	return nil
}

func (o *Object) add(c Child) {
	o.Children = append(o.Children, c)
	if !o.Paused {
		o.Pods += c.Pods
		o.Addresses += c.Addresses
	}
}

var verbs = map[apply.Action]string{apply.Created: "create", apply.Changed: "change", apply.TakenOver: "take over"}

// restarts reports whether the differences restart pods. It may overestimate: a
// field of a template counts even if the API server would set it to its current
// value.
func restarts(f apply.Preview) bool {
	within := "spec.template"
	if p, ok := f.Live.(*corev1.Pod); ok {
		if podstate.HasEnded(p) {
			return false
		}
		within = "spec"
	}
	return slices.ContainsFunc(f.Differences, func(d apply.Difference) bool {
		rest, ok := strings.CutPrefix(d.Path, within)
		if !ok || rest != "" && rest[0] != '.' {
			return false
		}
		if within != "spec" {
			return true
		}
		// These are the only fields of a pod that can change without a restart of
		// its containers. A scheduling gate that is stated but absent is meant for
		// a new pod: a running pod keeps running without it.
		for _, mild := range []string{".schedulingGates", ".tolerations", ".activeDeadlineSeconds", ".terminationGracePeriodSeconds"} {
			if strings.HasPrefix(rest, mild) {
				return false
			}
		}
		return true
	})
}

// podsOf returns the number of pods of a child, which a change of its template
// replaces.
func podsOf(live client.Object) int32 {
	switch c := live.(type) {
	case *appsv1.Deployment:
		return ptr.Deref(c.Spec.Replicas, 1)
	case *appsv1.StatefulSet:
		return ptr.Deref(c.Spec.Replicas, 1)
	case *appsv1.DaemonSet:
		return c.Status.DesiredNumberScheduled
	case *corev1.Pod:
		if podstate.HasEnded(c) {
			return 0
		}
		return 1
	}
	return 0
}

// addressesOf returns the number of addresses outside the cluster that a Service has: its
// node ports and its load balancer.
func addressesOf(live client.Object) int32 {
	s, ok := live.(*corev1.Service)
	if !ok {
		return 0
	}
	var n int32
	if s.Spec.Type == corev1.ServiceTypeLoadBalancer {
		n++
	}
	for _, p := range s.Spec.Ports {
		if p.NodePort != 0 {
			n++
		}
	}
	return n
}

// lost returns how many addresses of a Service would be replaced, or removed. A ClusterIP
// Service has none. The API server keeps node ports if the other types are exchanged.
func lost(f apply.Preview) int32 {
	s, ok := f.Live.(*corev1.Service)
	if !ok {
		return 0
	}
	becomes, stated, _ := unstructured.NestedString(f.Stated, "spec", "type")
	if !stated {
		becomes = string(s.Spec.Type)
	}
	if becomes == string(corev1.ServiceTypeClusterIP) {
		return addressesOf(s)
	}
	var n int32
	if s.Spec.Type == corev1.ServiceTypeLoadBalancer && becomes != string(s.Spec.Type) {
		n++
	}
	for _, d := range f.Differences {
		if nodePort.MatchString(d.Path) && d.Verb != "be added" {
			n++
		}
	}
	return n
}

// nodePort matches the paths of a port of a Service and of its node port.
var nodePort = regexp.MustCompile(`^spec\.ports\[[^]]*](\.nodePort)?$`)

func (o *Object) note(format string, args ...any) {
	o.Notes = append(o.Notes, fmt.Sprintf(format, args...))
}

func (o *Object) unread(err error) { o.Unread = append(o.Unread, reason(err)) }

// problem records an error that a reconcile would report in the conditions of
// the object. Any other error is recorded as a failed read.
func (o *Object) problem(err error) {
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range all.Unwrap() {
			o.problem(err)
		}
		return
	}
	if err == nil {
		return
	}
	if _, ok := errors.AsType[*fault.Error](err); ok {
		o.note("it would not be completed: %s", fault.Classify(err).Message)
		return
	}
	o.unread(err)
}

// reason returns the error message on one line.
func reason(err error) string {
	return strings.Join(strings.Fields(err.Error()), " ")
}

func byName(a, b Object) int {
	return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}
