package operator

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// mapper is a RESTMapper without some API groups. Kinds for which the operator
// has no permissions must not be watched: a forbidden watch would prevent the
// operator from starting.
type mapper struct {
	meta.RESTMapper
	without []string
}

// RESTMapping returns the mapping of a kind, or a NoKindMatchError if its group
// is omitted.
func (m mapper) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if slices.Contains(m.without, gk.Group) {
		return nil, &meta.NoKindMatchError{GroupKind: gk, SearchedVersions: versions}
	}
	return m.RESTMapper.RESTMapping(gk, versions...)
}
