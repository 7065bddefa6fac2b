package rollout

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/references"
	"github.com/platform-operator/platform-operator/pkg/resources"
)

// Snapshot is a snapshot of content that pods use: an immutable ConfigMap that is
// named by its content. If pods used the user's ConfigMap, changes would reach
// them without a rollout, and an earlier revision would no longer find its
// content.
type Snapshot struct {
	// Name is the name of the ConfigMap.
	Name string
	// Source identifies the ConfigMap, and its version, of which this is a
	// snapshot: the value of naming.AnnotationSource, as returned by
	// references.Source. It is "" if the content is from the spec.
	Source     string
	Data       map[string]string
	BinaryData map[string][]byte
}

// copyHash is the length of the hash in the name of a snapshot.
const copyHash = 16

// NewSnapshot returns a snapshot named prefix-hash. The hash includes kind and of,
// the name of the source, so that objects of two kinds, and two sources with
// the same content, never share a ConfigMap: each snapshot identifies its
// source.
func NewSnapshot(prefix, kind, of string, data map[string]string, binary map[string][]byte) Snapshot {
	h := sha256.New()
	part := func(s string) { fmt.Fprintf(h, "%d %s", len(s), s) } // writing to a hash never fails
	part(kind)
	part(of)
	for _, k := range slices.Sorted(maps.Keys(data)) {
		part(k)
		part(data[k])
	}
	part("binary")
	for _, k := range slices.Sorted(maps.Keys(binary)) {
		part(k)
		part(string(binary[k]))
	}
	return Snapshot{Name: prefix + "-" + hex.EncodeToString(h.Sum(nil))[:copyHash], Data: data, BinaryData: binary}
}

// Find returns the ConfigMap that a field of the spec refers to. The error
// reports that it does not exist, or why it could not be read.
func Find(sources map[string]references.Source, field, name string) (references.Source, error) {
	switch s := sources[name]; {
	case s.Err != nil:
		return references.Source{}, s.Err
	case s.Found && s.Content != nil:
		return s, nil
	}
	return references.Source{}, fault.Stalled(msgNoReference, "ConfigMap", name, field)
}

// SnapshotsOf returns snapshots of the complete ConfigMaps that are used, by the
// names of these. A missing optional ConfigMap has no snapshot. The error lists
// all required ConfigMaps that are missing and all ConfigMaps that could not be
// read, optional or not.
func SnapshotsOf(prefix, kind string, uses []resources.Use, sources map[string]references.Source) (map[string]Snapshot, error) {
	all := map[string]Snapshot{}
	var errs []error
	told := map[string]bool{}
	for _, u := range uses {
		s, err := Find(sources, u.Field, u.Name)
		if err == nil {
			c := NewSnapshot(prefix, kind, u.Name, s.Content.Data, s.Content.BinaryData)
			c.Source = s.Whole()
			all[u.Name] = c
		} else if (!u.Optional || sources[u.Name].Err != nil) && !told[u.Name] {
			told[u.Name] = true
			errs = append(errs, err)
		}
	}
	return all, errors.Join(errs...)
}

// Intent returns the intent to create the snapshot.
func (c Snapshot) Intent(namespace string, labels map[string]string) apply.Intent {
	ac := corev1ac.ConfigMap(c.Name, namespace).WithLabels(labels).WithImmutable(true)
	if c.Source != "" {
		ac.WithAnnotations(map[string]string{naming.AnnotationSource: c.Source})
	}
	if len(c.Data) > 0 {
		ac.WithData(c.Data)
	}
	if len(c.BinaryData) > 0 {
		ac.WithBinaryData(c.BinaryData)
	}
	return apply.New(ac, func() *corev1.ConfigMap { return &corev1.ConfigMap{} })
}

// Snapshots returns the snapshots that should exist: those of the spec, and the
// live ones that a kept revision refers to. prune contains the other live
// snapshots. ConfigMaps that are not snapshots are in neither. If nothing was
// decided, all are kept. Apply the snapshots before the Deployment, because a
// pod that does not find a mounted ConfigMap waits for a minute or two.
func (d *Decision) Snapshots(asked []Snapshot, live []*corev1.ConfigMap, labels map[string]string) (stay []apply.Intent, prune []client.Object, err error) {
	used := map[string]bool{}
	for _, r := range d.Kept {
		t, broken := r.Template()
		if broken != nil {
			err = broken
			continue
		}
		mentioned(t, used)
	}
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
		case fresh[cm.Name] || source == "" || cm.DeletionTimestamp != nil:
		case used[cm.Name] || len(d.Kept) == 0 || err != nil:
			stay = append(stay, Snapshot{Name: cm.Name, Source: source, Data: cm.Data, BinaryData: cm.BinaryData}.Intent(cm.Namespace, labels))
		default:
			prune = append(prune, cm)
		}
	}
	return stay, prune, err
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
