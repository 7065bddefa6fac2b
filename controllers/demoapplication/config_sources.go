package demoapplication

import (
	"k8s.io/utils/ptr"

	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
	"github.com/platform-operator/platform-operator/pkg/configsource"
	"github.com/platform-operator/platform-operator/pkg/resources"
	"github.com/platform-operator/platform-operator/pkg/workload"
)

// follows reports whether the pods are replaced when the content of a ConfigMap or
// Secret that they use changes.
func follows(a *demoapplicationv1.DemoApplication) bool {
	return a.Spec.Rollout != nil && ptr.Deref(a.Spec.Rollout.RestartOnConfigChange, false)
}

// referenced returns the ConfigMaps whose content affects the pods.
func referenced(a *demoapplicationv1.DemoApplication) []configsource.Reference {
	if !follows(a) {
		return nil
	}
	var refs []configsource.Reference
	configMaps, _ := resources.Uses(options(a, nil))
	for _, name := range configsource.UsedNames(configMaps) {
		refs = append(refs, configsource.Reference{Name: name})
	}
	return refs
}

// secrets returns the Secrets whose content affects the pods.
func secrets(a *demoapplicationv1.DemoApplication) []configsource.Use {
	if !follows(a) {
		return nil
	}
	_, secrets := resources.Uses(options(a, nil))
	return secrets
}

// snapshots returns the snapshots that pods use instead of mutable ConfigMaps, by the
// name of the ConfigMap. The error lists all ConfigMaps that are missing.
func snapshots(a *demoapplicationv1.DemoApplication, o workload.Observed) (map[string]configsource.Snapshot, error) {
	if !follows(a) || o.Offline {
		return nil, nil
	}
	configMaps, _ := resources.Uses(options(a, nil))
	return configsource.SnapshotsOf(a.Name, demoapplicationv1.Kind, configMaps, o.Sources)
}
