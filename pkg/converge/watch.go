package converge

import (
	"context"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/platform-operator/platform-operator/pkg/apply"
)

// timeout bounds one pass. A pass takes milliseconds; a request that hangs
// must not hold a worker for ever.
const timeout = time.Minute

// childPriority puts what a child's change leads to, often the pass that makes
// an object Ready, before the first passes of objects that have just arrived.
// Without it the median time to Ready in a burst doubles, because each second
// pass waits behind all first ones.
const childPriority = 10

// Register adds the controller of one kind to the manager.
func Register[T Object, S any](mgr manager.Manager, k Kind[T, S], a *apply.Applier, workers int) error {
	name := strings.ToLower(k.Log.Key)
	r := NewReconciler(k, mgr.GetClient(), a, mgr.GetEventRecorder("platform-operator"), time.Now)
	base := mgr.GetLogger()
	for part := range strings.SplitSeq(k.Log.Logger, ".") {
		base = base.WithName(part)
	}
	warm := true
	b := builder.ControllerManagedBy(mgr).Named(name).For(k.New()).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			ReconciliationTimeout:   timeout,
			EnableWarmup:            &warm,
		}).
		WithLogConstructor(func(req *reconcile.Request) logr.Logger {
			if req == nil {
				return base
			}
			return base.WithValues(k.Log.Key, req.String())
		})
	for _, c := range k.Children {
		b = b.Watches(c, first{handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), k.New(), handler.OnlyControllerOwner())})
	}
	for _, rel := range k.Related {
		b = b.Watches(rel.Object, first{handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
			name := rel.Of(o)
			if name == "" {
				return nil
			}
			return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: o.GetNamespace(), Name: name}}}
		})})
	}
	return b.Complete(r)
}

// first enqueues what a child's update leads to with childPriority.
type first struct{ handler.EventHandler }

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Create passes the event on with the priority of its kind: low for the
// initial list.
func (f first) Create(ctx context.Context, e event.TypedCreateEvent[client.Object], q queue) {
	f.EventHandler.Create(ctx, e, q)
}

// Update raises the priority.
func (f first) Update(ctx context.Context, e event.TypedUpdateEvent[client.Object], q queue) {
	if e.ObjectOld != nil && e.ObjectNew != nil && e.ObjectOld.GetResourceVersion() == e.ObjectNew.GetResourceVersion() {
		f.EventHandler.Update(ctx, e, q) // a resync: nobody waits for it
		return
	}
	f.EventHandler.Update(ctx, e, raised(q))
}

// Delete raises the priority: somebody's service may be down.
func (f first) Delete(ctx context.Context, e event.TypedDeleteEvent[client.Object], q queue) {
	f.EventHandler.Delete(ctx, e, raised(q))
}

func raised(q queue) queue {
	if p, ok := q.(priorityqueue.PriorityQueue[reconcile.Request]); ok {
		return prioritised{p}
	}
	return q
}

type prioritised struct {
	priorityqueue.PriorityQueue[reconcile.Request]
}

// Add adds the request with childPriority.
func (p prioritised) Add(r reconcile.Request) {
	p.AddWithOpts(priorityqueue.AddOpts{}, r)
}

// AddWithOpts adds the requests with childPriority unless they have their own.
func (p prioritised) AddWithOpts(o priorityqueue.AddOpts, rs ...reconcile.Request) {
	if o.Priority == nil {
		o.Priority = new(childPriority)
	}
	p.PriorityQueue.AddWithOpts(o, rs...)
}
