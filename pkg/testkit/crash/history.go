package crash

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// history is everything that happened to the objects of a namespace.
//
// The resource versions of one etcd count its transactions, so events of several
// types can be sorted into the order in which they happened, and the state at every
// instant can be examined afterwards. This is a property of the test's server, and
// not guaranteed by Kubernetes.
type history struct {
	mu     sync.Mutex
	events []change
	newest map[types.UID]uint64
	broken error
}

type change struct {
	version uint64
	gone    bool
	object  *unstructured.Unstructured
}

// record watches an empty namespace until ctx ends.
func record(ctx context.Context, c client.WithWatch, kinds []schema.GroupVersionKind, namespace string) (*history, error) {
	h := &history{newest: map[types.UID]uint64{}}
	for _, k := range kinds {
		l := &unstructured.UnstructuredList{}
		l.SetGroupVersionKind(k.GroupVersion().WithKind(k.Kind + "List"))
		w, err := c.Watch(ctx, l, client.InNamespace(namespace))
		if err != nil {
			return nil, fmt.Errorf("watching %s: %w", k.Kind, err)
		}
		go func() {
			defer w.Stop()
			for ev := range w.ResultChan() {
				h.add(ev)
			}
			if ctx.Err() == nil {
				h.fail(fmt.Errorf("the watch of %s ended", k.Kind))
			}
		}()
	}
	return h, nil
}

func (h *history) add(ev watch.Event) {
	u, ok := ev.Object.(*unstructured.Unstructured)
	if !ok || ev.Type == watch.Error {
		h.fail(fmt.Errorf("unexpected event: %w", apierrors.FromObject(ev.Object)))
		return
	}
	version, err := strconv.ParseUint(u.GetResourceVersion(), 10, 64)
	if err != nil {
		h.fail(fmt.Errorf("reading a resource version: %w", err))
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, change{version: version, gone: ev.Type == watch.Deleted, object: u})
	h.newest[u.GetUID()] = version
	if ev.Type == watch.Deleted {
		delete(h.newest, u.GetUID())
	}
}

func (h *history) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.broken = errors.Join(h.broken, err)
}

// shows reports whether the watches have delivered exactly what a list has returned.
func (h *history) shows(items []unstructured.Unstructured) (bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.newest) != len(items) || h.broken != nil {
		return false, h.broken
	}
	for _, u := range items {
		if strconv.FormatUint(h.newest[u.GetUID()], 10) != u.GetResourceVersion() {
			return false, nil
		}
	}
	return true, nil
}

// replay calls visit after every change, with the objects as of that time. visit
// must not retain the world.
func (h *history) replay(scheme *runtime.Scheme, visit func(change, *world)) {
	h.mu.Lock()
	events := slices.Clone(h.events)
	h.mu.Unlock()
	slices.SortStableFunc(events, func(a, b change) int { return cmp.Compare(a.version, b.version) })
	w := &world{scheme: scheme}
	for _, e := range events {
		w.set(e)
		visit(e, w)
	}
}

// world is the objects of a namespace at one instant. It can be read like a client.
type world struct {
	scheme *runtime.Scheme
	all    []*unstructured.Unstructured
}

func (w *world) set(e change) {
	w.all = slices.DeleteFunc(w.all, func(u *unstructured.Unstructured) bool {
		return u.GroupVersionKind() == e.object.GroupVersionKind() && u.GetName() == e.object.GetName()
	})
	if !e.gone {
		w.all = append(w.all, e.object)
	}
}

// Get reads one object.
func (w *world) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	gvk, err := apiutil.GVKForObject(into, w.scheme)
	if err != nil {
		return err
	}
	for _, u := range w.all {
		if u.GroupVersionKind() == gvk && client.ObjectKeyFromObject(u) == key {
			return decode(u, into)
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}, key.Name)
}

// List reads all objects of a type; namespaces and labels select among them.
func (w *world) List(_ context.Context, into client.ObjectList, opts ...client.ListOption) error {
	gvk, err := apiutil.GVKForObject(into, w.scheme)
	if err != nil {
		return err
	}
	var o client.ListOptions
	o.ApplyOptions(opts)
	var found []runtime.Object
	for _, u := range w.all {
		of := u.GroupVersionKind()
		of.Kind += "List"
		if of != gvk || o.Namespace != "" && o.Namespace != u.GetNamespace() ||
			o.LabelSelector != nil && !o.LabelSelector.Matches(labels.Set(u.GetLabels())) {
			continue
		}
		typed, err := w.typed(u)
		if err != nil {
			return err
		}
		found = append(found, typed)
	}
	return meta.SetList(into, found)
}

func (w *world) typed(u *unstructured.Unstructured) (client.Object, error) {
	o, err := w.scheme.New(u.GroupVersionKind())
	if err != nil {
		return nil, fmt.Errorf("making an empty %s: %w", u.GetKind(), err)
	}
	typed := o.(client.Object)
	return typed, decode(u, typed)
}

func decode(u *unstructured.Unstructured, into client.Object) error {
	reflect.ValueOf(into).Elem().SetZero()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, into); err != nil {
		return fmt.Errorf("decoding %s %s: %w", u.GetKind(), u.GetName(), err)
	}
	return nil
}
