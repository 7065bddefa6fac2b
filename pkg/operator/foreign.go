package operator

import (
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/platform-operator/platform-operator/pkg/naming"
)

// foreign are types of which the caches hold everybody's. What others say there
// matters to ours; a namespace has few of them, and they are small.
func foreign() []client.Object { return []client.Object{&policyv1.PodDisruptionBudget{}} }

// indexForeign makes others' objects be found without a look at all of ours.
func indexForeign(mgr manager.Manager, children []client.Object) error {
	return index(mgr, children, foreign(), naming.IndexForeign, isForeign)
}

// isForeign is what naming.IndexForeign has of an object.
func isForeign(o client.Object) []string {
	if naming.IsChild(o) {
		return nil
	}
	return []string{naming.Foreign}
}
