package apply

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/platform-operator/platform-operator/pkg/apply/compare"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

const ownerUID = types.UID("owner-1")

// owner returns a ConfigMap that represents an object of one of the kinds. This
// package uses only its metadata.
func owner() Owner {
	return Owner{
		Object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: ownerUID}},
		GVK:    metav1.GroupVersionKind{Group: "my.domain", Version: "v1", Kind: "WebServer"},
	}
}

func ownedBy(apiVersion, kind, name string, uid types.UID) []metav1.OwnerReference {
	return []metav1.OwnerReference{{
		APIVersion: apiVersion, Kind: kind, Name: name, UID: uid,
		Controller: new(true), BlockOwnerDeletion: new(true),
	}}
}

// ownReferences returns the owner reference of the children of owner().
func ownReferences() []metav1.OwnerReference {
	return ownedBy("my.domain/v1", "WebServer", "web", ownerUID)
}

// world is an API server with a cache. The cache holds only children with the
// operator's label, and reduces managed fields to the managers' names, as the
// operator's does.
type world struct {
	t       *testing.T
	server  client.WithWatch
	cached  client.Client
	applier *Applier

	writes    []string         // requests of the applier, in order
	bodies    []map[string]any // the stated fields of each apply
	actions   []Action         // the actions counted
	contested int
	repaired  []Drift
	skipped   int
	failed    []error

	refuse func(verb string, n int) error // n is the number of the write
	mutate func(client.Object)            // a mutating webhook
	cache  func(client.Object) bool       // modifies the cached object; false means not found; if nil, the cache is up to date
}

// newWorld returns a world that holds the owner and the given objects.
func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	w := &world{t: t}
	w.server = fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithReturnManagedFields().WithObjects(append(objects, owner().Object)...).Build()
	w.cached = interceptor.NewClient(w.server, interceptor.Funcs{Get: w.get, Apply: w.apply, Patch: w.patch, Delete: w.delete})
	w.restart()
	return w
}

// replaceOwner replaces the owner in the API server, or deletes it if change is nil.
func (w *world) replaceOwner(change func(*corev1.ConfigMap)) {
	w.t.Helper()
	o := owner().Object.(*corev1.ConfigMap)
	errs := []error{w.server.Delete(w.t.Context(), o.DeepCopy())}
	if change != nil {
		change(o)
		going := o.DeletionTimestamp != nil
		errs = append(errs, w.server.Create(w.t.Context(), o))
		if going {
			errs = append(errs, w.server.Delete(w.t.Context(), o))
		}
	}
	if err := errors.Join(errs...); err != nil {
		w.t.Fatal(err)
	}
}

// restart simulates a new process, which remembers nothing.
func (w *world) restart() { w.applier = NewApplier(w.cached, w.server, w.count) }

func (w *world) count(_, _ string, e Event) {
	switch {
	case e.Err != nil:
		w.failed = append(w.failed, e.Err)
	case e.Action == Unchanged:
		w.skipped++
	default:
		w.actions = append(w.actions, e.Action)
	}
	if e.Drift != "" {
		w.repaired = append(w.repaired, e.Drift)
	}
	if e.Contested {
		w.contested++
	}
}

func (w *world) get(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	notFound := apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	if w.cache != nil {
		if !w.cache(o) {
			return notFound
		}
	} else if err := c.Get(ctx, key, o, opts...); err != nil {
		return err
	}
	if o.GetLabels()[naming.LabelManagedBy] != naming.ManagedBy {
		reflect.ValueOf(o).Elem().SetZero()
		return notFound
	}
	compare.ReduceManagedFields(o)
	return nil
}

func (w *world) send(verb string) error {
	w.writes = append(w.writes, verb)
	if w.refuse != nil {
		return w.refuse(verb, len(w.writes))
	}
	return nil
}

func (w *world) apply(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	var set client.ApplyOptions
	set.ApplyOptions(opts)
	handsOver := set.FieldManager == naming.FieldManager+"-hand-over"
	if set.FieldManager != naming.FieldManager && !handsOver || set.Force == nil || !*set.Force {
		w.t.Errorf("applied as %q, forced %v", set.FieldManager, set.Force)
	}
	raw, err := json.Marshal(o)
	if err != nil {
		return err
	}
	var body map[string]any
	if err := json.Unmarshal(raw, &body); err != nil {
		return err
	}
	w.bodies = append(w.bodies, body)
	verb := "apply"
	if handsOver {
		verb = "hand over"
	}
	if err := w.send(verb); err != nil {
		return err
	}
	if err := c.Apply(ctx, o, opts...); err != nil || w.mutate == nil {
		return err
	}
	meta := body["metadata"].(map[string]any)
	stored, err := c.Scheme().New(schema.FromAPIVersionAndKind(body["apiVersion"].(string), body["kind"].(string)))
	if err != nil {
		return err
	}
	obj := stored.(client.Object)
	obj.SetNamespace(meta["namespace"].(string))
	obj.SetName(meta["name"].(string))
	if err := w.mutated(ctx, c, obj); err != nil {
		return err
	}
	obj.GetObjectKind().SetGroupVersionKind(schema.FromAPIVersionAndKind(body["apiVersion"].(string), body["kind"].(string)))
	if raw, err = json.Marshal(obj); err != nil {
		return err
	}
	reflect.ValueOf(o).Elem().SetZero()
	return json.Unmarshal(raw, o)
}

