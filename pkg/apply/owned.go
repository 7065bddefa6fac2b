package apply

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/pkg/naming"
)

// Owns reports whether a live child belongs to owner. It does, too, if its owner
// reference was removed by hand and nothing else has a claim on it: an apply
// would restore the reference, but a child that is no longer wanted, or one of a
// paused object, is not applied.
func Owns(owner, live client.Object) bool {
	return naming.OwnerUID(live) == owner.GetUID() && (metav1.IsControlledBy(live, owner) || managedElsewhere(live) == "")
}

// Owned reports whether the cache holds the child. The error says why Apply
// would not write the live object, such as that it has another owner.
func (a *Applier) Owned(ctx context.Context, owner Owner, in Intent) (exists bool, err error) {
	live := in.newLive()
	if err := a.client.Get(ctx, in.Key(), live); err != nil {
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return false, fmt.Errorf("reading %s: %w", in, err)
	}
	return true, mayWrite(owner, in, live)
}

// OwnedUncached reports whether a child that the cache does not hold exists, and
// belongs to the owner: its label was removed by hand. It costs one request.
func (a *Applier) OwnedUncached(ctx context.Context, owner Owner, in Intent) (bool, error) {
	return a.ReadOwned(ctx, owner, in.Key(), in.newLive())
}

// ReadOwned reads a child past the cache into an empty object, and reports
// whether it exists and belongs to the owner.
func (a *Applier) ReadOwned(ctx context.Context, owner Owner, key client.ObjectKey, into client.Object) (bool, error) {
	if err := a.live.Get(ctx, key, into); err != nil {
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return false, fmt.Errorf("reading %T %q: %w", into, key.Name, err)
	}
	return Owns(owner.Object, into), nil
}
