package apply

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

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
