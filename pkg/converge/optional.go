package converge

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/platform-operator/platform-operator/pkg/fault"
)

// arrival is the delay between the event of a CRD and the reconciles of the
// objects that may need it, because the API server does not serve the kind
// immediately.
const arrival = 2 * time.Second

const (
	// becoming is how long after the event of its CRD a kind is expected to
	// become available: it is served, and listed, within seconds.
	becoming = 30 * time.Second
	// askEvery is the minimum interval between requests for the kinds that the
	// API server serves. One request is enough for all objects of a kind.
	askEvery = time.Second
)

// optional contains the child types that are not available yet: the API server
// does not serve them, or they have not been listed. No method blocks, because
// each reconcile of the kind calls them.
type optional struct {
	mapper  meta.RESTMapper
	cache   cache.Cache
	control controller.Controller
	handler handler.EventHandler
	now     func() time.Time

	mu      sync.Mutex
	missing map[string]*missing // by kind
}

// missing is a type that is not available.
type missing struct {
	empty client.Object
	gvk   schema.GroupVersionKind

	// The fields below are guarded by optional.mu.
	defined  bool      // its CRD exists, so the API server may serve it
	expected time.Time // the end of the time in which it is expected to become available
	next     time.Time // the earliest time of the next request
	informer cache.Informer
}

// newOptional splits the types into those that can be watched and the others.
// listable returns why a type that the API server serves cannot be listed, if so. A
// controller that waits for a list at its start would end the process if the list is
// refused, and with it the reconciles of all objects.
func newOptional(mgr manager.Manager, types []client.Object, listable func(schema.GroupVersionKind) error) (known []client.Object, o *optional, err error) {
	o = &optional{mapper: mgr.GetRESTMapper(), cache: mgr.GetCache(), now: time.Now, missing: map[string]*missing{}}
	for _, t := range types {
		gvk, err := apiutil.GVKForObject(t, mgr.GetScheme())
		if err != nil {
			return nil, nil, fmt.Errorf("looking up %T: %w", t, err)
		}
		switch _, err := o.mapper.RESTMapping(gvk.GroupKind(), gvk.Version); {
		case meta.IsNoMatchError(err):
			o.missing[gvk.Kind] = &missing{empty: t, gvk: gvk}
			continue
		case err != nil:
			return nil, nil, fmt.Errorf("looking up whether the cluster serves %s: %w", gvk, err)
		}
		if err := listable(gvk); err != nil {
			mgr.GetLogger().Error(err, "A type cannot be listed, and is used when it can be", "type", gvk.String())
			o.missing[gvk.Kind] = &missing{empty: t, gvk: gvk, defined: true, expected: o.now().Add(becoming)}
			continue
		}
		known = append(known, t)
	}
	return known, o, nil
}

// listTimeout is how long the list of a type may take at the start of the operator.
const listTimeout = 10 * time.Second

// checkList returns why a type cannot be listed in one of the watched namespaces, or
// nil. No namespaces are all of them. A namespace in which the objects of the kind cannot be
// listed either is skipped, as by the caches.
func checkList(r client.Reader, namespaces []string, kind, of schema.GroupVersionKind) error {
	ctx, cancel := context.WithTimeout(context.Background(), listTimeout)
	defer cancel()
	list := func(gvk schema.GroupVersionKind, namespace string) error {
		l := &metav1.PartialObjectMetadataList{}
		l.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		return r.List(ctx, l, client.InNamespace(namespace), client.Limit(1))
	}
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	for _, n := range namespaces {
		err := list(of, n)
		if err == nil || apierrors.IsForbidden(err) && apierrors.IsForbidden(list(kind, n)) {
			continue
		}
		return fmt.Errorf("listing %s: %w", of.Kind, err)
	}
	return nil
}

// watch watches the CRDs of the missing types. objects returns a request for
// each object of the kind, all of which are reconciled when a CRD is created.
func (o *optional) watch(objects func(context.Context) ([]reconcile.Request, error)) error {
	if len(o.missing) == 0 {
		return nil
	}
	come := func(ctx context.Context, d client.Object, initial bool, q queue) {
		if !o.define(d.GetName(), initial) {
			return
		}
		all, err := objects(ctx)
		if err != nil {
			log.FromContext(ctx).Error(err, "Listing what may need a type that has arrived", "definition", d.GetName())
		}
		for _, r := range all {
			q.AddAfter(r, arrival)
		}
	}
	definition := &metav1.PartialObjectMetadata{}
	definition.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	err := o.control.Watch(source.Kind[client.Object](o.cache, definition, handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { come(ctx, e.Object, e.IsInInitialList, q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) { come(ctx, e.ObjectNew, false, q) },
	}))
	if err != nil {
		return fmt.Errorf("watching definitions: %w", err)
	}
	return nil
}

