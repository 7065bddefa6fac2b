package converge

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

// orphans reports whether the children of an object outlive it.
func orphans(obj Object) bool { return obj.GetDeletionPolicy() == common.DeletionPolicyOrphan }

// disappeared records that a child is no longer in the cache, for the next
// reconcile of its owner.
func (r *Reconciler) disappeared(o client.Object) {
	key, known := r.ownerOf(o)
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.objects[key]
	pruned := m.pruned[o.GetUID()]
	delete(m.pruned, o.GetUID())
	if !known || pruned {
		return
	}
	m.suspect = true
	r.objects[key] = m
}

// ownerOf returns the object that a child belongs to, if this process has
// reconciled it.
func (r *Reconciler) ownerOf(o client.Object) (types.NamespacedName, bool) {
	uid := naming.OwnerUID(o)
	if uid == "" {
		return types.NamespacedName{}, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := metav1.GetControllerOf(o); c != nil {
		key := types.NamespacedName{Namespace: o.GetNamespace(), Name: c.Name}
		return key, r.objects[key].uid == uid
	}
	for key, m := range r.objects {
		if m.uid == uid {
			return key, true
		}
	}
	return types.NamespacedName{}, false
}

// disowned returns the request for the owner of a child whose owner reference
// was removed, because events of such a child do not trigger a reconcile of the
// owner.
func (r *Reconciler) disowned(o client.Object) (reconcile.Request, bool) {
	if metav1.GetControllerOf(o) != nil {
		return reconcile.Request{}, false
	}
	key, known := r.ownerOf(o)
	return reconcile.Request{NamespacedName: key}, known
}

// prune deletes a child, and records the deletion, so that its disappearance
// from the cache does not cause a search for it.
func (r *Reconciler) prune(ctx context.Context, owner apply.Owner, kind string, child client.Object) error {
	key := client.ObjectKeyFromObject(owner.Object)
	note := func(pruned bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		m := r.objects[key]
		if !pruned {
			delete(m.pruned, child.GetUID())
			return
		}
		if m.pruned == nil {
			m.pruned = map[types.UID]bool{}
		}
		m.pruned[child.GetUID()] = true
		r.objects[key] = m
	}
	inCache := naming.IsLabelled(child) && child.GetDeletionTimestamp().IsZero()
	if inCache {
		note(true)
	}
	err := r.applier.Delete(ctx, owner, kind, child)
	if err != nil && inCache {
		note(false)
	}
	return err
}
