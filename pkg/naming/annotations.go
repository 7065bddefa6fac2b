package naming

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// mostAnnotations is how long all annotations of an object, keys and values,
// may be: the 256 KiB that Kubernetes takes, without what the operator adds.
const mostAnnotations = 160 << 10

// Annotations returns what is wrong with all annotations together. Each for
// itself is bounded by the schema, which cannot add them up.
func Annotations[V ~string](path *field.Path, annotations map[string]V) field.ErrorList {
	total := 0
	for k, v := range annotations {
		total += len(k) + len(v)
	}
	if total > mostAnnotations {
		return field.ErrorList{field.TooLong(path, "", mostAnnotations)}
	}
	return nil
}
