package converge

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/conditions"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/message"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

// finalize releases the children of an object that is being deleted, and removes the
// operator's finalizer. Without the finalizer there is nothing to do: the garbage collector
// deletes the children.
func (r *Reconciler) finalize(ctx context.Context, obj Object, owner apply.Owner) (reconcile.Result, error) {
	key, version := client.ObjectKeyFromObject(obj), obj.GetResourceVersion()
	if !controllerutil.ContainsFinalizer(obj, naming.Finalizer) || r.recall(key).finalized == version {
		return reconcile.Result{}, nil
	}
	if err := r.release(ctx, obj, owner); err != nil {
		v := r.classify(key, err)
		log.FromContext(ctx).Info("Not all children could be released", "why", err.Error())
		if apply.Orphans(obj) && v.Class != fault.Quiet {
			r.reportBlocked(ctx, obj, v)
		}
		// If the policy is Delete, a child that is not released keeps the operator's marks.
		// That is no reason to keep the object.
		if apply.Orphans(obj) || v.Class == fault.Quiet {
			return v.Result, v.Err
		}
	}
	err := client.IgnoreNotFound(r.patchFinalizers(ctx, obj, controllerutil.RemoveFinalizer))
	if err == nil {
		r.change(key, func(m *memory) { m.finalized = version })
	}
	return r.failed(key, err)
}

// reportBlocked reports that an object cannot be deleted yet.
func (r *Reconciler) reportBlocked(ctx context.Context, obj Object, problem fault.Verdict) {
	before := withoutSpec(obj)
	problem.Message = message.Join(msgDeletionBlocked.With(), problem.Message)
	if problem.Class == fault.Stall {
		problem.Message = message.Join(problem.Message, msgDeletionRemedy.With())
	}
	// Each attempt increments the event's count, so that kubectl describe
	// shows that the deletion is still being retried.
	r.event(obj, nil, "Warning", problem.Reason, "Delete", problem.Message)
	conditions.ReportUnobserved(obj.GetStatus(), obj.GetGeneration(), r.now(), problem)
	if _, err := r.writeStatus(ctx, before, obj, true, problem); err != nil {
		log.FromContext(ctx).V(1).Info("Writing the status of an object that cannot be deleted yet failed", "error", err.Error())
	}
}

// release releases the children that outlive the object, and deletes those that are no longer
// wanted. It returns all errors, joined.
func (r *Reconciler) release(ctx context.Context, obj Object, owner apply.Owner) error {
	model, err := r.kind.ObserveModel(ctx, Reader{Reader: r.client, unavailable: r.unavailable}, nil, obj)
	if err != nil {
		return fmt.Errorf("observing: %w", err)
	}
	plan, err := model.Plan()
	if err != nil {
		err = fmt.Errorf("naming the children: %w", err)
	}
	errs := []error{err}
	for _, in := range plan.Apply {
		if in.DeleteOnOrphan || !r.unavailable.has(in.Kind) {
			continue // useless without its owner, or of a type that is not served
		}
		errs = append(errs, r.applier.Release(ctx, owner, in))
	}
	for _, p := range plan.Prune {
		if apply.Orphans(obj) && !r.staysUnwanted(obj, p) {
			errs = append(errs, r.applier.Delete(ctx, owner, kindOf(p), p))
		} else {
			errs = append(errs, r.applier.Release(ctx, owner, apply.Named(kindOf(p), p)))
		}
	}
	return errors.Join(errs...)
}

// staysUnwanted reports whether a child that is no longer wanted outlives an object that
// orphans its children.
func (r *Reconciler) staysUnwanted(obj Object, child client.Object) bool {
	switch child.(type) {
	case *appsv1.ControllerRevision, *batchv1.Job:
		return false // it is useless without the object
	case *corev1.ConfigMap:
		return true // pods that are left behind may mount it
	}
	return r.kind.Paused(obj) // it was not deleted when the spec stopped asking for it
}

// addFinalizer adds the finalizer if the object needs it. Usually the mutating
// webhook has already done so in the user's request.
func (r *Reconciler) addFinalizer(ctx context.Context, obj Object) error {
	if !apply.Orphans(obj) || controllerutil.ContainsFinalizer(obj, naming.Finalizer) {
		return nil
	}
	return r.patchFinalizers(ctx, obj, controllerutil.AddFinalizer)
}

func (r *Reconciler) patchFinalizers(ctx context.Context, obj Object, change func(client.Object, string) bool) error {
	before := obj.DeepCopyObject().(Object)
	change(obj, naming.Finalizer)
	err := r.client.Patch(ctx, obj, apply.IfUnchanged(before), client.FieldOwner(naming.FieldManager))
	if err != nil {
		return fmt.Errorf("changing the finalizers: %w", err)
	}
	return nil
}
