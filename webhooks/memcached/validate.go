package memcached

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	cachev1alpha1 "github.com/platform-operator/platform-operator/apis/memcached/v1alpha1"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

const (
	maxName = 63 // of a Service
	maxSize = 64
	mib     = 1 << 20
)

var (
	minMemory = resource.MustParse("2Mi")
	maxMemory = resource.MustParse("1Ti")
)

// Validate returns everything that is wrong with a Memcached, each fault with
// its field and what would be right. It is pure.
func Validate(m *cachev1alpha1.Memcached) field.ErrorList {
	var errs field.ErrorList
	name := field.NewPath("metadata", "name")
	if len(m.Name) > maxName {
		errs = append(errs, field.TooLong(name, "", maxName))
	} else {
		for _, fault := range naming.DNS1035(m.Name) {
			errs = append(errs, field.Invalid(name, m.Name, fault))
		}
	}
	spec := field.NewPath("spec")
	if n := m.Spec.Size; n < 0 || n > maxSize {
		errs = append(errs, field.Invalid(spec.Child("size"), n, fmt.Sprintf("must be between 0 and %d", maxSize)))
	}
	if i := m.Spec.Image; i != "" {
		errs = append(errs, naming.Image(spec.Child("image"), i)...)
	}
	if s := m.Spec.Memory; s != nil && s.Size != nil {
		path := spec.Child("memory", "size")
		if s.Size.Cmp(minMemory) < 0 || s.Size.Cmp(maxMemory) > 0 {
			errs = append(errs, field.Invalid(path, s.Size.String(), fmt.Sprintf("must be between %s and %s", minMemory.String(), maxMemory.String())))
		}
		if n, whole := s.Size.AsInt64(); !whole || n%mib != 0 {
			errs = append(errs, field.Invalid(path, s.Size.String(), "must be whole MiB, such as 64Mi or 1Gi"))
		}
	}
	if p := m.Spec.Pod; p != nil {
		errs = append(errs, naming.Annotations(spec.Child("pod", "annotations"), p.Annotations)...)
	}
	if s := m.Spec.Service; s != nil {
		errs = append(errs, naming.Annotations(spec.Child("service", "annotations"), s.Annotations)...)
	}
	errs = append(errs, between(spec.Child("maxConnections"), m.Spec.MaxConnections, 65536)...)
	return append(errs, between(spec.Child("threads"), m.Spec.Threads, 64)...)
}

func between(path *field.Path, n *int32, most int32) field.ErrorList {
	if n == nil || *n >= 1 && *n <= most {
		return nil
	}
	return field.ErrorList{field.Invalid(path, *n, fmt.Sprintf("must be between 1 and %d", most))}
}
