package rollout

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/configsource"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

// Snapshots returns the snapshots that should exist: those of the spec, and the
// live ones that a kept revision refers to. prune contains the other live
// snapshots. ConfigMaps that are not snapshots are in neither, such as one that a
// user copied from a snapshot. If nothing was
// decided, all are kept. Apply the snapshots before the Deployment, because a
// pod that does not find a mounted ConfigMap waits for a minute or two.
func (d *Decision) Snapshots(asked []configsource.Snapshot, live []*corev1.ConfigMap, labels map[string]string) (stay []apply.Intent, prune []client.Object, err error) {
	used, err := d.used()
	fresh := map[string]bool{}
	namespace := d.question.Namespace
	for _, c := range asked {
		// An earlier version of the operator may have generated other content
		// from the same inputs. The revision mounts that content until the
		// inputs change.
		needed := used[c.Name] || len(d.Kept) == 0 || err != nil
		if needed && !fresh[c.Name] {
			fresh[c.Name] = true
			in := c.Intent(namespace, labels)
			in.NeverCreated = d.Keep.NeverCreated
			stay = append(stay, in)
		}
	}
	for _, cm := range slices.SortedFunc(slices.Values(live), func(a, b *corev1.ConfigMap) int { return cmp.Compare(a.Name, b.Name) }) {
		source := cm.Annotations[naming.AnnotationSource]
		switch {
		case fresh[cm.Name] || source == "" || !configsource.IsSnapshotName(d.question.Name, cm.Name) || cm.DeletionTimestamp != nil:
		case used[cm.Name] || len(d.Kept) == 0 || err != nil:
			stay = append(stay, configsource.Snapshot{Name: cm.Name, Source: source, Data: cm.Data, BinaryData: cm.BinaryData}.Intent(cm.Namespace, labels))
		default:
			prune = append(prune, cm)
		}
	}
	return stay, prune, err
}

// used returns the names of the ConfigMaps that a template refers to which is used, or
// may be. The error says that not all of them are known.
func (d *Decision) used() (names map[string]bool, err error) {
	names = map[string]bool{}
	mentioned(d.upcoming, names)
	for _, r := range d.Kept {
		t, broken := r.Template()
		if broken != nil {
			err = broken
			continue
		}
		mentioned(t, names)
	}
	mentioned(d.Template, names)
	return names, err
}

// mentioned adds the names of all ConfigMaps that a template refers to.
func mentioned(t *corev1ac.PodTemplateSpecApplyConfiguration, names map[string]bool) {
	if t == nil || t.Spec == nil {
		return
	}
	add := func(name *string) {
		if name != nil {
			names[*name] = true
		}
	}
	for _, c := range slices.Concat(t.Spec.InitContainers, t.Spec.Containers) {
		for _, e := range c.Env {
			if e.ValueFrom != nil && e.ValueFrom.ConfigMapKeyRef != nil {
				add(e.ValueFrom.ConfigMapKeyRef.Name)
			}
		}
		for _, e := range c.EnvFrom {
			if e.ConfigMapRef != nil {
				add(e.ConfigMapRef.Name)
			}
		}
	}
	for _, v := range t.Spec.Volumes {
		if v.ConfigMap != nil {
			add(v.ConfigMap.Name)
		}
		if v.Projected == nil {
			continue
		}
		for _, s := range v.Projected.Sources {
			if s.ConfigMap != nil {
				add(s.ConfigMap.Name)
			}
		}
	}
}
