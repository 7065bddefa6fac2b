package apply

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/pkg/naming"
)

// Owns reports whether a live child belongs to owner. This includes a child
// whose owner reference was removed by hand, if no other owner or tool claims
// it: an apply would restore the reference, but a child that is no longer
// wanted, or whose owner is paused, is not applied.
func Owns(owner, live client.Object) bool {
	return metav1.IsControlledBy(live, owner) || naming.OwnerUID(live) == owner.GetUID() && managedElsewhere(live) == ""
}

// Adopt makes a child of an earlier object of the owner's kind and name a child of the owner, by
// a patch of only what names the owner: the owner was restored from a backup, or deleted with
// --cascade=orphan and created again. live may have only its metadata. labels are those that
// every child of the owner has, and no other object's. bound reports whether the child is to
// have an owner reference. adopted reports whether live is such a child.
func (a *Applier) Adopt(ctx context.Context, owner Owner, kind string, live client.Object, labels map[string]string, bound bool) (adopted bool, err error) {
	of := live.GetAnnotations()[naming.AnnotationOrphanOf]
	if naming.OwnerUID(live) == owner.Object.GetUID() || of != "" && of != OrphanOf(owner) {
		return false, nil
	}
	in := Named(kind, live)
	live, err = a.cached(ctx, in)
	if err != nil || live == nil {
		return false, err
	}
	if !isEarlier(live, owner, labels) || managedElsewhere(live) != "" || !live.GetDeletionTimestamp().IsZero() {
		return false, nil
	}
	changed := live.DeepCopyObject().(client.Object)
	changed.GetAnnotations()[naming.AnnotationOwner] = string(owner.Object.GetUID())
	setOwner(owner, changed, bound, bound)
	if err := a.patch(ctx, owner, kind, live, changed, Changed); err != nil {
		return false, fmt.Errorf("adopting a child of an earlier object: %w", err)
	}
	return true, nil
}

// isEarlier reports whether a child without a controller names an object of the owner's kind
// and name, but with another UID. That object no longer exists, because the owner has its
// name. An annotation names it if it orphans its children, and otherwise the labels do. Those
// of a Deployment or a Service are those of the pods.
func isEarlier(live client.Object, owner Owner, labels map[string]string) bool {
	if !naming.IsDisowned(live) || naming.OwnerUID(live) == owner.Object.GetUID() {
		return false
	}
	if of := live.GetAnnotations()[naming.AnnotationOrphanOf]; of != "" {
		return of == OrphanOf(owner)
	}
	names, has := false, live.GetLabels()
	switch live := live.(type) {
	case *appsv1.Deployment:
		has = live.Spec.Template.Labels
	case *corev1.Service:
		has = live.Spec.Selector
	}
	for k, v := range labels {
		if k == naming.LabelManagedBy {
			continue
		}
		if names = has[k] == v; !names {
			return false
		}
	}
	return names
}

// Owned reports whether the cache holds the child. The error explains why Apply
// would not write the live object, for example because it has another owner.
func (a *Applier) Owned(ctx context.Context, owner Owner, in Intent) (exists bool, err error) {
	live, err := a.cached(ctx, in)
	if err != nil || live == nil {
		return false, err
	}
	return true, checkOwnership(owner, in, live)
}
