package demoapplication

import (
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/rollout"
	"github.com/platform-operator/platform-operator/pkg/testkit/messages"
	"github.com/platform-operator/platform-operator/pkg/workload"
)

type Observed = workload.Observed

func desired(a *demoapplicationv1.DemoApplication, o Observed, platform config.Platform) (converge.Plan, error) {
	return kind(platform).Model(a, o).Plan()
}

func report(a *demoapplicationv1.DemoApplication, o Observed, out converge.Outcome, platform config.Platform) {
	kind(platform).Model(a, o).UpdateStatus(out)
	if err := messages.CheckStatus(Kind(platform).MessageKinds(), a.Status.Conditions, a.Status.LastActions); err != nil {
		panic(err) // it would not be in docs/conditions.md
	}
}

func decide(a *demoapplicationv1.DemoApplication, o Observed, platform config.Platform) (rollout.Decision, error) {
	m := kind(platform).Model(a, o)
	return m.Decision, m.Err
}

func deployment(a *demoapplicationv1.DemoApplication, o Observed, template *corev1ac.PodTemplateSpecApplyConfiguration) apply.Intent {
	return kind(platform).Model(a, o).Deployment(template, a.Spec.Rollout.Shared())
}
