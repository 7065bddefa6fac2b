package converge

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/configsource"
	"github.com/platform-operator/platform-operator/pkg/fairqueue"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

// timeout is the maximum duration of a reconcile. A reconcile takes
// milliseconds; a request without a response must not occupy a worker for
// longer.
const timeout = time.Minute

// A failed reconcile is retried after firstRetry, and then after twice as long
// each time, up to lastRetry: after a long outage of the API server or of an
// admission webhook, every object is reconciled within a minute.
const (
	firstRetry = 5 * time.Millisecond
	lastRetry  = time.Minute
)

func retries() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry)
}

// coalesce is how long after a change of a related object, such as a pod, the
// object is reconciled. A pod changes about five times until it is ready. What the
// status says about pods may be late; the children are reconciled at once.
const coalesce = 500 * time.Millisecond

// newQueue returns the queue of a controller. workers is how many objects of
// one namespace may be reconciled concurrently.
func newQueue(workers int) func(string, workqueue.TypedRateLimiter[reconcile.Request]) queue {
	return func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) queue {
		return fairqueue.New(name, fairqueue.Options[reconcile.Request]{
			Group:      func(r reconcile.Request) string { return r.Namespace },
			GroupLimit: workers,
			// A rollout of the sample WebServer takes a tenth of a second of a worker, by
			// workqueue_work_duration_seconds on the local cluster. So only an object that
			// changes all the time, at considerable cost, waits.
			Share:       fairqueue.Share{Fraction: 0.1, Burst: 2 * time.Second, MaxDelay: 5 * time.Second},
			RateLimiter: limiter,
		})
	}
}

// Options configure the controller of a kind.
type Options struct {
	// Workers is how many objects of one namespace are reconciled concurrently. There
	// is one worker more, so that slow reconciles of one namespace do not block the
	// others.
	Workers int
	// Namespaces are those that the caches of the manager hold. None are all.
	Namespaces []string
	// Await is called if the cluster lacks child types. When one has become available, the
	// controllers are to be registered again. nil disregards such types.
	Await func(available func() bool)
}

// Register adds the controller of one kind to the manager.
func Register(mgr manager.Manager, k AnyKind, a *apply.Applier, o Options) error {
	name := strings.ToLower(k.Log.Key)
	r := NewReconciler(k, mgr.GetClient(), configsource.NewReader(mgr.GetCache(), mgr.GetAPIReader()), a, mgr.GetEventRecorder("platform-operator"), time.Now)
	base := mgr.GetLogger()
	for part := range strings.SplitSeq(k.Log.Logger, ".") {
		base = base.WithName(part)
	}
	b := builder.ControllerManagedBy(mgr).Named(name).Watches(k.New(), handleObject()).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: o.Workers + 1,
			NewQueue:                newQueue(o.Workers),
			ReconciliationTimeout:   timeout,
			EnableWarmup:            new(true),
			RateLimiter:             retries(),
		}).
		WithLogConstructor(func(req *reconcile.Request) logr.Logger {
			if req == nil {
				return base
			}
			return base.WithValues(k.Log.Key, req.String())
		})
	gvk, err := apiutil.GVKForObject(k.New(), mgr.GetScheme())
	if err != nil {
		return fmt.Errorf("looking up the kind of %s: %w", k.Log.Key, err)
	}
	listable := func(of schema.GroupVersionKind) error { return checkList(mgr.GetAPIReader(), o.Namespaces, gvk, of) }
	known, lacking, err := splitOptional(mgr, k.Optional, listable)
	if err != nil {
		return err
	}
	r.unavailable = lacking
	var errs []error
	index := func(o client.Object, name string, values func(client.Object) []string) {
		if err := mgr.GetFieldIndexer().IndexField(context.Background(), o, name, values); err != nil {
			errs = append(errs, fmt.Errorf("indexing %T by %s: %w", o, name, err))
		}
	}
	index(k.New(), naming.IndexUID, func(o client.Object) []string { return []string{string(o.GetUID())} })
	children := trigger{find: ownerOf(gvk.GroupKind(), mgr.GetCache(), k.NewList())}.handler()
	if k.Claims != nil {
		r.claims = &claims{mgr.GetCache(), mgr.GetScheme(), "claims-of-" + name, k.Claims}
	}
	for _, c := range slices.Concat(k.Children, known) {
		b = b.Watches(c, children)
		if k.Claims != nil {
			index(c, r.claims.index, k.Claims)
		}
	}
	k.watchOthers(b, mgr, gvk.Kind, index)
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("making the controller of %s: %w", k.Log.Key, err)
	}
	if len(lacking) > 0 && o.Await != nil {
		o.Await(func() bool { return lacking.available(mgr.GetRESTMapper(), listable) })
	}
	return nil
}