// mutated reads a child that was written, after the webhook has changed it.
func (w *world) mutated(ctx context.Context, c client.WithWatch, o client.Object) error {
	if err := c.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
		return err
	}
	w.mutate(o)
	return c.Update(ctx, o, client.FieldOwner("webhook"))
}

func (w *world) patch(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	var set client.PatchOptions
	set.ApplyOptions(opts)
	verb := "patch " + string(p.Type())
	if raw, err := p.Data(o); err != nil || !strings.Contains(string(raw), `"resourceVersion":"`) {
		w.t.Errorf("a patch that is not fenced by the resource version: %s %v", raw, err)
	}
	if err := w.send(verb); err != nil {
		return err
	}
	return c.Patch(ctx, o, p, opts...)
}

func (w *world) delete(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
	var set client.DeleteOptions
	set.ApplyOptions(opts)
	if set.Preconditions == nil || set.Preconditions.UID == nil || *set.Preconditions.UID != o.GetUID() {
		w.t.Error("a delete without the child's UID could delete another of that name")
	}
	if err := w.send("delete"); err != nil {
		return err
	}
	return c.Delete(ctx, o, opts...)
}

// pass applies the intent and returns the child.
func (w *world) pass(in Intent) Child {
	w.t.Helper()
	c, err := w.applier.Apply(w.t.Context(), owner(), in)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// retries applies the intent and expects that it is to be retried soon.
func (w *world) retries(in Intent) {
	w.t.Helper()
	_, err := w.applier.Apply(w.t.Context(), owner(), in)
	if v := fault.Classify(err); v.Class != fault.Quiet || v.Result.RequeueAfter == 0 {
		w.t.Errorf("got %v, want a quiet retry", err)
	}
}

// wrote checks the requests since the last call.
func (w *world) wrote(want ...string) {
	w.t.Helper()
	if !slices.Equal(w.writes, want) {
		w.t.Errorf("sent %q, want %q", w.writes, want)
	}
	w.writes, w.bodies = nil, nil
}

// create creates an object as another operator does. Its resource version is
// never the one that onlyCreate uses.
func (w *world) create(o client.Object) {
	w.t.Helper()
	if err := w.server.Create(w.t.Context(), o, client.FieldOwner("manager")); err != nil {
		w.t.Fatal(err)
	}
	if err := w.server.Update(w.t.Context(), o, client.FieldOwner("manager")); err != nil {
		w.t.Fatal(err)
	}
}

// stored reads a child from the API server.
func stored[L client.Object](w *world, name string, into L) L {
	w.t.Helper()
	if err := w.server.Get(w.t.Context(), client.ObjectKey{Namespace: "ns", Name: name}, into); err != nil {
		w.t.Fatal(err)
	}
	return into
}

// byHand changes a child as kubectl edit does.
func byHand[L client.Object](w *world, name string, into L, change func(L)) {
	w.t.Helper()
	change(stored(w, name, into))
	if err := w.server.Update(w.t.Context(), into, client.FieldOwner("kubectl-edit")); err != nil {
		w.t.Fatal(err)
	}
}

// deployment returns an intent with all kinds of fields.
func deployment(change ...func(*appsv1ac.DeploymentApplyConfiguration)) Intent {
	labels := map[string]string{"app": "web"}
	d := appsv1ac.Deployment("web", "ns").WithSpec(appsv1ac.DeploymentSpec().
		WithReplicas(2).
		WithSelector(metav1ac.LabelSelector().WithMatchLabels(labels)).
		WithTemplate(corev1ac.PodTemplateSpec().WithLabels(labels).WithSpec(corev1ac.PodSpec().
			WithContainers(corev1ac.Container().WithName("web").WithImage("nginx:1")))))
	for _, c := range change {
		c(d)
	}
	in := New(d, func() *appsv1.Deployment { return &appsv1.Deployment{} })
	in.Exclusive = []string{"spec.template.spec.containers[web].env", "spec.template.spec.containers[web].command"}
	return in
}

func service(nodePort int32) Intent {
	p := corev1ac.ServicePort().WithProtocol(corev1.ProtocolTCP).WithPort(80).WithTargetPort(intstr.FromInt32(80))
	if nodePort != 0 {
		p.WithNodePort(nodePort)
	}
	in := New(corev1ac.Service("web-service", "ns").
		WithSpec(corev1ac.ServiceSpec().WithType(corev1.ServiceTypeNodePort).WithPorts(p)),
		func() *corev1.Service { return &corev1.Service{} })
	in.Exclusive = []string{"spec.ports"}
	return in
}

func diff(t *testing.T, what string, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func conflict() error {
	return apierrors.NewConflict(schema.GroupResource{Resource: "services"}, "web-service", errors.New("it exists"))
}
