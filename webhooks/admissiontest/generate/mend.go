package generate

import (
	"slices"
	"strconv"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Mend removes the field that a validation error is about from an object, or the
// innermost parent that its schema allows to omit. It reports whether that was
// possible.
func Mend(obj map[string]any, schema *apiextensionsv1.JSONSchemaProps, field string) bool {
	remove := cut(obj, schema, steps(field))
	if remove == nil {
		return false
	}
	remove()
	return true
}

// steps splits a path such as spec.env[2].name or spec.pod.labels[example.com/a].
func steps(field string) []string {
	var all []string
	word, inside := "", false
	add := func() {
		if word != "" {
			all = append(all, word)
		}
		word = ""
	}
	for _, c := range field {
		switch {
		case inside && c == ']', !inside && c == '.':
			add()
			inside = false
		case !inside && c == '[':
			add()
			inside = true
		default:
			word += string(c)
		}
	}
	add()
	return all
}

// cut returns a function that removes the innermost part of a path that can be
// removed, or nil if there is none.
func cut(at any, s *apiextensionsv1.JSONSchemaProps, path []string) func() {
	if len(path) == 0 || s == nil {
		return nil
	}
	obj, ok := at.(map[string]any)
	if !ok {
		return nil
	}
	name := path[0]
	below, there := obj[name]
	if !there {
		return nil
	}
	if s.AdditionalProperties != nil {
		if deeper := cut(below, s.AdditionalProperties.Schema, path[1:]); deeper != nil {
			return deeper
		}
		return func() { delete(obj, name) }
	}
	p := s.Properties[name]
	if list, ok := below.([]any); ok && len(path) > 1 && p.Items != nil {
		if i, err := strconv.Atoi(path[1]); err == nil && i < len(list) {
			if deeper := cut(list[i], p.Items.Schema, path[2:]); deeper != nil {
				return deeper
			}
			if p.MinItems == nil || len(list) > int(*p.MinItems) {
				return func() { obj[name] = slices.Delete(slices.Clone(list), i, i+1) }
			}
		}
	} else if deeper := cut(below, &p, path[1:]); deeper != nil {
		return deeper
	}
	if slices.Contains(s.Required, name) {
		return nil
	}
	return func() { delete(obj, name) }
}