// define records that a CRD exists, and reports whether it is that of a missing
// type. A CRD of the initial list is not new, so its type is not expected to
// become available soon.
func (o *optional) define(crd string, initial bool) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, m := range o.missing {
		plural, _ := meta.UnsafeGuessKindToResource(m.gvk)
		if crd != plural.Resource+"."+m.gvk.Group {
			continue
		}
		m.defined = true
		if !initial {
			m.expected, m.next = o.now().Add(becoming), time.Time{}
		}
		return true
	}
	return false
}

// lacks reports whether the type of child is not available.
func (o *optional) lacks(child client.Object) bool {
	if o == nil {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, m := range o.missing {
		if reflect.TypeOf(m.empty) == reflect.TypeOf(child) {
			return true
		}
	}
	return false
}

// available reports whether children of a kind can be read from the cache.
func (o *optional) available(kind string) bool {
	if o == nil {
		return true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.missing[kind] == nil
}

// served reports whether the API server is known to serve a kind.
func (o *optional) served(kind string) bool {
	if o == nil {
		return true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	m := o.missing[kind]
	return m == nil || m.informer != nil
}

// comes returns the time after which a type that is not available may have
// become available, or 0 if an event will announce it.
func (o *optional) comes(kind string) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	m := o.missing[kind]
	switch {
	case m == nil, o.now().Before(m.expected):
		return askEvery
	case m.informer != nil:
		return fault.Probe
	}
	return 0
}

// ensure makes children of a kind readable and writable, or returns the reason
// why they are not.
func (o *optional) ensure(ctx context.Context, kind string) error {
	if o == nil {
		return nil
	}
	m, ask, err := o.state(kind)
	if m == nil || err != nil && !ask {
		return err
	}
	if _, unserved := o.mapper.RESTMapping(m.gvk.GroupKind(), m.gvk.Version); unserved != nil {
		if meta.IsNoMatchError(unserved) {
			return err
		}
		return fmt.Errorf("looking up whether the cluster serves %s: %w", kind, unserved)
	}
	informer, err := o.cache.GetInformer(ctx, m.empty, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("reading %s: %w", kind, err)
	}
	if err := o.start(m, informer); err != nil {
		return fmt.Errorf("watching %s: %w", kind, err)
	}
	_, _, err = o.state(kind)
	return err
}

// state returns a type that is not available, and the reason. If ask is true,
// the API server may serve the type by now, and the caller must check.
func (o *optional) state(kind string) (m *missing, ask bool, why error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	m = o.missing[kind]
	if m == nil {
		return nil, false, nil
	}
	now := o.now()
	switch {
	case m.informer != nil && m.informer.HasSynced():
		delete(o.missing, kind)
		return nil, false, nil
	case m.informer == nil && m.defined && !now.Before(m.next):
		ask, m.next = true, now.Add(askEvery)
	}
	what := fmt.Sprintf("%s (%s)", m.gvk.Kind, m.gvk.GroupVersion())
	switch {
	case now.Before(m.expected):
		return m, ask, fault.Waiting(askEvery, msgBecomingAvailable, what)
	case m.informer != nil:
		return m, ask, fault.Stalled(msgNotListed, what)
	default:
		return m, ask, fault.Stalled(msgNotAvailable, what)
	}
}

// start watches a type that has become served. Later calls for it have no
// effect.
func (o *optional) start(m *missing, informer cache.Informer) error {
	o.mu.Lock()
	started := m.informer != nil
	m.informer = informer
	if !started {
		m.expected = o.now().Add(becoming)
	}
	o.mu.Unlock()
	if started {
		return nil
	}
	if err := o.control.Watch(source.Kind(o.cache, m.empty, o.handler)); err != nil {
		o.mu.Lock()
		m.informer = nil
		o.mu.Unlock()
		return err
	}
	return nil
}
