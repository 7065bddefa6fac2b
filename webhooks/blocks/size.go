package blocks

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxSpec is the most bytes that a spec may have as JSON. A revision holds it
// twice, as it is and as what pods are made from, and an object of Kubernetes
// has at most 1.5 MiB.
const maxSpec = 640 << 10

// Size refuses a spec of which no revision could be kept. Each value for itself
// is bounded by the schema, which cannot add up all of them.
func Size(spec any, at *field.Path) field.ErrorList {
	if raw, err := json.Marshal(spec); err != nil || len(raw) <= maxSpec {
		return nil
	}
	return field.ErrorList{field.Forbidden(at, fmt.Sprintf("must have no more than %d KiB as JSON: put long values into a ConfigMap or a Secret", maxSpec>>10))}
}
