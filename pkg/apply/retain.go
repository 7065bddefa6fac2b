package apply

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

// Foreground deletion, which is Argo CD's default, deletes all children of an
// object as soon as the object is being deleted. The garbage collector does not
// wait for finalizers, and blockOwnerDeletion only decides whether the object
// waits for a child. A child is kept only if it has a second owner that exists:
// the garbage collector then removes the reference to the deleted owner.
// Therefore children that are to be orphaned are also owned by their Namespace
// (docs/decisions/0004-orphaning.md).

// retainManager owns the reference to the Namespace if it was written
// separately from the rest of the child.
const retainManager = naming.FieldManager + "-retain"

// retained reports whether a child outlives its owner. A child that is bound to
// its owner must not have a second owner, because it would never be
// garbage-collected.
func retained(owner Owner, in Intent) bool { return !in.DeleteOnOrphan && retains(owner) }

// retains reports whether the owner's deletion policy keeps its children.
func retains(owner Owner) bool {
	o, ok := owner.Object.(interface{ GetDeletionPolicy() common.DeletionPolicy })
	return ok && o.GetDeletionPolicy() == common.DeletionPolicyOrphan
}

// Retain changes only the owner references of a child that was not applied: it
// adds or removes the reference to the Namespace, depending on the deletion
// policy. Whether a child outlives its owner must not depend on whether its
// spec can be written: the owner may be paused, or the API server may refuse
// the child. It costs one request per such child when the deletion policy
// changes.
func (a *Applier) Retain(ctx context.Context, owner Owner, in Intent) error {
	return a.retain(ctx, a.client, owner, in)
}

// RetainUncached is Retain for a child that the cache may not hold, because it has lost
// its label. It costs one request more.
func (a *Applier) RetainUncached(ctx context.Context, owner Owner, in Intent) error {
	return a.retain(ctx, a.live, owner, in)
}

func (a *Applier) retain(ctx context.Context, from client.Reader, owner Owner, in Intent) error {
	if in.DeleteOnOrphan {
		return nil
	}
	live := in.newLive()
	if err := from.Get(ctx, in.Key(), live); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil
		}
		return fmt.Errorf("reading %s: %w", in, err)
	}
	return a.RetainLive(ctx, owner, in.Kind, live)
}

// RetainLive is like Retain, for a child that was already read. It does not
// modify live.
func (a *Applier) RetainLive(ctx context.Context, owner Owner, kind string, live client.Object) error {
	refs := live.GetOwnerReferences()
	i := slices.IndexFunc(refs, func(r metav1.OwnerReference) bool { return naming.IsNamespace(r, live.GetNamespace()) })
	// A child without the owner's reference is not deleted with the owner.
	if retains(owner) == (i >= 0) || !metav1.IsControlledBy(live, owner.Object) || !live.GetDeletionTimestamp().IsZero() {
		return nil
	}
	refs = slices.Clone(refs)
	if i >= 0 {
		refs = slices.Delete(refs, i, i+1)
	} else {
		uid, err := a.readNamespaceUID(ctx, owner, live.GetNamespace())
		if err != nil {
			return fmt.Errorf("retaining %s %q: %w", kind, live.GetName(), err)
		}
		refs = append(refs, metav1.OwnerReference{APIVersion: "v1", Kind: "Namespace", Name: live.GetNamespace(), UID: uid})
	}
	if err := owner.stillFresh(); err != nil {
		return err
	}
	changed := live.DeepCopyObject().(client.Object)
	changed.SetOwnerReferences(refs)
	options := []client.PatchOption{client.FieldOwner(retainManager)}
	if !naming.IsLabelled(live) {
		options = append(options, client.DisableReadYourWritesConsistency) // the cache never holds it
	}
	log.FromContext(ctx).Info("Changing only the owner references of a child that is not applied", "child", fmt.Sprintf("%s %q", kind, live.GetName()))
	if err := a.client.Patch(ctx, changed, client.MergeFromWithOptions(live, client.MergeFromWithOptimisticLock{}), options...); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("retaining %s %q: %w", kind, live.GetName(), err)
	}
	a.metrics.Wrote(owner.GVK.Kind, kind, Changed)
	return nil
}

