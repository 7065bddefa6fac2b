package demoapplication

import (
	"errors"
	"fmt"

	"github.com/platform-operator/platform-operator/apis/common"
	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/references"
	"github.com/platform-operator/platform-operator/pkg/rollout"
	"github.com/platform-operator/platform-operator/pkg/workload"
)

// follows tells whether the pods are replaced when a ConfigMap changes that
// they use.
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
	for _, name := range workload.ConfigMaps(options(a, nil)) {
		refs = append(refs, references.Reference{Name: name})
	}
	return refs
}

// copies are what the pods use in the place of ConfigMaps that can change, by
// the name of these. An optional one that is not there has none. The error
// tells of all that are missing.
func copies(a *demoapplicationv1.DemoApplication, o Observed) (map[string]rollout.Copy, error) {
	if !follows(a) || !o.Cluster {
		return nil, nil
	}
	all := map[string]rollout.Copy{}
	var errs []error
	told := map[string]bool{}
	for _, u := range uses(a) {
		s := o.Sources[u.name]
		if s.Found && s.Content != nil {
			c := rollout.NewCopy(a.Name, demoapplicationv1.Kind, u.name, s.Content.Data, s.Content.BinaryData)
			c.Source = s.Whole()
			all[u.name] = c
			continue
		}
		if !u.optional && !told[u.name] {
			told[u.name] = true
			errs = append(errs, fault.Stalled(common.ReasonReferenceNotFound,
				"%s: there is no ConfigMap %q in this namespace; create it, or name another", u.field, u.name))
		}
	}
	return all, errors.Join(errs...)
}

// use is a place of the spec that names a ConfigMap.
type use struct {
	field, name string
	optional    bool
}

func uses(a *demoapplicationv1.DemoApplication) []use {
	var all []use
	add := func(field, name string, optional *bool) {
		all = append(all, use{field, name, optional != nil && *optional})
	}
	for _, e := range a.Spec.Env {
		if e.ValueFrom != nil && e.ValueFrom.ConfigMapKeyRef != nil {
			add("spec.env["+e.Name+"]", e.ValueFrom.ConfigMapKeyRef.Name, e.ValueFrom.ConfigMapKeyRef.Optional)
		}
	}
	for i, e := range a.Spec.EnvFrom {
		if e.ConfigMapRef != nil {
			add(fmt.Sprintf("spec.envFrom[%d]", i), e.ConfigMapRef.Name, e.ConfigMapRef.Optional)
		}
	}
	if a.Spec.Pod == nil {
		return all
	}
	for _, v := range a.Spec.Pod.Volumes {
		if v.ConfigMap != nil {
			add("spec.pod.volumes["+v.Name+"]", v.ConfigMap.Name, v.ConfigMap.Optional)
		}
		if v.Projected == nil {
			continue
		}
		for _, s := range v.Projected.Sources {
			if s.ConfigMap != nil {
				add("spec.pod.volumes["+v.Name+"]", s.ConfigMap.Name, s.ConfigMap.Optional)
			}
		}
	}
	return all
}
