package converge

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// claims finds the children of all namespaces that claim the same, by an index of the cache.
type claims struct {
	cache  client.Reader
	scheme *runtime.Scheme
	index  string
	of     func(client.Object) []string
}

// Claimants returns the other children of child's type, of all owners in all
// namespaces, that claim what it claims. Their changes do not trigger a reconcile.
func (r Reader) Claimants(ctx context.Context, child client.Object) ([]client.Object, error) {
	if r.claims == nil {
		return nil, nil
	}
	var others []client.Object
	seen := map[types.UID]bool{child.GetUID(): true}
	for _, claim := range r.claims.of(child) {
		claimants, err := listLike(ctx, r.claims.cache, r.claims.scheme, child, client.MatchingFields{r.claims.index: claim})
		if err != nil {
			return nil, err
		}
		for _, o := range claimants {
			if !seen[o.GetUID()] {
				seen[o.GetUID()] = true
				others = append(others, o)
			}
		}
	}
	return others, nil
}

// listLike lists the objects of the type of another one.
func listLike(ctx context.Context, r client.Reader, scheme *runtime.Scheme, like client.Object, opts ...client.ListOption) ([]client.Object, error) {
	gvk, err := apiutil.GVKForObject(like, scheme)
	if err != nil {
		return nil, fmt.Errorf("looking up %T: %w", like, err)
	}
	into, err := scheme.New(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err != nil {
		return nil, fmt.Errorf("looking up the list of %s: %w", gvk.Kind, err)
	}
	return list(ctx, r, into.(client.ObjectList), opts...)
}

// list returns the items of a list, which is empty before.
func list(ctx context.Context, r client.Reader, into client.ObjectList, opts ...client.ListOption) (all []client.Object, err error) {
	if err := r.List(ctx, into, opts...); err != nil {
		return nil, fmt.Errorf("listing %T: %w", into, err)
	}
	err = meta.EachListItem(into, func(item runtime.Object) error {
		all = append(all, item.(client.Object))
		return nil
	})
	return all, err
}
