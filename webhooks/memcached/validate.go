package memcached

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	cachev1alpha1 "github.com/platform-operator/platform-operator/apis/memcached/v1alpha1"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/webhooks/validate"
)

// warnUpdate warns about keys that return to a node: it still has the items from before they
// moved to another one.
func warnUpdate(old, m *cachev1alpha1.Memcached) []string {
	if m.Spec.Size >= old.Spec.Size || m.Spec.Size == 0 {
		return nil
	}
	return []string{"spec.size: with fewer nodes, clients find old values of keys that moved to other nodes when the cache grew, until these items expire. If it grew within that time, also change spec.rollout.restartedAt, which empties the nodes"}
}

// Validate returns the errors of a Memcached that the schema and its CEL rules
// cannot find. It is pure.
func Validate(m *cachev1alpha1.Memcached, _ config.Platform) field.ErrorList {
	spec := field.NewPath("spec")
	errs := validate.Pod(m.Spec.Pod, spec.Child("pod"))
	return append(errs, validate.Size(m.Spec, spec)...)
}
