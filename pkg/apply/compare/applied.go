package compare

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// Applied returns a live object, which needs complete managed fields, as it would be after
// a forced apply. It lacks the defaults that the API server sets again.
func Applied(scheme *runtime.Scheme, live client.Object, config any, manager string) (client.Object, error) {
	stated, err := asJSON(config)
	if err != nil {
		return nil, err
	}
	patch := &unstructured.Unstructured{Object: stated}
	gvk := patch.GroupVersionKind()
	live = live.DeepCopyObject().(client.Object)
	live.GetObjectKind().SetGroupVersionKind(gvk)
	types := applyconfigurations.NewTypeConverter(scheme)
	if _, err := types.ObjectToTyped(live, typed.AllowDuplicates); err != nil { // not a type of Kubernetes
		types = managedfields.NewDeducedTypeConverter()
	}
	m, err := managedfields.NewDefaultFieldManager(types, scheme, scheme, scheme, gvk, gvk.GroupVersion(), "", nil)
	if err != nil {
		return nil, fmt.Errorf("preparing to apply a %s: %w", gvk.Kind, err)
	}
	next, err := m.Apply(live, patch, manager, true)
	if err != nil {
		return nil, fmt.Errorf("applying a %s: %w", gvk.Kind, err)
	}
	return next.(client.Object), nil
}

// Changes returns the fields in which a live object differs from the next one, which
// Applied returned, sorted by path.
func Changes(live, next client.Object) ([]Difference, error) {
	next.SetManagedFields(live.GetManagedFields())
	next.GetObjectKind().SetGroupVersionKind(live.GetObjectKind().GroupVersionKind())
	fields, err := asJSON(next)
	if err != nil {
		return nil, err
	}
	w := walk{all: true}
	return w.differences(live, fields), nil
}

// asJSON returns a value as decoded JSON.
func asJSON(v any) (map[string]any, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encoding %T: %w", v, err)
	}
	var fields map[string]any
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, fmt.Errorf("decoding %T: %w", v, err)
	}
	return fields, nil
}
