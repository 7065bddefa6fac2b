package inspect

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/platform-operator/platform-operator/pkg/naming"
)

// settle is how long a watch waits for more changes: one cause, such as a
// rollout, changes several objects.
const settle = 200 * time.Millisecond

// askEvery is how often a watch asks whether the API server still answers.
const askEvery = 15 * time.Second

// outage asks the API server now and then until ctx ends, and calls notify when it no longer
// answers or answers again. It returns a function that returns what to tell about that.
func outage(ctx context.Context, ask func(context.Context) error, notify func()) func() []string {
	var note atomic.Pointer[string]
	go wait.UntilWithContext(ctx, func(ctx context.Context) {
		answers, cancel := context.WithTimeout(ctx, askEvery)
		defer cancel()
		err := ask(answers)
		switch down := note.Load(); {
		case err == nil && down != nil:
			note.Store(nil)
			notify()
		case err != nil && down == nil && ctx.Err() == nil:
			note.Store(new(fmt.Sprintf("The API server has not answered since %s, so that this may be outdated: %v", time.Now().Format(time.TimeOnly), err)))
			notify()
		}
	}, askEvery)
	return func() []string {
		if down := note.Load(); down != nil {
			return []string{*down}
		}
		return nil
	}
}

// Watch watches the objects of the given kinds in a namespace, with their
// children, pods and events, and returns an Inspector that reads what was
// watched. The channel receives a value after changes. Requests are the lists and watches of
// informers, and one each askEvery, because informers do not say that they have lost the API server.
func (i Inspector) Watch(ctx context.Context, cfg *rest.Config, namespace string, kinds ...Kind) (Inspector, <-chan struct{}, error) {
	changes := make(chan struct{}, 1)
	notify := func() {
		select {
		case changes <- struct{}{}:
		default:
		}
	}
	labelled := labels.SelectorFromSet(labels.Set{naming.LabelManagedBy: naming.ManagedBy})
	o := cache.Options{
		Scheme: i.Scheme, ReaderFailOnMissingInformer: true, ByObject: map[client.Object]cache.ByObject{},
		// A lost connection is retried with back-off. Log lines would be printed in the middle
		// of the last known state.
		DefaultWatchErrorHandler: func(context.Context, *toolscache.Reflector, error) {},
	}
	if namespace != "" {
		o.DefaultNamespaces = map[string]cache.Config{namespace: {}}
	}
	var types []client.Object
	refused := map[schema.GroupVersionKind]error{}
	add := func(obj client.Object, by cache.ByObject) error {
		// An informer of a type that cannot be listed never becomes ready.
		gvk, list, err := i.list(obj)
		if err == nil {
			err = i.Client.List(ctx, list, client.InNamespace(namespace), client.Limit(1))
		}
		if err != nil {
			refused[gvk] = err
			return err
		}
		types, o.ByObject[obj] = append(types, obj), by
		return nil
	}
	var errs []error
	for _, k := range kinds {
		if err := add(k.New(), cache.ByObject{}); err != nil {
			errs = append(errs, fmt.Errorf("listing %s: %w", k.Names[1], err))
		}
	}
	if len(errs) == len(kinds) {
		return i, nil, errs[0]
	}
	for _, child := range Children() {
		_ = add(child, cache.ByObject{Label: labelled}) // reads return the error
	}
	_ = add(&corev1.Event{}, cache.ByObject{Field: fields.SelectorFromSet(fields.Set{"type": corev1.EventTypeWarning, "involvedObject.kind": "Pod"})})

	c, err := cache.New(cfg, o)
	if err != nil {
		return i, nil, fmt.Errorf("creating a cache: %w", err)
	}
	for _, t := range types {
		if _, ok := t.(*corev1.Event); ok {
			if err := c.IndexField(ctx, t, EventField, func(o client.Object) []string {
				return []string{o.(*corev1.Event).InvolvedObject.Name}
			}); err != nil {
				return i, nil, fmt.Errorf("indexing events: %w", err)
			}
		}
		informer, err := c.GetInformer(ctx, t, cache.BlockUntilSynced(false))
		if err != nil {
			return i, nil, fmt.Errorf("watching: %w", err)
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { notify() }, UpdateFunc: func(any, any) { notify() }, DeleteFunc: func(any) { notify() },
		}); err != nil {
			return i, nil, fmt.Errorf("watching: %w", err)
		}
	}
	go func() { _ = c.Start(ctx) }() // it returns when the context is done
	if !c.WaitForCacheSync(ctx) {
		return i, nil, ctx.Err()
	}
	live := i
	i.outage = outage(ctx, func(ctx context.Context) error {
		_, list, err := live.list(types[0])
		if err == nil {
			err = live.Client.List(ctx, list, client.InNamespace(namespace), client.Limit(1))
		}
		return err
	}, notify)
	i.Client = watched{c, live, refused}
	return i, changes, nil
}

// list returns the type of an object, and an empty list of the type.
func (i Inspector) list(obj client.Object) (schema.GroupVersionKind, client.ObjectList, error) {
	gvk, err := apiutil.GVKForObject(obj, i.Scheme)
	if err != nil {
		return gvk, nil, err
	}
	of := gvk.GroupVersion().WithKind(gvk.Kind + "List")
	switch obj.(type) {
	case *unstructured.Unstructured:
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(of)
		return gvk, list, nil
	case *metav1.PartialObjectMetadata:
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(of)
		return gvk, list, nil
	}
	list, err := i.Scheme.New(of)
	if err != nil {
		return gvk, nil, err
	}
	return gvk, list.(client.ObjectList), nil
}

// watched reads from a cache, except for the types that cannot be listed.
type watched struct {
	client.Reader
	inspector Inspector
	refused   map[schema.GroupVersionKind]error
}

// List lists from the cache, or returns why the type cannot be listed.
func (w watched) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	gvk, err := apiutil.GVKForObject(list, w.inspector.Scheme)
	if err != nil {
		return err
	}
	if err := w.refused[gvk.GroupVersion().WithKind(strings.TrimSuffix(gvk.Kind, "List"))]; err != nil {
		return err
	}
	return w.Reader.List(ctx, list, opts...)
}

// Follow calls show with what read returns, now and after each change that
// makes a difference, until the context is done. An object that does not exist
// is awaited once it has been shown.
func Follow[T any](ctx context.Context, changes <-chan struct{}, read func(context.Context) (T, error), show func(T) error, missing func(error) error) error {
	var last *T
	var gone bool
	for {
		now, err := read(ctx)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // reading was interrupted
		case err != nil && last == nil:
			return err
		case err != nil:
			if !gone {
				if err := missing(err); err != nil {
					return err
				}
			}
			gone = true
		case last == nil || gone || !reflect.DeepEqual(*last, now):
			gone, last = false, &now
			if err := show(now); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changes:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(settle):
		}
	}
}
