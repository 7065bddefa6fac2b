package configsource

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/naming"
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
	// Source.Whole or Source.Part. It is "" if the content is from the spec.
	Source     string
	Data       map[string]string
	BinaryData map[string][]byte
}

// hashLength is the length of the hash in the name of a snapshot.
const hashLength = 16

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
	return Snapshot{Name: prefix + "-" + hex.EncodeToString(h.Sum(nil))[:hashLength], Data: data, BinaryData: binary}
}

// IsSnapshotName reports whether the name of a ConfigMap has the form that
// NewSnapshot generates for the object of that name.
func IsSnapshotName(object, name string) bool {
	i := strings.LastIndexByte(name, '-')
	return i > 0 && strings.HasPrefix(name, object+"-") && len(name)-i-1 == hashLength &&
		strings.Trim(name[i+1:], "0123456789abcdef") == ""
}

// Find returns the ConfigMap that a field of the spec refers to. The error
// reports that it does not exist, or why it could not be read.
func Find(sources map[string]Source, field, name string) (Source, error) {
	switch s := sources[name]; {
	case s.Err != nil:
		return Source{}, s.Err
	case s.Found && s.Content != nil:
		return s, nil
	}
	return Source{}, fault.Stalled(msgNoReference, "ConfigMap", name, field)
}

// SnapshotsOf returns snapshots of the complete ConfigMaps that are used, by the
// names of these. A missing optional ConfigMap has no snapshot. The error lists
// all required ConfigMaps that are missing and all ConfigMaps that could not be
// read, optional or not.
func SnapshotsOf(prefix, kind string, uses []Use, sources map[string]Source) (map[string]Snapshot, error) {
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

// Sizes returns the numbers of bytes in ConfigMaps, by their names.
func Sizes(all []*corev1.ConfigMap) map[string]int64 {
	sizes := make(map[string]int64, len(all))
	for _, cm := range all {
		sizes[cm.Name] = int64(contentSize(cm))
	}
	return sizes
}

// contentSize returns the number of bytes in a ConfigMap.
func contentSize(cm *corev1.ConfigMap) int {
	size := 0
	for k, v := range cm.Data {
		size += len(k) + len(v)
	}
	for k, v := range cm.BinaryData {
		size += len(k) + len(v)
	}
	return size
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
