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

// Accompany declares that every other child of the plan accompanies the given
// one, such as the Deployment whose pods the other children serve. They are not
// written if the given one is unowned.
func (p *Plan) Accompany(main apply.Ref) {
	for i := range p.Apply {
		if in := &p.Apply[i]; in.Ref() != main {
			in.Accompanies = append(in.Accompanies, main)
		}
	}
}
