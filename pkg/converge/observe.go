package converge

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

// GetOwned reads the child of owner with the given name into an empty object. It
// returns nil and no error if the child does not exist or is unowned.
func GetOwned[L client.Object](ctx context.Context, r client.Reader, owner client.Object, name string, into L) (L, error) {
	var none L
	err := r.Get(ctx, client.ObjectKey{Namespace: owner.GetNamespace(), Name: name}, into)
	switch {
	case apierrors.IsNotFound(err):
		return none, nil
	case err != nil:
		return none, fmt.Errorf("reading %T %q: %w", into, name, err)
	case !apply.Owns(owner, into):
		return none, nil
	}
	return into, nil
}

// GetOwnedIfServed is GetOwned for a type that not every cluster serves. unknown reports
// that this cluster does not serve it, or did not when the operator started.
func GetOwnedIfServed[L client.Object](ctx context.Context, r client.Reader, owner client.Object, name string, into L) (child L, unknown bool, err error) {
	// A read would make the RESTMapper query the API server in every reconcile.
	if in, ok := r.(Reader); ok && !in.unavailable.has(kindOf(into)) {
		return child, true, nil
	}
	child, err = GetOwned(ctx, r, owner, name, into)
	if meta.IsNoMatchError(err) { // of preflight
		return child, true, nil
	}
	return child, false, err
}

// recorder is a reader that records which objects it returned, one by one, or did not find.
type recorder struct {
	client.Client
	observed map[apply.ChildKey]client.Object
}

func (r recorder) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	err := r.Client.Get(ctx, key, into, opts...)
	if client.IgnoreNotFound(err) == nil {
		r.observed[apply.ChildKey{Kind: kindOf(into), ObjectKey: key}] = into
	}
	return err
}

// ListUnowned lists the objects of a type in owner's namespace that owner does not
// own. The type must be one of the kind's Unowned. into is an empty list.
func ListUnowned(ctx context.Context, r client.Reader, owner client.Object, into client.ObjectList) error {
	err := r.List(ctx, into, client.InNamespace(owner.GetNamespace()), client.MatchingFields{naming.IndexUnowned: naming.Unowned})
	if err != nil {
		return fmt.Errorf("listing unowned %T: %w", into, err)
	}
	all, err := meta.ExtractList(into)
	if err != nil {
		return err
	}
	return meta.SetList(into, slices.DeleteFunc(all, func(o runtime.Object) bool {
		m, err := meta.Accessor(o)
		// The reconcile restores the owner reference of a child that lost it.
		return err != nil || metav1.IsControlledBy(m, owner) || m.GetAnnotations()[naming.AnnotationOwner] == string(owner.GetUID())
	}))
}
