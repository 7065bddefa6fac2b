package converge

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/pkg/apply"
)

// ApplyOrPrune adds the child to plan.Apply if it is wanted, and otherwise adds the
// live object, if any, to plan.Prune.
func ApplyOrPrune[L interface {
	comparable
	client.Object
}](plan *Plan, wanted bool, child func() apply.Intent, live L) {
	var none L
	switch {
	case wanted:
		plan.Apply = append(plan.Apply, child())
	case live != none:
		plan.Prune = append(plan.Prune, live)
	}
}
