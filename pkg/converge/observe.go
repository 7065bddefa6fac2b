package converge

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Ours reads a child of owner by its name into the given empty object. It
// returns nil, and no error, where none stands or where it is not owner's.
func Ours[L client.Object](ctx context.Context, r client.Reader, owner client.Object, name string, into L) (L, error) {
	var none L
	err := r.Get(ctx, client.ObjectKey{Namespace: owner.GetNamespace(), Name: name}, into)
	switch {
	case apierrors.IsNotFound(err):
		return none, nil
	case err != nil:
		return none, fmt.Errorf("reading %T %q: %w", into, name, err)
	case !metav1.IsControlledBy(into, owner):
		return none, nil
	}
	return into, nil
}
