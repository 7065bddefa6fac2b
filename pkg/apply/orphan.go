package apply

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

// While the deletion policy of an object is Orphan, its children have no owner reference,
// so that the garbage collector deletes none of them, in whichever way the object is
// deleted. Two annotations name their owner (docs/decisions/0004-orphaning.md).

// ownerManager owns the owner reference of a child if it was written separately from the
// rest of the child.
const ownerManager = naming.FieldManager + "-owner"

// Orphans reports whether the children of an object outlive it.
func Orphans(owner client.Object) bool {
	o, ok := owner.(interface{ GetDeletionPolicy() common.DeletionPolicy })
	return ok && o.GetDeletionPolicy() == common.DeletionPolicyOrphan
}

// isBound reports whether a child is to have an owner reference, so that it is deleted with
// its owner.
func (in Intent) isBound(owner client.Object) bool { return in.DeleteOnOrphan || !Orphans(owner) }

// OrphanOf returns the value of naming.AnnotationOrphanOf. It names the owner whatever its
// UID is: after a restore from a backup, that differs.
func OrphanOf(owner Owner) string {
	return fmt.Sprintf("%s.%s/%s", owner.GVK.Kind, owner.GVK.Group, owner.Object.GetName())
}

// SetOwner makes what names the owner of a child follow the deletion policy, by a patch of
// only that. It is for what Apply does not do: the owner is paused, the API server refuses
// the child, or another manager owns the owner reference, too. Whether a child outlives its
// owner must not depend on whether its spec can be written. It costs one request when the
// policy changes, and otherwise none.
//
// An owner reference that another client removed is restored only by Apply. bound reports
// whether the child is to have one. live is not modified.
func (a *Applier) SetOwner(ctx context.Context, owner Owner, kind string, live client.Object, bound bool) error {
	if !Owns(owner.Object, live) || !live.GetDeletionTimestamp().IsZero() {
		return nil
	}
	changed := live.DeepCopyObject().(client.Object)
	binds := bound && live.GetAnnotations()[naming.AnnotationOrphanOf] != "" && !metav1.IsControlledBy(live, owner.Object)
	setOwner(owner, changed, bound, binds)
	if slices.EqualFunc(changed.GetOwnerReferences(), live.GetOwnerReferences(), sameOwner) && maps.Equal(changed.GetAnnotations(), live.GetAnnotations()) {
		return nil
	}
	return a.patch(ctx, owner, kind, live, changed, Changed)
}

// patch changes what names the owner of a child, without the rest of its intent.
func (a *Applier) patch(ctx context.Context, owner Owner, kind string, live, changed client.Object, act Action) error {
	if metav1.IsControlledBy(changed, owner.Object) && !metav1.IsControlledBy(live, owner.Object) {
		// A reference to an owner that no longer exists would delete the child.
		if err := a.ownerExists(ctx, owner); err != nil {
			return err
		}
	}
	if err := owner.stillFresh(); err != nil {
		return err
	}
	log.FromContext(ctx).Info("Changing only the owner of a child", "child", fmt.Sprintf("%s %q", kind, live.GetName()))
	opts := []client.PatchOption{client.FieldOwner(ownerManager)}
	if act == Released {
		// The cache selects by the label that is removed, so it never holds this version.
		opts = append(opts, client.DisableReadYourWritesConsistency)
	}
	err := a.client.Patch(ctx, changed, ifUnchanged(live), opts...)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("changing the owner of %s %q: %w", kind, live.GetName(), err)
	}
	a.count(owner, kind, Event{Action: act})
	return nil
}

// setOwner sets the annotations of a child that name its owner, and removes the owner
// reference if the child is not bound, or adds it if binds is true.
func setOwner(owner Owner, changed client.Object, bound, binds bool) {
	annotations := changed.GetAnnotations()
	refs := changed.GetOwnerReferences()
	if binds {
		refs = append(refs, *metav1.NewControllerRef(owner.Object, schema.GroupVersionKind(owner.GVK)))
	}
	if bound {
		delete(annotations, naming.AnnotationOrphanOf)
	} else {
		refs = withoutOwner(refs, owner)
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[naming.AnnotationOwner] = string(owner.Object.GetUID())
		annotations[naming.AnnotationOrphanOf] = OrphanOf(owner)
	}
	changed.SetOwnerReferences(refs)
	changed.SetAnnotations(annotations)
}

// SetOwnerOf is SetOwner for the child that the cache holds, if there is one.
func (a *Applier) SetOwnerOf(ctx context.Context, owner Owner, in Intent) error {
	live, err := a.cached(ctx, in)
	if err != nil || live == nil {
		return err
	}
	return a.SetOwner(ctx, owner, in.Kind, live, in.isBound(owner.Object))
}

func sameOwner(a, b metav1.OwnerReference) bool { return a.UID == b.UID }

func withoutOwner(refs []metav1.OwnerReference, owner Owner) []metav1.OwnerReference {
	return slices.DeleteFunc(refs, func(r metav1.OwnerReference) bool { return r.UID == owner.Object.GetUID() })
}

// Release removes the owner references and all labels and annotations of the
// operator from a child that is kept when the owner is deleted. A child that the
// garbage collector is about to delete is not changed, and neither is an unowned one.
//
// The pod template keeps its annotations, because changing it would replace the
// pods.
func (a *Applier) Release(ctx context.Context, owner Owner, in Intent) error {
	live, err := a.cached(ctx, in)
	if err != nil || live == nil {
		return err
	}
	bound := metav1.IsControlledBy(live, owner.Object)
	if bound && !Orphans(owner.Object) || !bound && !handedOver(live, owner) || !live.GetDeletionTimestamp().IsZero() {
		return nil
	}
	changed := live.DeepCopyObject().(client.Object)
	changed.SetOwnerReferences(withoutOwner(changed.GetOwnerReferences(), owner))
	changed.SetLabels(withoutMarks(changed.GetLabels()))
	changed.SetAnnotations(withoutMarks(changed.GetAnnotations()))
	if in.OnRelease != nil {
		in.OnRelease(changed)
	}
	if err := a.patch(ctx, owner, in.Kind, live, changed, Released); err != nil {
		return err
	}
	a.forgetChild(owner, in.Kind, in.Key())
	return nil
}

// withoutMarks removes the operator's labels or annotations. The
// app.kubernetes.io/managed-by label is kept if it has the value of another
// tool.
func withoutMarks(m map[string]string) map[string]string {
	maps.DeleteFunc(m, func(k, v string) bool {
		return strings.HasPrefix(k, naming.Domain+"/") || k == naming.LabelManagedBy && v == naming.ManagedBy
	})
	return m
}