// watchOthers watches what is neither an object of the kind nor its child, and matters to it.
func (k AnyKind) watchOthers(b *builder.Builder, mgr manager.Manager, kind string, index func(o client.Object, name string, values func(client.Object) []string)) {
	for _, rel := range k.Watches {
		if rel.Index != "" {
			index(rel.Object, rel.Index, rel.IndexValues)
		}
		b.Watches(rel.Object, rel.handler())
	}
	if k.Limiter != nil {
		b.WatchesRawSource(source.Func(func(ctx context.Context, q queue) error {
			k.Limiter.Run(ctx, mgr.GetCache(), kind, func(key types.NamespacedName) {
				enqueue(q, fairqueue.PriorityEvent, 0, reconcile.Request{NamespacedName: key})
			})
			return nil
		}))
	}
	if k.References != nil {
		index(k.New(), naming.IndexReferences, func(o client.Object) []string { return configsource.Names(k.References(o.(Object))) })
		b.WatchesMetadata(&corev1.ConfigMap{}, concerned(mgr.GetCache(), k.NewList(), naming.IndexReferences))
	}
	if k.Secrets != nil {
		index(k.New(), naming.IndexSecrets, func(o client.Object) []string { return k.Secrets(o.(Object)) })
		b.WatchesMetadata(&corev1.Secret{}, concerned(mgr.GetCache(), k.NewList(), naming.IndexSecrets))
	}
	for _, f := range k.Unowned {
		b.Watches(f, concerned(mgr.GetCache(), k.NewList(), ""), builder.WithPredicates(
			predicate.NewPredicateFuncs(func(o client.Object) bool { return !naming.IsChild(o) }),
			predicate.GenerationChangedPredicate{})) // specs, not status
	}
}

// ownerOf returns a function that maps a child to its owner, if that is of the kind. A
// child without an owner reference names its owner by UID. objects is the cache, and list
// an empty list of the kind.
//
// The version in the owner reference does not matter. handler.EnqueueRequestForOwner looks
// up each version in the RESTMapper. A tenant can write any version, and each event of such a
// child would cause an error with a stack trace, and requests for the API group.
func ownerOf(kind schema.GroupKind, objects client.Reader, list client.ObjectList) handler.MapFunc {
	return func(ctx context.Context, o client.Object) []reconcile.Request {
		ref, uid := metav1.GetControllerOfNoCopy(o), naming.OwnerUID(o)
		switch {
		case ref == nil && uid == "":
			return nil
		case ref == nil:
			return find(ctx, objects, list, o, client.MatchingFields{naming.IndexUID: string(uid)})
		}
		if gv, err := schema.ParseGroupVersion(ref.APIVersion); err != nil || gv.Group != kind.Group || ref.Kind != kind.Kind {
			return nil
		}
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: o.GetNamespace(), Name: ref.Name}}}
	}
}

// find returns a request for each object in the namespace of another one that options
// select. objects is a cache rather than a client, which would wait for its own writes
// while events accumulate. empty is an empty list of the objects.
func find(ctx context.Context, objects client.Reader, empty client.ObjectList, of client.Object, which ...client.ListOption) []reconcile.Request {
	found, err := list(ctx, objects, empty.DeepCopyObject().(client.ObjectList), append(which, client.InNamespace(of.GetNamespace()), client.UnsafeDisableDeepCopy)...)
	if err != nil {
		log.FromContext(ctx).Error(err, "Looking for the objects that a change matters to failed", "changed", client.ObjectKeyFromObject(of).String())
	}
	var all []reconcile.Request
	for _, o := range found {
		all = append(all, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o)})
	}
	return all
}

// handler returns the handler that reconciles the object a change affects.
func (w Watch) handler() handler.EventHandler {
	return trigger{after: coalesce, find: func(_ context.Context, o client.Object) []reconcile.Request {
		name := w.OwnerName(o)
		if name == "" {
			return nil
		}
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: o.GetNamespace(), Name: name}}}
	}}.handler()
}

