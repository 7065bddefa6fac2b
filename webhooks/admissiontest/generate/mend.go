package generate

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Mend removes the field of the spec that a validation error is about from an object: the one
// two levels below the spec, such as spec.pod.volumes, or else the one above it. It reports
// whether that was possible.
func Mend(obj map[string]any, field string) bool {
	path := strings.FieldsFunc(field, func(c rune) bool { return c == '.' || c == '[' || c == ']' })
	for _, depth := range []int{3, 2} {
		if depth > len(path) || path[0] != "spec" {
			continue
		}
		parent, ok, _ := unstructured.NestedFieldNoCopy(obj, path[:depth-1]...)
		fields, isObject := parent.(map[string]any)
		if _, there := fields[path[depth-1]]; ok && isObject && there && !slices.Contains([]string{"image", "size"}, path[depth-1]) {
			delete(fields, path[depth-1])
			return true
		}
	}
	return false
}
