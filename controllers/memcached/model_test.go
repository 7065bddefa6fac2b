package memcached

import (
	cachev1alpha1 "github.com/platform-operator/platform-operator/apis/memcached/v1alpha1"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/converge"
)

func desired(m *cachev1alpha1.Memcached, o Observed, platform config.Platform) (converge.Plan, error) {
	return newModel(m, o, platform).Plan()
}

func report(m *cachev1alpha1.Memcached, o Observed, out converge.Outcome, platform config.Platform) {
	newModel(m, o, platform).UpdateStatus(out)
}
