package model

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

// deletion deletes the object. If wait is set, it checks the remaining children;
// otherwise the object is created again immediately.
func deletion(how metav1.DeletionPropagation, wait bool) func(context.Context, *World) error {
	return func(ctx context.Context, w *World) error {
		u, err := w.object(ctx)
		if err != nil || u == nil {
			return orSkip(err)
		}
		w.spec = specOf(u)
		orphans := text(w.spec, "deletionPolicy") == string(common.DeletionPolicyOrphan)
		if !wait && orphans {
			return errSkip // the remaining children would be in the way
		}
		if statusOf(u).ObservedGeneration < w.memory.policyAt {
			return errSkip // the policy is in force once it is reconciled (docs/api/common.md)
		}
		before, err := w.owned(ctx, u)
		if err != nil {
			return err
		}
		if err := client.IgnoreNotFound(w.env.Admin.Delete(ctx, u, client.PropagationPolicy(how))); err != nil {
			return fmt.Errorf("deleting the object: %w", err)
		}
		w.exists = false
		if !wait {
			if len(u.GetFinalizers()) > 0 { // the operator has to see the deletion
				if err := w.endFaults(ctx); err != nil {
					return err
				}
			}
			if err := w.gone(ctx, u); err != nil {
				return err
			}
			return w.create(ctx)
		}
		if err := w.endFaults(ctx); err != nil {
			return err
		}
		if err := w.gone(ctx, u); err != nil {
			return err
		}
		if orphans || how == metav1.DeletePropagationOrphan {
			return w.left(ctx, u, before, orphans)
		}
		// The policy may have been Orphan when a child lost its label, without which it is not observed.
		sure := slices.DeleteFunc(slices.Clone(before), func(c unstructured.Unstructured) bool { return !isBound(&c) && !naming.IsLabelled(&c) })
		if err := w.collected(ctx, sure); err != nil || len(sure) == len(before) {
			return err
		}
		return w.clear(ctx)
	}
}

// owned returns the children of an object.
func (w *World) owned(ctx context.Context, u *unstructured.Unstructured) ([]unstructured.Unstructured, error) {
	all, err := w.children(ctx)
	if err != nil {
		return nil, err
	}
	var own []unstructured.Unstructured
	for _, c := range all {
		if (isBound(&c) || c.GetAnnotations()[naming.AnnotationOrphanOf] != "") && naming.OwnerUID(&c) == u.GetUID() && c.GetDeletionTimestamp() == nil {
			own = append(own, c)
		}
	}
	return own, nil
}

