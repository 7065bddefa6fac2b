package apply

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/apis/common"
)

// Foreground deletion, which is Argo CD's default, deletes all children of an
// object as soon as the object is being deleted. The garbage collector does not
// wait for finalizers, and blockOwnerDeletion only decides whether the object
// waits for a child. The one thing that keeps a child is a second owner that
// exists: the collector then removes the reference to the deleted owner. So
// children that are to be orphaned are also owned by their Namespace
// (docs/decisions/0004-orphaning.md).

// retained reports whether a child outlives its owner. A bound child must not
// have a second owner: it would never be collected.
func retained(owner Owner, in Intent) bool {
	o, ok := owner.Object.(interface{ GetDeletionPolicy() common.DeletionPolicy })
	return ok && !in.Bound && o.GetDeletionPolicy() == common.DeletionPolicyOrphan
}

// namespaceUID returns the UID of the Namespace that is to own a child as well,
// or "" if the child is not retained. It costs one read in the life of an
// object: later it is remembered, or the live child shows it.
func (a *Applier) namespaceUID(ctx context.Context, owner Owner, in Intent) (types.UID, error) {
	if !retained(owner, in) {
		return "", nil
	}
	live := in.newLive()
	if err := a.client.Get(ctx, in.Key(), live); client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("reading %s: %w", in, err)
	}
	for _, r := range live.GetOwnerReferences() {
		if isNamespace(r, in.Namespace) {
			return r.UID, nil
		}
	}
	a.mu.Lock()
	uid := a.of(owner).namespace
	a.mu.Unlock()
	if uid != "" {
		return uid, nil
	}
	ns := &corev1.Namespace{}
	if err := a.live.Get(ctx, client.ObjectKey{Name: in.Namespace}, ns); err != nil {
		return "", fmt.Errorf("reading the Namespace that retains %s: %w", in, err)
	}
	a.mu.Lock()
	a.of(owner).namespace = ns.UID
	a.mu.Unlock()
	return ns.UID, nil
}

func isNamespace(r metav1.OwnerReference, name string) bool {
	return r.APIVersion == "v1" && r.Kind == "Namespace" && r.Name == name
}

func namespaceReference(name string, uid types.UID) *metav1ac.OwnerReferenceApplyConfiguration {
	return metav1ac.OwnerReference().WithAPIVersion("v1").WithKind("Namespace").WithName(name).WithUID(uid)
}
