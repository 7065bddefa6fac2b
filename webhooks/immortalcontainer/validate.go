package immortalcontainer

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	immortalv1alpha1 "github.com/platform-operator/platform-operator/apis/immortalcontainer/v1alpha1"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/webhooks/validate"
)

// Validate returns the errors of an ImmortalContainer that the schema and its
// CEL rules cannot find. It is pure.
func Validate(i *immortalv1alpha1.ImmortalContainer, _ config.Platform) field.ErrorList {
	spec := field.NewPath("spec")
	// The container declares no ports, so a probe cannot refer to one by name.
	errs := validate.Probes(i.Spec.Probes, nil, spec.Child("probes"))
	errs = append(errs, validate.Pod(i.Spec.Pod, spec.Child("pod"))...)
	return append(errs, validate.Size(i.Spec, spec)...)
}