// concerned enqueues, with fairqueue.PriorityEvent, the objects in a namespace that are
// affected by the creation, change or deletion of another object, because a
// user may be waiting for the result: those that name it in an index, or all if index is "".
func concerned(objects client.Reader, list client.ObjectList, index string) handler.EventHandler {
	return trigger{others: true, find: func(ctx context.Context, o client.Object) []reconcile.Request {
		if index == "" {
			return find(ctx, objects, list, o)
		}
		return find(ctx, objects, list, o, client.MatchingFields{index: o.GetName()})
	}}.handler()
}

// handleObject returns the handler of the kind's own objects. It enqueues
// what a user changed before everything else.
func handleObject() handler.EventHandler {
	add := func(o client.Object, priority int, q queue) {
		enqueue(q, priority, 0, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o)})
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) {
			priority := fairqueue.PriorityDefault
			if e.IsInInitialList && isReconciled(e.Object) {
				priority = fairqueue.PriorityBackground
			}
			add(e.Object, priority, q)
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			priority := fairqueue.PriorityDefault // such as a change of the status, which is usually the operator's own
			switch {
			case e.ObjectOld.GetResourceVersion() == e.ObjectNew.GetResourceVersion(): // a resync
				priority = fairqueue.PriorityBackground
			case isEdit(e.ObjectOld, e.ObjectNew):
				priority = fairqueue.PriorityEdit
			}
			add(e.ObjectNew, priority, q)
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) {
			add(e.Object, fairqueue.PriorityDefault, q)
		},
	}
}

// isReconciled reports whether the generation of an object has been reconciled
// and the object is not being deleted.
func isReconciled(o client.Object) bool {
	own, ok := o.(Object)
	return ok && own.GetDeletionTimestamp().IsZero() && own.GetStatus().ObservedGeneration == own.GetGeneration()
}

// isEdit reports whether an update is a change or the deletion of an object, as
// opposed to a change of its status.
func isEdit(before, after client.Object) bool {
	return before.GetGeneration() != after.GetGeneration() || before.GetUID() != after.GetUID() ||
		before.GetDeletionTimestamp().IsZero() != after.GetDeletionTimestamp().IsZero() ||
		!maps.Equal(before.GetAnnotations(), after.GetAnnotations()) || !maps.Equal(before.GetLabels(), after.GetLabels())
}

// trigger reconciles the objects that events of another object matter to, before objects for
// which nothing happened.
type trigger struct {
	// find returns the objects that another one matters to.
	find handler.MapFunc
	// after delays the requests, so that one serves several events.
	after time.Duration
	// others reports that the other object is no child: its creation is as urgent as a change.
	// Every object of the kind is reconciled after the initial lists anyway.
	others bool
}

func (t trigger) handler() handler.EventHandler {
	add := func(ctx context.Context, q queue, priority int, after time.Duration, changed ...client.Object) {
		all := sets.New[reconcile.Request]()
		for _, o := range changed {
			all.Insert(t.find(ctx, o)...)
		}
		enqueue(q, priority, after, all.UnsortedList()...)
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			switch {
			case e.IsInInitialList && t.others:
			case e.IsInInitialList:
				add(ctx, q, fairqueue.PriorityBackground, 0, e.Object)
			case t.others || t.after > 0:
				add(ctx, q, fairqueue.PriorityEvent, t.after, e.Object)
			default:
				add(ctx, q, fairqueue.PriorityDefault, 0, e.Object)
			}
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			if e.ObjectOld.GetResourceVersion() == e.ObjectNew.GetResourceVersion() { // a resync
				add(ctx, q, fairqueue.PriorityBackground, 0, e.ObjectNew)
				return
			}
			add(ctx, q, fairqueue.PriorityEvent, t.after, e.ObjectOld, e.ObjectNew)
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { // a service may be down
			add(ctx, q, fairqueue.PriorityEvent, t.after, e.Object)
		},
	}
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

func enqueue(q queue, priority int, after time.Duration, all ...reconcile.Request) {
	q.(priorityqueue.PriorityQueue[reconcile.Request]).AddWithOpts(priorityqueue.AddOpts{Priority: &priority, After: after}, all...)
}
