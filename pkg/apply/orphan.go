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
	isOrphan := live.GetAnnotations()[naming.AnnotationOrphanOf] != ""
	if bound && !isOrphan || !Owns(owner.Object, live) || !live.GetDeletionTimestamp().IsZero() {
		return nil
	}
	binds := bound && !metav1.IsControlledBy(live, owner.Object)
	return a.begin(owner, Named(kind, live)).patch(ctx, live, Changed, func(o client.Object) { setOwner(owner, o, bound, binds) })
}

// SetOwnerOf is SetOwner for the child that the cache holds, if there is one.
func (a *Applier) SetOwnerOf(ctx context.Context, owner Owner, in Intent) error {
	live, err := read(ctx, a.client, in)
	if err != nil || live == nil {
		return err
	}
	return a.SetOwner(ctx, owner, in.Kind, live, in.isBound(owner.Object))
}

// Adopt makes a child of an earlier object of the owner's kind and name a child of the owner, by
// a patch of only what names the owner: the owner was restored from a backup, or deleted with
// --cascade=orphan and created again. live may have only its metadata. labels are those that
// every child of the owner has, and no other object's. bound reports whether the child is to
// have an owner reference. adopted reports whether live is such a child.
func (a *Applier) Adopt(ctx context.Context, owner Owner, kind string, live client.Object, labels map[string]string, bound bool) (adopted bool, err error) {
	if naming.OwnerUID(live) == owner.Object.GetUID() {
		return false, nil
	}
	t := a.begin(owner, Named(kind, live))
	if live, err = read(ctx, a.client, t.in); err != nil || live == nil {
		return false, err
	}
	if !isEarlier(live, owner, labels) || managedElsewhere(live) != "" || !live.GetDeletionTimestamp().IsZero() {
		return false, nil
	}
	err = t.patch(ctx, live, Changed, func(o client.Object) {
		o.GetAnnotations()[naming.AnnotationOwner] = string(owner.Object.GetUID())
		setOwner(owner, o, bound, bound)
	})
	if err != nil {
		return false, fmt.Errorf("adopting a child of an earlier object: %w", err)
	}
	return true, nil
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
	live, err := read(ctx, a.client, in)
	if err != nil || live == nil {
		return err
	}
	bound := metav1.IsControlledBy(live, owner.Object)
	if bound && !Orphans(owner.Object) || !bound && !handedOver(live, owner) || !live.GetDeletionTimestamp().IsZero() {
		return nil
	}
	t := a.begin(owner, in)
	err = t.patch(ctx, live, Released, func(o client.Object) {
		o.SetOwnerReferences(withoutOwner(o.GetOwnerReferences(), owner))
		o.SetLabels(withoutMarks(o.GetLabels()))
		o.SetAnnotations(withoutMarks(o.GetAnnotations()))
		if in.OnRelease != nil {
			in.OnRelease(o)
		}
	})
	if err != nil {
		return err
	}
	t.remember(facts{})
	return nil
}

// patch changes what names the owner of a child, without the rest of its intent.
func (t *attempt) patch(ctx context.Context, live client.Object, act Action, change func(client.Object)) error {
	changed := live.DeepCopyObject().(client.Object)
	change(changed)
	if act == Changed && len(changed.GetOwnerReferences()) == len(live.GetOwnerReferences()) && maps.Equal(changed.GetAnnotations(), live.GetAnnotations()) {
		return nil
	}
	if metav1.IsControlledBy(changed, t.owner.Object) && !metav1.IsControlledBy(live, t.owner.Object) {
		// A reference to an owner that no longer exists would delete the child.
		if err := t.ownerExists(ctx); err != nil {
			return err
		}
	}
	log.FromContext(ctx).Info("Changing only the owner of a child", "child", t.in.String())
	opts := []client.PatchOption{client.FieldOwner(ownerManager)}
	if act == Released {
		// The cache selects by the label that is removed, so it never holds this version.
		opts = append(opts, client.DisableReadYourWritesConsistency)
	}
	err := t.write("changing the owner of", func() error {
		return t.client.Patch(ctx, changed, IfUnchanged(live), opts...)
	})
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	t.count(Event{Action: act})
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
