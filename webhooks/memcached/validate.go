package memcached

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	cachev1alpha1 "github.com/platform-operator/platform-operator/apis/memcached/v1alpha1"
	"github.com/platform-operator/platform-operator/webhooks/blocks"
)

// Validate returns what is wrong with a Memcached beyond what schema and CEL
// rules refuse, each fault with its field and what would be right. It is pure.
func Validate(m *cachev1alpha1.Memcached) field.ErrorList {
	return blocks.Size(m.Spec, field.NewPath("spec"))
}
