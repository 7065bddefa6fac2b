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
	return metav1.IsControlledBy(live, owner) || naming.OwnerUID(live) == owner.GetUID() && managedElsewhere(live) == ""
}

// Owned reports whether the cache holds the child. The error explains why Apply
// would not write the live object, for example because it has another owner.
func (a *Applier) Owned(ctx context.Context, owner Owner, in Intent) (exists bool, err error) {
	return readOwned(ctx, a.client, owner, in)
}

// OwnedUncached is Owned for a child that the cache does not hold, because it
// is unowned or its label was removed by hand. It costs one request.
func (a *Applier) OwnedUncached(ctx context.Context, owner Owner, in Intent) (exists bool, err error) {
	return readOwned(ctx, a.live, owner, in)
}

func readOwned(ctx context.Context, from client.Reader, owner Owner, in Intent) (exists bool, err error) {
	live := in.newLive()
	if err := from.Get(ctx, in.Key(), live); err != nil {
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return false, fmt.Errorf("reading %s: %w", in, err)
	}
	return true, checkOwnership(owner, in, live)
}

// readAnywhere reads a child from the cache, or else from the API server: the
// cache does not hold a child that lost the operator's label or was just
// created.
func (a *Applier) readAnywhere(ctx context.Context, in Intent) (client.Object, error) {
	live := in.newLive()
	err := a.client.Get(ctx, in.Key(), live)
	if apierrors.IsNotFound(err) {
		live = in.newLive()
		err = a.live.Get(ctx, in.Key(), live)
	}
	return live, err
}
