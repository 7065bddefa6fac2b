package immortalcontainer

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	immortalv1alpha1 "github.com/platform-operator/platform-operator/apis/immortalcontainer/v1alpha1"
	"github.com/platform-operator/platform-operator/webhooks/blocks"
)

// Validate returns what is wrong with an ImmortalContainer beyond what schema
// and CEL rules refuse, each fault with its field and what would be right. It
// is pure.
func Validate(i *immortalv1alpha1.ImmortalContainer) field.ErrorList {
	spec := field.NewPath("spec")
	// The container has no ports, so none has a name.
	return append(blocks.Probes(i.Spec.Probes, nil, spec.Child("probes")), blocks.Pod(i.Spec.Pod, spec.Child("pod"))...)
}
