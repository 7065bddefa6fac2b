package operator

import (
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/platform-operator/platform-operator/pkg/naming"
)

// unownedTypes returns the types whose unowned objects are also in the caches,
// because they affect the operator's objects. A namespace contains few of them,
// and they are small.
func unownedTypes() []client.Object { return []client.Object{&policyv1.PodDisruptionBudget{}} }

// indexForeign indexes unowned objects, so that they are found without reading
// all owned ones.
func indexForeign(mgr manager.Manager, children []client.Object) error {
	return index(mgr, children, unownedTypes(), naming.IndexUnowned, isUnowned)
}

// isUnowned returns the value of naming.IndexUnowned for an object.
func isUnowned(o client.Object) []string {
	if naming.IsChild(o) {
		return nil
	}
	return []string{naming.Unowned}
}
