package config

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/json"
)

// Defaults are parts of the spec that an object is created with if its author stated
// nothing in their place.
type Defaults struct {
	// Kinds are the names of the kinds. Empty means all.
	Kinds []string `json:"kinds,omitempty"`
	// Namespaces are the namespaces of the objects; "*" matches any sequence of
	// characters. Empty means all.
	Namespaces []string `json:"namespaces,omitempty"`
	// Spec is a part of the spec of the kinds.
	Spec Spec `json:"spec"`
}

// Spec is a part of a spec as JSON, whose integers are of type int64.
type Spec map[string]any

// UnmarshalJSON implements json.Unmarshaler.
func (s *Spec) UnmarshalJSON(raw []byte) error {
	return json.UnmarshalCaseSensitivePreserveInts(raw, (*map[string]any)(s)) //nolint:wrapcheck // the caller names the file
}

// Block is a part of a spec that is defaulted as a whole.
type Block struct {
	Path  []string
	Value any
}

// blocks returns the paths of the blocks. Fields of pod and service are blocks of their
// own, because they do not depend on each other.
func blocks() []string {
	return []string{"networkPolicy", "pod.labels", "podDisruptionBudget", "probes", "resources", "rollout", "security", "service.type"}
}

// Concerns reports whether the defaults are for a kind.
func (d Defaults) Concerns(kind string) bool {
	return len(d.Kinds) == 0 || slices.Contains(d.Kinds, kind)
}

// DefaultsOf returns the blocks for the objects of a kind in a namespace. The first
// entry that has a block is the one that counts.
func (p Platform) DefaultsOf(kind, namespace string) []Block {
	var all []Block
	for _, name := range blocks() {
		at := strings.Split(name, ".")
		for _, d := range p.Defaults {
			if !d.Concerns(kind) || len(d.Namespaces) > 0 && !anyMatches(d.Namespaces, namespace) {
				continue
			}
			if value, found, err := unstructured.NestedFieldNoCopy(d.Spec, at...); found && err == nil && value != nil {
				all = append(all, Block{at, value})
				break
			}
		}
	}
	return all
}

func (p Platform) validateDefaults(f *problems) {
	for i, d := range p.Defaults {
		f.match(fmt.Sprintf("defaults[%d].namespaces", i), d.Namespaces, namespacePattern, aNamespace)
		set := d.Spec.set()
		if len(set) == 0 {
			f.add("defaults[%d].spec is empty, must have one of %s", i, Joined(blocks()))
		}
		for _, name := range set {
			if !slices.Contains(blocks(), name) {
				f.add("defaults[%d].spec.%s cannot be a default: use %s", i, name, Joined(blocks()))
			}
		}
	}
}

// set returns the sorted paths of the values that are not null.
func (s Spec) set() []string {
	var all []string
	for name, value := range s {
		fields, isMap := value.(map[string]any)
		switch {
		case isMap && (name == "pod" || name == "service"):
			for field, value := range fields {
				if value != nil {
					all = append(all, name+"."+field)
				}
			}
		case value != nil:
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}
