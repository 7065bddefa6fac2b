package demoapplication

import (
	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
	"github.com/platform-operator/platform-operator/pkg/references"
	"github.com/platform-operator/platform-operator/pkg/resources"
	"github.com/platform-operator/platform-operator/pkg/rollout"
)

// follows tells whether the pods are replaced when a ConfigMap, or a Secret,
// changes that they use.
func follows(a *demoapplicationv1.DemoApplication) bool {
	r := a.Spec.Rollout
	return r != nil && r.RestartOnConfigChange != nil && *r.RestartOnConfigChange
}

// referenced are the ConfigMaps whose content matters.
func referenced(a *demoapplicationv1.DemoApplication) []references.Reference {
	if !follows(a) {
		return nil
	}
	var refs []references.Reference
	configMaps, _ := resources.Uses(options(a, nil))
	for _, name := range resources.Names(configMaps) {
		refs = append(refs, references.Reference{Name: name})
	}
	return refs
}

// secrets are the Secrets whose content matters.
func secrets(a *demoapplicationv1.DemoApplication) []resources.Use {
	if !follows(a) {
		return nil
	}
	_, secrets := resources.Uses(options(a, nil))
	return secrets
}

// copies are what the pods use in the place of ConfigMaps that can change, by
// the name of these. The error tells of all that are missing.
func copies(a *demoapplicationv1.DemoApplication, o Observed) (map[string]rollout.Copy, error) {
	if !follows(a) || !o.Cluster {
		return nil, nil
	}
	configMaps, _ := resources.Uses(options(a, nil))
	return rollout.CopiesOf(a.Name, demoapplicationv1.Kind, configMaps, o.Sources)
}
