package demoapplication

import (
	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/converge"
)

func desired(a *demoapplicationv1.DemoApplication, o Observed, platform config.Platform) (converge.Plan, error) {
	return newModel(a, o, platform).Plan()
}

func report(a *demoapplicationv1.DemoApplication, o Observed, out converge.Outcome, platform config.Platform) {
	newModel(a, o, platform).UpdateStatus(out)
}
