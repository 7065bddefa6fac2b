package converge

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/conditions"
	"github.com/platform-operator/platform-operator/pkg/configsource"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

// Reconciler reconciles the objects of one kind.
type Reconciler struct {
	kind        AnyKind
	unavailable unavailable
	claims      *claims // nil in tests that have none
	client      client.Client
	refs        *configsource.Reader
	applier     *apply.Applier
	events      events.EventRecorder
	now         func() time.Time

	mu      sync.Mutex
	objects map[types.NamespacedName]memory
}

// NewReconciler returns the reconciler of one kind. refs reads the ConfigMaps
// and Secrets that objects refer to; now is the clock.
func NewReconciler(k AnyKind, c client.Client, refs *configsource.Reader, a *apply.Applier, r events.EventRecorder, now func() time.Time) *Reconciler {
	return &Reconciler{kind: k, client: c, refs: refs, applier: a, events: r, now: now, objects: map[types.NamespacedName]memory{}}
}

// Reconcile reconciles one object.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	began := r.now()
	obj := r.kind.New()
	if err := r.client.Get(ctx, req.NamespacedName, obj); apierrors.IsNotFound(err) {
		if r.kind.Limiter != nil {
			r.kind.Limiter.Release(req.NamespacedName)
		}
		if r.forget(req.NamespacedName) { // logged once, even if events of its children follow
			log.FromContext(ctx).Info(r.kind.Log.Gone)
		}
		return reconcile.Result{}, nil
	} else if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading the object: %w", err)
	}
	r.remember(req.NamespacedName, obj)
	gvk, err := apiutil.GVKForObject(obj, r.client.Scheme())
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("looking up the object's kind: %w", err)
	}
	owner := apply.Owner{
		Object: obj, GVK: metav1.GroupVersionKind(gvk),
		Elapsed:    func() time.Duration { return r.now().Sub(began) },
		Reconciled: obj.GetStatus().ObservedGeneration > 0,
	}

	if !obj.GetDeletionTimestamp().IsZero() {
		return r.finalize(ctx, obj, owner)
	}
	if err := r.addFinalizer(ctx, obj); err != nil {
		return r.failed(req.NamespacedName, err)
	}
	return r.converge(ctx, obj, owner)
}

func (r *Reconciler) converge(ctx context.Context, obj Object, owner apply.Owner) (reconcile.Result, error) {
	before, key := withoutSpec(obj), client.ObjectKeyFromObject(obj)
	r.resumeStatus(key, obj)
	out := NewOutcome(r.now(), fault.Verdict{}, nil)
	c := reconciliation{Reconciler: r, obj: obj, owner: owner, observed: map[apply.ChildKey]client.Object{}, out: out}
	model, err := c.observe(ctx)
	if err != nil {
		err = fmt.Errorf("observing: %w", err)
	} else {
		err = c.apply(ctx, model)
	}
	// Until all children match the plan, some may still have no owner reference.
	if err == nil && !apply.Orphans(obj) && controllerutil.ContainsFinalizer(obj, naming.Finalizer) {
		err = r.patchFinalizers(ctx, obj, controllerutil.RemoveFinalizer)
		before = withoutSpec(obj) // the API server returned it
		r.resumeStatus(key, obj)
	}
	out.Problem = r.classify(key, err)
	if err != nil {
		log.FromContext(ctx).V(1).Info("The reconcile did not complete", "error", err.Error())
	}
	if out.Problem.Class == fault.Quiet {
		return out.Problem.Result, out.Problem.Err // a write conflict is not reported
	}
	if model == nil { // a failed read does not prove that anything is missing
		conditions.ReportUnobserved(obj.GetStatus(), obj.GetGeneration(), out.Now, out.Problem)
	} else {
		model.UpdateStatus(out)
	}
	wait, err := r.writeStatus(ctx, before, obj, out.StatusIsUrgent(), out.Problem)
	if err != nil {
		return r.failed(key, errors.Join(out.Problem.Err, err))
	}
	if !out.Problem.LostRace {
		r.change(key, func(m *memory) { m.races = 0 })
	}
	return out.result(wait), out.Problem.Err
}

// observe returns the model of the object, which waits for the rollouts of other
// objects if necessary.
func (c *reconciliation) observe(ctx context.Context) (Model, error) {
	if err := c.adopt(ctx); err != nil {
		return nil, err
	}
	model, err := c.kind.ObserveModel(ctx, Reader{Reader: recorder{c.client, c.observed}, unavailable: c.unavailable, claims: c.claims, Now: c.now()}, c.refs, c.obj)
	switch {
	case err != nil || c.kind.Limiter == nil:
	case c.kind.Paused(c.obj):
		c.kind.Limiter.Release(client.ObjectKeyFromObject(c.obj))
	default:
		c.kind.Limiter.Limit(c.obj, model)
	}
	return model, err
}
