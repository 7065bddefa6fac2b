package operator

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// mapper knows what the cluster knows, without some API groups. What the
// operator has no right to must not be asked for: a watch that is refused would
// keep it from starting.
type mapper struct {
	meta.RESTMapper
	without []string
}

// RESTMapping returns how a kind is served.
func (m mapper) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if slices.Contains(m.without, gk.Group) {
		return nil, &meta.NoKindMatchError{GroupKind: gk, SearchedVersions: versions}
	}
	return m.RESTMapper.RESTMapping(gk, versions...)
}
