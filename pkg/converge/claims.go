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
	list, err := emptyList(child, r.claims.scheme)
	if err != nil {
		return nil, err
	}
	var others []client.Object
	seen := map[types.UID]bool{child.GetUID(): true}
	for _, claim := range r.claims.of(child) {
		if err := r.claims.cache.List(ctx, list, client.MatchingFields{r.claims.index: claim}); err != nil {
			return nil, fmt.Errorf("listing who claims %s: %w", claim, err)
		}
		err := meta.EachListItem(list, func(item runtime.Object) error {
			if o := item.(client.Object); !seen[o.GetUID()] {
				seen[o.GetUID()] = true
				others = append(others, o)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return others, nil
}

// emptyList returns an empty list of the type of an object.
func emptyList(of client.Object, scheme *runtime.Scheme) (client.ObjectList, error) {
	gvk, err := apiutil.GVKForObject(of, scheme)
	if err != nil {
		return nil, fmt.Errorf("looking up %T: %w", of, err)
	}
	list, err := scheme.New(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err != nil {
		return nil, fmt.Errorf("looking up the list of %s: %w", gvk.Kind, err)
	}
	return list.(client.ObjectList), nil
}
