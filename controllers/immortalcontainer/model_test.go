package immortalcontainer

import (
	"time"

	immortalv1alpha1 "github.com/platform-operator/platform-operator/apis/immortalcontainer/v1alpha1"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/testkit/messages"
)

func desired(i *immortalv1alpha1.ImmortalContainer, o Observed, platform config.Platform) (converge.Plan, error) {
	return model{i, o, platform}.Plan()
}

func report(i *immortalv1alpha1.ImmortalContainer, o Observed, out converge.Outcome) {
	model{i, o, config.Default()}.UpdateStatus(out)
	if err := messages.CheckStatus(Kind(time.Now, config.Default()).MessageKinds(), i.Status.Conditions, nil); err != nil {
		panic(err) // it would not be in docs/conditions.md
	}
}
