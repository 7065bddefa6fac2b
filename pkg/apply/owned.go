package apply

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/pkg/naming"
)

// Owns reports whether a live child belongs to owner. This includes a child
// whose owner reference was removed by hand, if no other owner or tool claims
// it: an apply would restore the reference, but a child that is no longer
// wanted, or whose owner is paused, is not applied.
func Owns(owner, live client.Object) bool {
	return naming.OwnerUID(live) == owner.GetUID() && (metav1.IsControlledBy(live, owner) || managedElsewhere(live) == "")
}

// Owned reports whether the cache holds the child. The error explains why Apply
// would not write the live object, for example because it has another owner.
func (a *Applier) Owned(ctx context.Context, owner Owner, in Intent) (exists bool, err error) {
	live := in.newLive()
	if err := a.client.Get(ctx, in.Key(), live); err != nil {
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return false, fmt.Errorf("reading %s: %w", in, err)
	}
	return true, checkOwnership(owner, in, live)
}

// OwnedUncached is Owned for a child that the cache does not hold, because it
// is unowned or its label was removed by hand. It costs one request.
func (a *Applier) OwnedUncached(ctx context.Context, owner Owner, in Intent) (exists bool, err error) {
	live := in.newLive()
	if exists, err := a.read(ctx, in.Key(), live); !exists || err != nil {
		return false, err
	}
	return true, checkOwnership(owner, in, live)
}

// ReadOwned reads a child from the API server into an empty object, and reports
// whether it exists and belongs to the owner.
func (a *Applier) ReadOwned(ctx context.Context, owner Owner, key client.ObjectKey, into client.Object) (bool, error) {
	exists, err := a.read(ctx, key, into)
	return exists && Owns(owner.Object, into), err
}

// read reads a child from the API server, and reports whether it exists.
func (a *Applier) read(ctx context.Context, key client.ObjectKey, into client.Object) (exists bool, err error) {
	if err := a.live.Get(ctx, key, into); err != nil {
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return false, fmt.Errorf("reading %T %q: %w", into, key.Name, err)
	}
	return true, nil
}
