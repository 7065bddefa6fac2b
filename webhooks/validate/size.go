package validate

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxSpec limits the size of a spec as JSON, in bytes. Children contain the spec
// again, as pod template and in the managed fields, and etcd limits objects to
// 1.5 MiB.
const maxSpec = 640 << 10

// Size rejects a spec that is too large for its children. The schema limits each
// value, but cannot limit their sum.
func Size(spec any, at *field.Path) field.ErrorList {
	if raw, err := json.Marshal(spec); err != nil || len(raw) <= maxSpec {
		return nil
	}
	return field.ErrorList{field.Forbidden(at, fmt.Sprintf("must have no more than %d KiB as JSON: move long values to a ConfigMap or a Secret", maxSpec>>10))}
}
