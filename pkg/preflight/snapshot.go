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

// snapshot is a client whose reads are answered from lists that were read
// once, as the operator's are from its caches. What is not listed is not
// there: it holds of children only those with our label.
//
// It is not safe for concurrent use.
type snapshot struct {
	client.Client
	namespaces []string
	types      map[schema.GroupVersionKind]*held
}

// held are the objects of one type.
type held struct {
	err   error // why it could not be read
	byKey map[client.ObjectKey]client.Object
	byNS  map[string][]client.Object
}

var ours = client.MatchingLabels{naming.LabelManagedBy: naming.ManagedBy}

// load lists one type, unless it is known already. An error is told once, by
// whoever asks first, and meets every later read.
func (s *snapshot) load(ctx context.Context, gvk schema.GroupVersionKind, opts ...client.ListOption) error {
	if _, known := s.types[gvk]; known {
		return nil
	}
	h := &held{byKey: map[client.ObjectKey]client.Object{}, byNS: map[string][]client.Object{}}
	s.types[gvk] = h
	for _, ns := range each(s.namespaces) {
		if err := s.list(ctx, gvk, ns, h, opts); err != nil {
			h.err = fmt.Errorf("listing %s: %w", plural(gvk), err)
			if meta.IsNoMatchError(err) && !s.served(gvk.GroupKind()) {
				return nil // the cluster does not know it, so there are none
			}
			return h.err
		}
	}
	return nil
}

func (s *snapshot) list(ctx context.Context, gvk schema.GroupVersionKind, ns string, h *held, opts []client.ListOption) error {
	pages := pager.New(pager.SimplePageFunc(func(o metav1.ListOptions) (runtime.Object, error) {
		empty, err := s.Scheme().New(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		if err != nil {
			return nil, err
		}
		list, ok := empty.(client.ObjectList)
		if !ok {
			return nil, fmt.Errorf("%T is not a list", empty)
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

// versions are what stands of the ConfigMaps and Secrets that objects refer to.
// They are users', so they have no label; only their metadata is listed, once
// for each type, and not before somebody asks.
type versions struct {
	client.Client
	namespaces []string
	all        map[schema.GroupVersionKind]map[client.ObjectKey]*metav1.PartialObjectMetadata
}

// Get reads the metadata of one object.
func (v *versions) Get(ctx context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	out, ok := into.(*metav1.PartialObjectMetadata)
	if !ok {
		return fmt.Errorf("%T is not metadata", into)
	}
	gvk := out.GroupVersionKind()
	if v.all[gvk] == nil {
		if err := v.list(ctx, gvk); err != nil {
			return err
		}
	}
	found, ok := v.all[gvk][key]
	if !ok {
		return apierrors.NewNotFound(schema.GroupResource{Group: gvk.Group, Resource: plural(gvk)}, key.Name)
	}
	found.DeepCopyInto(out)
	return nil
}

func (v *versions) list(ctx context.Context, gvk schema.GroupVersionKind) error {
	all := map[client.ObjectKey]*metav1.PartialObjectMetadata{}
	for _, ns := range each(v.namespaces) {
		pages := pager.New(pager.SimplePageFunc(func(o metav1.ListOptions) (runtime.Object, error) {
			list := &metav1.PartialObjectMetadataList{}
			list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
			return list, v.List(ctx, list, client.InNamespace(ns), client.Limit(o.Limit), client.Continue(o.Continue))
		}))
		err := pages.EachListItem(ctx, metav1.ListOptions{}, func(o runtime.Object) error {
			m, ok := o.(*metav1.PartialObjectMetadata)
			if !ok {
				return fmt.Errorf("%T is not metadata", o)
			}
			all[client.ObjectKeyFromObject(m)] = m
			return nil
		})
		if err != nil {
			return fmt.Errorf("listing the metadata of %s: %w", plural(gvk), err)
		}
	}
	if v.all == nil {
		v.all = map[schema.GroupVersionKind]map[client.ObjectKey]*metav1.PartialObjectMetadata{}
	}
	v.all[gvk] = all
	return nil
}

// each are the namespaces to list one by one; "" lists all.
func each(namespaces []string) []string {
	if len(namespaces) == 0 {
		return []string{metav1.NamespaceAll}
	}
	return namespaces
}

// served tells whether the cluster knows a kind in any version.
func (s *snapshot) served(gk schema.GroupKind) bool {
	known, err := s.RESTMapper().RESTMappings(gk)
	return err == nil && len(known) > 0
}

// of returns what is held of a type. One that nobody declared is listed when it
// is first asked for: a kind may look for what not every cluster knows.
func (s *snapshot) of(ctx context.Context, o runtime.Object) (schema.GroupVersionKind, *held, error) {
	gvk, err := apiutil.GVKForObject(o, s.Scheme())
	if err != nil {
		return gvk, nil, err
	}
	gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	if err := s.load(ctx, gvk, ours); err != nil {
		return gvk, nil, err
	}
	h := s.types[gvk]
	return gvk, h, h.err
}

// Get reads one object.
func (s *snapshot) Get(ctx context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	gvk, h, err := s.of(ctx, into)
	if err != nil {
		return err
	}
	found, ok := h.byKey[key]
	if !ok {
		return apierrors.NewNotFound(schema.GroupResource{Group: gvk.Group, Resource: plural(gvk)}, key.Name)
	}
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(found.DeepCopyObject()).Elem())
	return nil
}

// List lists objects by namespace, labels and the indexes of the caches.
func (s *snapshot) List(ctx context.Context, into client.ObjectList, opts ...client.ListOption) error {
	_, h, err := s.of(ctx, into)
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
		indexed, err := indexedAs(c, o.FieldSelector)
		if err != nil {
			return err
		}
		if indexed {
			found = append(found, c.DeepCopyObject())
		}
	}
	return meta.SetList(into, found)
}

// indexedAs answers for the indexes that the operator's caches have of
// children; see operator.New.
func indexedAs(o client.Object, by fields.Selector) (bool, error) {
	if by == nil || by.Empty() {
		return true, nil
	}
	if len(by.Requirements()) == 1 {
		if owner, ok := by.RequiresExactMatch(naming.IndexOwner); ok {
			return string(naming.OwnerUID(o)) == owner, nil
		}
		if _, ok := by.RequiresExactMatch(naming.IndexForeign); ok {
			return !naming.IsChild(o), nil
		}
	}
	return false, errors.New("there is no index for " + by.String())
}

// plural is a kind as kubectl names it.
func plural(gvk schema.GroupVersionKind) string {
	name, _ := meta.UnsafeGuessKindToResource(gvk)
	return name.GroupResource().String()
}
