package converge

import (
	"context"
	"fmt"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// claims finds the children of all namespaces that claim the same. Types are
// indexed when they are first read, because a cluster may begin to serve one later.
type claims struct {
	cache interface {
		client.Reader
		client.FieldIndexer
	}
	scheme *runtime.Scheme
	index  string
	of     func(client.Object) []string

	mu      sync.Mutex
	indexed map[reflect.Type]bool
}

// newClaims returns the claims of the children of a kind.
func newClaims(cache interface {
	client.Reader
	client.FieldIndexer
}, scheme *runtime.Scheme, kind string, of func(client.Object) []string,
) *claims {
	return &claims{cache: cache, scheme: scheme, index: "claims-of-" + kind, of: of, indexed: map[reflect.Type]bool{}}
}

// Claimants returns the other children of child's type, of all owners in all
// namespaces, that claim what it claims. Their changes do not trigger a reconcile.
func (r Reader) Claimants(ctx context.Context, child client.Object) ([]client.Object, error) {
	if r.claims == nil {
		return nil, nil
	}
	list, err := r.claims.prepare(ctx, child)
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

// prepare indexes the type of a child, and returns an empty list of it.
func (c *claims) prepare(ctx context.Context, child client.Object) (client.ObjectList, error) {
	gvk, err := apiutil.GVKForObject(child, c.scheme)
	if err != nil {
		return nil, err
	}
	list, err := c.scheme.New(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := reflect.TypeOf(child); !c.indexed[t] {
		if err := c.cache.IndexField(ctx, child, c.index, c.of); err != nil {
			return nil, fmt.Errorf("indexing %T: %w", child, err)
		}
		c.indexed[t] = true
	}
	return list.(client.ObjectList), nil
}
