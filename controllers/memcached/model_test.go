package memcached

import (
	cachev1alpha1 "github.com/platform-operator/platform-operator/apis/memcached/v1alpha1"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/rollout"
	"github.com/platform-operator/platform-operator/pkg/testkit/messages"
	"github.com/platform-operator/platform-operator/pkg/workload"
)

type Observed = workload.Observed

func desired(m *cachev1alpha1.Memcached, o Observed, platform config.Platform) (converge.Plan, error) {
	return kind(platform).Model(m, o).Plan()
}

func report(m *cachev1alpha1.Memcached, o Observed, out converge.Outcome, platform config.Platform) {
	kind(platform).Model(m, o).UpdateStatus(out)
	if err := messages.CheckStatus(Kind(platform).MessageKinds(), m.Status.Conditions, m.Status.LastActions); err != nil {
		panic(err) // it would not be in docs/conditions.md
	}
}

func decide(m *cachev1alpha1.Memcached, o Observed, platform config.Platform) (rollout.Decision, error) {
	x := kind(platform).Model(m, o)
	return x.Decision, x.Err
}
