package immortalcontainer

import (
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	immortalv1alpha1 "github.com/platform-operator/platform-operator/apis/immortalcontainer/v1alpha1"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

// Validate returns everything that is wrong with an ImmortalContainer, each
// fault with its field and what would be right. It is pure.
func Validate(i *immortalv1alpha1.ImmortalContainer) field.ErrorList {
	var errs field.ErrorList
	name := field.NewPath("metadata", "name")
	// The name is the value of the pod's label app, which is shorter and
	// stricter than a pod's name.
	for _, fault := range validation.IsValidLabelValue(i.Name) {
		errs = append(errs, field.Invalid(name, i.Name, fault))
	}
	spec := field.NewPath("spec")
	errs = append(errs, naming.Image(spec.Child("image"), i.Spec.Image)...)
	if p := i.Spec.Pod; p != nil {
		errs = append(errs, naming.Annotations(spec.Child("pod", "annotations"), p.Annotations)...)
	}
	return errs
}
