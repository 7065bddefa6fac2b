package configsource

import (
	"maps"
	"slices"
)

// Use is a field of the spec that refers to a ConfigMap or a Secret.
type Use struct {
	// Field is the path of the field, such as "spec.pod.volumes[site]".
	Field string
	// Name is the name of the ConfigMap or Secret.
	Name string
	// Optional reports whether the pods can run without it.
	Optional bool
}

// UsedNames returns the names of the objects that are used, sorted and without
// duplicates.
func UsedNames(uses []Use) []string {
	names := map[string]bool{}
	for _, u := range uses {
		names[u.Name] = true
	}
	return slices.Sorted(maps.Keys(names))
}
