package preflight

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/pager"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/platform-operator/platform-operator/pkg/naming"
)

// snapshot is a client that answers reads from lists that were read once, as
// the operator reads from its caches. An object that is not in a list is not
// found: of the children, it holds only those with the operator's label. Of the users'
// ConfigMaps and Secrets that objects refer to, only the metadata is listed.
//
// It is not safe for concurrent use.
type snapshot struct {
	client.Client
	namespaces []string
	types      map[listed]*held
	indexes    map[string]client.IndexerFunc // those that the kinds declare
}

// listed identifies a list.
type listed struct {
	schema.GroupVersionKind
	metadata bool
}

// held are the objects of one type.
type held struct {
	gvk   schema.GroupVersionKind
	err   error // why it could not be read
	byKey map[client.ObjectKey]client.Object
	byNS  map[string][]client.Object
}

var ours = client.MatchingLabels{naming.LabelManagedBy: naming.ManagedBy}

// load lists one type, unless it was listed before. A failure is returned to
// the first caller only, and is the error of every later read of the type.
func (s *snapshot) load(ctx context.Context, of runtime.Object, opts ...client.ListOption) (*held, error) {
	gvk, err := apiutil.GVKForObject(of, s.Scheme())
	if err != nil {
		return nil, err
	}
	gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	_, metadata := of.(*metav1.PartialObjectMetadata)
	if h := s.types[listed{gvk, metadata}]; h != nil {
		return h, nil
	}
	h := &held{gvk: gvk, byKey: map[client.ObjectKey]client.Object{}, byNS: map[string][]client.Object{}}
	s.types[listed{gvk, metadata}] = h
	for _, ns := range each(s.namespaces) {
		if err := s.list(ctx, listed{gvk, metadata}, ns, h, opts); err != nil {
			h.err = fmt.Errorf("listing %s: %w", plural(gvk), err)
			if meta.IsNoMatchError(err) && !s.served(gvk.GroupKind()) {
				return h, nil // the API is not served, so there are no objects
			}
			return h, h.err
		}
	}
	return h, nil
}

func (s *snapshot) list(ctx context.Context, of listed, ns string, h *held, opts []client.ListOption) error {
	gvk := of.GroupVersion().WithKind(of.Kind + "List")
	pages := pager.New(pager.SimplePageFunc(func(o metav1.ListOptions) (runtime.Object, error) {
		partial := &metav1.PartialObjectMetadataList{}
		partial.SetGroupVersionKind(gvk)
		list := client.ObjectList(partial)
		if !of.metadata {
			empty, err := s.Scheme().New(gvk)
			if err != nil {
				return nil, err
			}
			list = empty.(client.ObjectList)
		}
		return list, s.Client.List(ctx, list, append([]client.ListOption{client.InNamespace(ns), client.Limit(o.Limit), client.Continue(o.Continue)}, opts...)...)
	}))
	return pages.EachListItem(ctx, metav1.ListOptions{}, func(o runtime.Object) error {
		obj, ok := o.(client.Object)
		if !ok {
			return fmt.Errorf("%T is not an object", o)
		}
		key := client.ObjectKeyFromObject(obj)
		if _, twice := h.byKey[key]; twice {
			return nil
		}
		h.byKey[key] = obj
		h.byNS[key.Namespace] = append(h.byNS[key.Namespace], obj)
		return nil
	})
}

// each returns the namespaces to list one by one, or "" for all.
func each(namespaces []string) []string {
	if len(namespaces) == 0 {
		return []string{metav1.NamespaceAll}
	}
	return namespaces
}

// served reports whether the cluster serves a kind in any version.
func (s *snapshot) served(gk schema.GroupKind) bool {
	known, err := s.RESTMapper().RESTMappings(gk)
	return err == nil && len(known) > 0
}

// of returns the objects of a type. A type that no kind declares is listed when
// it is first read, because a kind may read types that not every cluster
// serves.
func (s *snapshot) of(ctx context.Context, o runtime.Object) (*held, error) {
	opts := []client.ListOption{ours}
	if _, metadata := o.(*metav1.PartialObjectMetadata); metadata {
		opts = nil
	}
	h, err := s.load(ctx, o, opts...)
	if err != nil {
		return nil, err
	}
	return h, h.err
}

// Get reads one object.
func (s *snapshot) Get(ctx context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	h, err := s.of(ctx, into)
	if err != nil {
		return err
	}
	found, ok := h.byKey[key]
	if !ok {
		return apierrors.NewNotFound(schema.GroupResource{Group: h.gvk.Group, Resource: plural(h.gvk)}, key.Name)
	}
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(found.DeepCopyObject()).Elem())
	return nil
}

// List lists objects by namespace, labels and the indexes of the caches.
func (s *snapshot) List(ctx context.Context, into client.ObjectList, opts ...client.ListOption) error {
	h, err := s.of(ctx, into)
	if err != nil {
		return err
	}
	var o client.ListOptions
	o.ApplyOptions(opts)
	candidates := h.byNS[o.Namespace]
	if o.Namespace == "" {
		candidates = slices.Collect(maps.Values(h.byKey))
	}
	var found []runtime.Object
	for _, c := range candidates {
		if o.LabelSelector != nil && !o.LabelSelector.Matches(labels.Set(c.GetLabels())) {
			continue
		}
		indexed, err := s.isIndexedAs(c, o.FieldSelector)
		if err != nil {
			return err
		}
		if indexed {
			found = append(found, c.DeepCopyObject())
		}
	}
	return meta.SetList(into, found)
}

// isIndexedAs reports whether an object matches a field selector for an index
// that the operator's caches of children have; see operator.New.
func (s *snapshot) isIndexedAs(o client.Object, by fields.Selector) (bool, error) {
	if by == nil || by.Empty() {
		return true, nil
	}
	if len(by.Requirements()) == 1 {
		if owner, ok := by.RequiresExactMatch(naming.IndexOwner); ok {
			return string(naming.OwnerUID(o)) == owner, nil
		}
		if _, ok := by.RequiresExactMatch(naming.IndexUnowned); ok {
			return !naming.IsChild(o), nil
		}
		for name, values := range s.indexes {
			if want, ok := by.RequiresExactMatch(name); ok {
				return slices.Contains(values(o), want), nil
			}
		}
	}
	return false, errors.New("there is no index for " + by.String())
}

// plural returns the resource name of a kind, as kubectl prints it.
func plural(gvk schema.GroupVersionKind) string {
	name, _ := meta.UnsafeGuessKindToResource(gvk)
	return name.GroupResource().String()
}
