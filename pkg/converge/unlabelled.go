package converge

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

// The caches hold only children with the operator's label. A child from which
// it was removed manually disappears from them as if it had been deleted.
// Applying the child finds it and restores the label; but a child of a paused
// object is not applied, and a child that is no longer wanted must be deleted.
// Only such a child is read from the API server, and only if there is a reason
// to believe that it exists:
//
//   - an event reported that it disappeared, and the operator had not deleted
//     it;
//   - it is the workload, it is not applied because the object is paused or the
//     plan is incomplete, and this process does not know yet whether it exists:
//     there was no event if it lost its label while no operator was running;
//   - it outlives the object, and is not applied because the object is paused, the plan is
//     incomplete, or another child fails: it must be retained, and this process has not
//     searched for it yet.
//
// An object at rest causes no request, unless it is paused, or its plan is incomplete, and
// such a child was found: then it is read once a minute, because no event reports its
// changes.

// goneSoon is the interval at which a child without the label that is being
// deleted is read again, because there is no event when its deletion completes.
const goneSoon = 2 * time.Second

// findUnlabelled returns the children that exist, are not in the cache, and are
// not applied by the plan. An incomplete plan may lack children that are wanted.
func (c *reconciliation) findUnlabelled(ctx context.Context, plan Plan, incomplete bool) (map[childKey]client.Object, error) {
	key := client.ObjectKeyFromObject(c.obj)
	vanished := c.takeVanished(key)
	c.vanished = vanished
	paused := c.kind.Paused(c.obj)
	// If the workload were missed, an object that is serving would be reported as
	// unavailable. No condition depends on the other children that are not applied.
	// The status is no evidence that the workload exists: it may be wrong, and it
	// would remain so.
	known := c.recall(key)
	toRetain := orphans(c.obj) && (paused && !known.searched || incomplete && !known.sought)
	planned := map[childKey]bool{}
	for _, in := range plan.Apply {
		planned[childKey{in.Kind, in.Key()}] = true
	}
	found := map[childKey]client.Object{}
	for k, o := range c.seen.of {
		workload := isOfType(o, c.kind.Workload)
		unapplied := paused || incomplete && !planned[k]
		suspected := vanished[k] || unapplied && !known.absent && workload || toRetain
		if exists(o) || !suspected || planned[k] && !paused {
			continue
		}
		live := reflect.New(reflect.TypeOf(o).Elem()).Interface().(client.Object)
		owned, err := c.applier.ReadOwned(ctx, c.owner, k.ObjectKey, live)
		if err != nil {
			c.keepVanished(key, slices.Collect(maps.Keys(vanished)))
			return nil, fmt.Errorf("looking for a child that the cache does not hold: %w", err)
		}
		switch {
		case !exists(live) || naming.IsLabelled(live): // an event reports its creation and its changes
			if workload && !owned {
				c.change(key, func(m *memory) { m.absent = true })
			}
			continue
		case !owned: // no event reports that it is given back without the label
			if workload {
				c.out.RequeueAfter(fault.Probe)
			}
			continue
		}
		found[k] = live
		if (paused || incomplete) && live.GetDeletionTimestamp().IsZero() {
			c.out.RequeueAfter(fault.Probe)
		} else {
			c.out.RequeueAfter(goneSoon)
		}
	}
	c.keepVanished(key, slices.Collect(maps.Keys(found)))
	if toRetain && paused {
		c.change(key, func(m *memory) { m.searched = true })
	}
	return found, nil
}

// orphans reports whether the children of an object outlive it.
func orphans(obj Object) bool { return obj.GetDeletionPolicy() == common.DeletionPolicyOrphan }

// retainUnapplied retains a child that was not applied. If that is because another child
// failed, it may exist without the label. If it has disappeared from the cache, that is
// remembered until it is applied.
func (c *reconciliation) retainUnapplied(ctx context.Context, k childKey, in apply.Intent) error {
	if o, observed := c.seen.of[k]; c.kind.Paused(c.obj) || observed && exists(o) {
		return c.applier.Retain(ctx, c.owner, in)
	}
	key := client.ObjectKeyFromObject(c.obj)
	if c.vanished[k] {
		c.keepVanished(key, []childKey{k})
	}
	if orphans(c.obj) && (c.vanished[k] || !c.recall(key).sought) {
		return c.applier.RetainUncached(ctx, c.owner, in)
	}
	return c.applier.Retain(ctx, c.owner, in)
}

// unlabelledReader reads the children of one object, also those that lack the label.
type unlabelledReader struct {
	client.Reader // the cache
	applier       *apply.Applier
	owner         apply.Owner
}

func (u unlabelledReader) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	missing := u.Reader.Get(ctx, key, into, opts...)
	if !apierrors.IsNotFound(missing) {
		return missing
	}
	if _, err := u.applier.ReadOwned(ctx, u.owner, key, into); err != nil || exists(into) {
		return err
	}
	return missing
}

func isOfType(o, empty client.Object) bool { return reflect.TypeOf(o) == reflect.TypeOf(empty) }

// takeVanished returns the children of an object that have disappeared from the
// cache since the last call.
func (r *Reconciler) takeVanished(key types.NamespacedName) (vanished map[childKey]bool) {
	r.change(key, func(m *memory) { vanished, m.vanished = m.vanished, nil })
	return vanished
}

// keepVanished makes the next reconcile search for the children again.
func (r *Reconciler) keepVanished(key types.NamespacedName, children []childKey) {
	r.change(key, func(m *memory) {
		for _, k := range children {
			m.addVanished(k)
		}
	})
}

// addVanished records that a child has disappeared.
func (m *memory) addVanished(child childKey) {
	if m.vanished == nil {
		m.vanished = map[childKey]bool{}
	}
	m.vanished[child] = true
}

// disappeared records that a child is no longer in the cache, for the next
// reconcile of its owner.
func (r *Reconciler) disappeared(o client.Object) {
	gvk, err := apiutil.GVKForObject(o, r.client.Scheme())
	if err != nil {
		return
	}
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
	if o.GetDeletionTimestamp().IsZero() {
		m.addVanished(childKey{gvk.Kind, client.ObjectKeyFromObject(o)})
	}
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