// gone waits until an object is deleted.
func (w *World) gone(ctx context.Context, u *unstructured.Unstructured) error {
	const long = 20 * time.Second
	began := time.Now()
	for {
		live := u.DeepCopy()
		err := w.env.Admin.Get(ctx, client.ObjectKeyFromObject(u), live)
		if apierrors.IsNotFound(err) || err == nil && live.GetUID() != u.GetUID() {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading what is deleted: %w", err)
		}
		if time.Since(began) > long {
			w.violate("deletion", "%s %s still exists %s after its deletion, with the finalizers %v", live.GetKind(), live.GetName(), long, live.GetFinalizers())
			return nil
		}
		if w.leader.wire.IsDead() {
			w.kill()
			if err := w.start(ctx); err != nil {
				return err
			}
		}
		if _, err := w.cluster.Step(ctx); err != nil {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// collected checks that all children of an object are deleted.
func (w *World) collected(ctx context.Context, before []unstructured.Unstructured) error {
	for _, c := range before {
		if err := w.gone(ctx, &c); err != nil {
			return err
		}
	}
	w.checks++
	return nil
}

// policyChanged records that an edit changed the deletion policy.
func (m *memory) policyChanged(before, after map[string]any, generation int64) {
	if text(before, "deletionPolicy") != text(after, "deletionPolicy") {
		m.policyAt = generation
	}
}

// isBound reports whether a child is deleted with its owner.
func isBound(child metav1.Object) bool { return metav1.GetControllerOf(child) != nil }

// left checks that all children that an object has orphaned exist, and then deletes
// them.
func (w *World) left(ctx context.Context, u *unstructured.Unstructured, before []unstructured.Unstructured, released bool) error {
	// The garbage collector and a slow operator need some time.
	for range 3 {
		if err := w.idle(ctx); err != nil {
			return err
		}
		time.Sleep(150 * time.Millisecond)
		if _, err := w.cluster.Step(ctx); err != nil {
			return err
		}
	}
	w.checks++
	expected := w.expectChildren(w.spec)
	pruned := w.spec["paused"] != true || statusOf(u).ObservedGeneration < u.GetGeneration() // what is not wanted may be
	for _, was := range before {
		wanted, optional := expected[Ref{was.GetKind(), was.GetName()}]
		if released && was.GetKind() == "ControllerRevision" || was.GetKind() == "ConfigMap" && !usedByPods(&was, before) {
			continue // revisions are deleted with the object, and so are snapshots that no pod uses
		}
		live := was.DeepCopy()
		err := w.env.Admin.Get(ctx, client.ObjectKeyFromObject(&was), live)
		lost := apierrors.IsNotFound(err) || err == nil && (live.GetUID() != was.GetUID() || live.GetDeletionTimestamp() != nil)
		switch {
		case lost && released && isBound(&was) && !naming.IsLabelled(&was):
			continue // the policy was changed when it was not observed
		case lost && optional && !wanted && pruned:
			continue
		case apierrors.IsNotFound(err) || err == nil && live.GetUID() != was.GetUID():
			w.violate("orphan", "%s %s was to be kept, and no longer exists", was.GetKind(), was.GetName())
			continue
		case err != nil:
			return fmt.Errorf("reading what was to stay: %w", err)
		case live.GetDeletionTimestamp() != nil:
			w.violate("orphan", "%s %s was to be kept, and is being deleted", was.GetKind(), was.GetName())
		}
		for _, o := range live.GetOwnerReferences() {
			if o.UID == u.GetUID() {
				w.violate("orphan", "%s %s still has the deleted owner", was.GetKind(), was.GetName())
			}
		}
		if !released || !naming.IsLabelled(&was) {
			continue // one that lost the label is not searched for
		}
		for k := range live.GetAnnotations() {
			if strings.HasPrefix(k, naming.Domain) {
				w.violate("orphan", "%s %s still has the annotation %s", was.GetKind(), was.GetName(), k)
			}
		}
		if live.GetLabels()[naming.LabelManagedBy] == naming.ManagedBy {
			w.violate("orphan", "%s %s still has the label of the operator", was.GetKind(), was.GetName())
		}
	}
	return w.clear(ctx)
}

// usedByPods reports whether the template of a Deployment refers to a ConfigMap.
func usedByPods(configMap *unstructured.Unstructured, children []unstructured.Unstructured) bool {
	return slices.ContainsFunc(children, func(c unstructured.Unstructured) bool {
		template, _, _ := unstructured.NestedMap(c.Object, "spec", "template", "spec")
		return c.GetKind() == "Deployment" && strings.Contains(mustJSON(template), `"name":"`+configMap.GetName()+`"`)
	})
}

// clear deletes orphaned children, which would be in the way of the next object of
// the same name.
func (w *World) clear(ctx context.Context) error {
	all, err := w.children(ctx)
	if err != nil {
		return err
	}
	var left []unstructured.Unstructured
	for _, c := range all {
		ref := Ref{c.GetKind(), c.GetName()}
		if w.foreign[ref] != nil || ref.Kind == "ConfigMap" && (ref.Name == inputName("ConfigMap") || ref.Name == "kube-root-ca.crt") {
			continue
		}
		if err := w.env.Admin.Delete(ctx, c.DeepCopy(), client.PropagationPolicy(metav1.DeletePropagationBackground)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting what was left: %w", err)
		}
		left = append(left, c)
	}
	return w.collected(ctx, left)
}
