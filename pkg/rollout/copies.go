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

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/references"
	"github.com/platform-operator/platform-operator/pkg/resources"
)

// Copy is a content that pods use, in a ConfigMap that cannot be changed and is
// named by what is in it. Pods that used the user's own would see its changes
// without a rollout, and an earlier revision would not find its content again.
type Copy struct {
	// Name is the ConfigMap's.
	Name string
	// Source is what it is a copy of, and of which version: what
	// references.Source says for naming.AnnotationSource. "" for what is a copy
	// of nothing.
	Source string
	// Data and BinaryData are the content.
	Data       map[string]string
	BinaryData map[string][]byte
}

// copyHash is how long the hash in the name of a copy is.
const copyHash = 16

// NewCopy is a copy named prefix-hash. kind and of go into the hash, so that
// objects of two kinds, and two sources of the same content, never want one
// ConfigMap: each says what it is a copy of.
func NewCopy(prefix, kind, of string, data map[string]string, binary map[string][]byte) Copy {
	h := sha256.New()
	part := func(s string) { fmt.Fprintf(h, "%d %s", len(s), s) } // a hash never fails to write
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
	return Copy{Name: prefix + "-" + hex.EncodeToString(h.Sum(nil))[:copyHash], Data: data, BinaryData: binary}
}

// Find returns a source that the spec names in a field. The error says that it
// does not exist or why it could not be read.
func Find(sources map[string]references.Source, field, name string) (references.Source, error) {
	switch s := sources[name]; {
	case s.Err != nil:
		return references.Source{}, s.Err
	case s.Found && s.Content != nil:
		return s, nil
	}
	return references.Source{}, fault.Stalled(common.ReasonReferenceNotFound, "%s: there is no ConfigMap %q in this namespace; create it, or name another", field, name)
}

// CopiesOf are whole copies of the ConfigMaps that are used, by the names of
// these. An optional one that is not there has none. The error tells of all
// that are missing, and of all that could not be read, optional or not.
func CopiesOf(prefix, kind string, uses []resources.Use, sources map[string]references.Source) (map[string]Copy, error) {
	all := map[string]Copy{}
	var errs []error
	told := map[string]bool{}
	for _, u := range uses {
		s, err := Find(sources, u.Field, u.Name)
		if err == nil {
			c := NewCopy(prefix, kind, u.Name, s.Content.Data, s.Content.BinaryData)
			c.Source = s.Whole()
			all[u.Name] = c
		} else if (!u.Optional || sources[u.Name].Err != nil) && !told[u.Name] {
			told[u.Name] = true
			errs = append(errs, err)
		}
	}
	return all, errors.Join(errs...)
}

// Intent is the copy as a child.
func (c Copy) Intent(namespace string, labels map[string]string) apply.Intent {
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

// Copies says which copies should be: of those that the spec asks for and of the
// live ones those that a revision which is kept refers to. The others are to go,
// but for what is not a copy. If nothing was decided, all stay. Apply them
// before the Deployment: a pod that does not find what it mounts waits for a
// minute or two.
func (d *Decision) Copies(asked []Copy, live []*corev1.ConfigMap, labels map[string]string) (stay []apply.Intent, prune []client.Object, err error) {
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
		// An earlier operator may have written another text around the same
		// inputs. The revision mounts that one for as long as the inputs stay.
		needed := used[c.Name] || len(d.Kept) == 0 || err != nil
		if needed && !fresh[c.Name] {
			fresh[c.Name] = true
			in := c.Intent(namespace, labels)
			in.Unmade = d.Keep.Unmade
			stay = append(stay, in)
		}
	}
	for _, cm := range slices.SortedFunc(slices.Values(live), func(a, b *corev1.ConfigMap) int { return cmp.Compare(a.Name, b.Name) }) {
		source := cm.Annotations[naming.AnnotationSource]
		switch {
		case fresh[cm.Name] || source == "" || cm.DeletionTimestamp != nil:
		case used[cm.Name] || len(d.Kept) == 0 || err != nil:
			stay = append(stay, Copy{Name: cm.Name, Source: source, Data: cm.Data, BinaryData: cm.BinaryData}.Intent(cm.Namespace, labels))
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