// EndRetained ends a child of a deleted owner that is also owned by its Namespace,
// because the garbage collector would keep it: the child is released if it is
// orphaned, and otherwise deleted. It reads the child from the API server: the cache
// may not show the reference yet.
//
// In a foreground deletion, the reference may have been removed since then, and the
// garbage collector may have seen it before: it removes the reference to the owner,
// whatever the other ones are by then, so that the child would have no owner. Therefore
// every child is deleted.
func (a *Applier) EndRetained(ctx context.Context, owner Owner, in Intent) error {
	live := in.newLive()
	if err := a.live.Get(ctx, in.Key(), live); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil
		}
		return fmt.Errorf("reading %s: %w", in, err)
	}
	switch orphaned, retained := Orphaned(owner, live), hasNamespaceOwner(live); {
	case !orphaned && (retained || owner.Foreground):
		return a.Delete(ctx, owner, in.Kind, live)
	case orphaned && retained:
		_, err := a.Release(ctx, owner, in)
		return err
	}
	return nil
}

// Orphaned reports whether a child of a deleted owner is kept: the deletion policy or
// the deletion itself (--cascade=orphan) asks for that. If it is not known how the owner
// was deleted, a reference to it that the garbage collector has removed already is taken
// for a deletion that orphans, because that loses nothing.
func Orphaned(owner Owner, child client.Object) bool {
	return retains(owner) || slices.Contains(owner.Object.GetFinalizers(), metav1.FinalizerOrphanDependents) ||
		!owner.Foreground && !metav1.IsControlledBy(child, owner.Object)
}

// hasNamespaceOwner reports whether a child is also owned by its Namespace.
func hasNamespaceOwner(live client.Object) bool {
	return slices.ContainsFunc(live.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return naming.IsNamespace(r, live.GetNamespace()) })
}

// retainedByPatch reports whether a child has a reference to its Namespace that
// Retain wrote. Omitting it from the intent does not remove it, so it has to be
// claimed.
func retainedByPatch(live client.Object) bool {
	return hasNamespaceOwner(live) &&
		slices.ContainsFunc(live.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return e.Manager == retainManager })
}

// ownersByPatch claims the owner references that Retain wrote.
func ownersByPatch(e metav1.ManagedFieldsEntry, path string) bool {
	return e.Manager == retainManager && strings.HasPrefix(path, "metadata.ownerReferences")
}

// namespaceUID returns the UID of the Namespace that additionally owns a child,
// or "" if the child is not retained. It costs one read in the lifetime of an
// object: later, the UID is in memory or in the live child.
func (a *Applier) namespaceUID(ctx context.Context, owner Owner, in Intent) (types.UID, error) {
	if !retained(owner, in) {
		return "", nil
	}
	live := in.newLive()
	if err := a.client.Get(ctx, in.Key(), live); client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("reading %s: %w", in, err)
	}
	for _, r := range live.GetOwnerReferences() {
		if naming.IsNamespace(r, in.Namespace) {
			return r.UID, nil
		}
	}
	uid, err := a.readNamespaceUID(ctx, owner, in.Namespace)
	if err != nil {
		return "", fmt.Errorf("retaining %s: %w", in, err)
	}
	return uid, nil
}

// readNamespaceUID returns the UID of the owner's Namespace, which is read once
// per owner.
func (a *Applier) readNamespaceUID(ctx context.Context, owner Owner, name string) (types.UID, error) {
	a.mu.Lock()
	uid := a.of(owner).namespace
	a.mu.Unlock()
	if uid != "" {
		return uid, nil
	}
	ns := &corev1.Namespace{}
	if err := a.live.Get(ctx, client.ObjectKey{Name: name}, ns); err != nil {
		return "", fmt.Errorf("reading the Namespace: %w", err)
	}
	a.mu.Lock()
	a.of(owner).namespace = ns.UID
	a.mu.Unlock()
	return ns.UID, nil
}

func namespaceReference(name string, uid types.UID) *metav1ac.OwnerReferenceApplyConfiguration {
	return metav1ac.OwnerReference().WithAPIVersion("v1").WithKind("Namespace").WithName(name).WithUID(uid)
}
