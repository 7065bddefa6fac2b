package apply

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

// Owns reports whether a live child belongs to owner. This includes a child
// whose owner reference was removed by hand, if no other owner or tool claims
// it: an apply would restore the reference, but a child that is no longer
// wanted, or whose owner is paused, is not applied.
func Owns(owner, live client.Object) bool {
	return metav1.IsControlledBy(live, owner) || naming.OwnerUID(live) == owner.GetUID() && managedElsewhere(live) == ""
}

// Owned reports whether the cache holds the child. The error explains why Apply
// would not write the live object, for example because it has another owner.
func (a *Applier) Owned(ctx context.Context, owner Owner, in Intent) (exists bool, err error) {
	live, err := read(ctx, a.client, in)
	if err != nil || live == nil {
		return false, err
	}
	return true, checkOwnership(owner, in, live)
}

// checkOwnership returns nil if the child is controlled by the owner or was handed
// over to it, and is not being deleted. Otherwise it returns the error to
// report. A child of another object is a conflict even while it is being deleted:
// yet another object may create the next one.
func checkOwnership(owner Owner, in Intent, live client.Object) error {
	ours, deleting := metav1.IsControlledBy(live, owner.Object), !live.GetDeletionTimestamp().IsZero()
	if ours && !deleting {
		return nil
	}
	uid, holder, tool := owner.Object.GetUID(), metav1.GetControllerOf(live), managedElsewhere(live)
	earlier := holder != nil && holder.Name == owner.Object.GetName() &&
		schema.FromAPIVersionAndKind(holder.APIVersion, holder.Kind).GroupKind() == schema.GroupKind{Group: owner.GVK.Group, Kind: owner.GVK.Kind}
	switch {
	case holder != nil && !ours && !earlier:
		return fault.Stalled(msgOtherOwner, in, holder.Kind, holder.Name)
	case deleting:
		return fault.Waiting(fault.Probe, msgChildDeleted, in)
	case tool == "" && (handedOver(live, owner) || in.meta != nil && isEarlier(live, owner, in.meta.Labels)):
		return nil
	case earlier:
		return fault.Waiting(fault.Probe, msgEarlier, in, holder.Kind)
	case tool != "":
		return fault.Stalled(msgUnowned, in, "is managed by "+tool, naming.AnnotationOwner, uid)
	default:
		return fault.Stalled(msgUnowned, in, "has no owner", naming.AnnotationOwner, uid)
	}
}

// handedOver reports whether an object without a controller belongs to the given owner: it
// outlives the owner, or an earlier one of the same name, its owner reference was removed, or
// a user handed it over by setting the annotation.
func handedOver(live client.Object, owner Owner) bool {
	marks := live.GetAnnotations()
	return metav1.GetControllerOf(live) == nil &&
		(marks[naming.AnnotationOwner] == string(owner.Object.GetUID()) || marks[naming.AnnotationOrphanOf] == OrphanOf(owner))
}

// managedElsewhere returns the name or the label of the tool that manages an
// unowned object, or "". Such a tool would revert the operator's changes.
func managedElsewhere(live client.Object) string {
	if by := live.GetLabels()[naming.LabelManagedBy]; by != "" && by != naming.ManagedBy {
		return by
	}
	for _, k := range []string{"argocd.argoproj.io/instance", "argocd.argoproj.io/tracking-id", "kustomize.toolkit.fluxcd.io/name", "helm.toolkit.fluxcd.io/name", "meta.helm.sh/release-name"} {
		if live.GetLabels()[k] != "" || live.GetAnnotations()[k] != "" {
			return k
		}
	}
	return ""
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
		if k != naming.LabelManagedBy && has[k] != v {
			return false
		}
		names = names || k != naming.LabelManagedBy
	}
	return names
}
