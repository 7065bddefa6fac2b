package memcached

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	cachev1alpha1 "github.com/platform-operator/platform-operator/apis/memcached/v1alpha1"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/webhooks/validate"
)

// Validate returns the errors of a Memcached that the schema and its CEL rules
// cannot find. It is pure.
func Validate(m *cachev1alpha1.Memcached, _ config.Platform) field.ErrorList {
	spec := field.NewPath("spec")
	errs := validate.Pod(m.Spec.Pod, spec.Child("pod"))
	return append(errs, validate.Size(m.Spec, spec)...)
}
