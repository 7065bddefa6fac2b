package revision

import (
	"cmp"
	"encoding/json"
	"maps"
	"reflect"
	"slices"

	"github.com/platform-operator/platform-operator/pkg/naming"
)

// Difference is a field in which two pod templates differ.
type Difference struct {
	// Path is the path of the field, such as "spec.containers[web].image".
	Path string
	// From and To are the decoded JSON values of the field, or nil if it is unset.
	From, To any
}

// Differences returns the fields in which two pod templates differ, sorted. It
// ignores the annotation that contains the template's own hash.
func Differences(from, to any) []Difference {
	var all []Difference
	walk("", Plain(from), Plain(to), &all)
	slices.SortFunc(all, func(a, b Difference) int { return cmp.Compare(a.Path, b.Path) })
	return all
}

// Plain returns a pod template as decoded JSON, without the annotation that contains its hash.
func Plain(template any) any {
	raw, err := json.Marshal(template)
	if err != nil {
		return nil // it has been encoded before, for its hash
	}
	var d map[string]any
	if json.Unmarshal(raw, &d) != nil {
		return nil
	}
	if m, ok := d["metadata"].(map[string]any); ok {
		if an, ok := m["annotations"].(map[string]any); ok {
			delete(an, naming.AnnotationTemplate)
			if len(an) == 0 {
				delete(m, "annotations")
			}
		}
	}
	return d
}

func walk(path string, a, b any, all *[]Difference) {
	if reflect.DeepEqual(a, b) {
		return
	}
	am, aok := a.(map[string]any)
	bm, bok := b.(map[string]any)
	if aok && bok {
		keys := slices.Sorted(maps.Keys(am))
		for k := range bm {
			if _, known := am[k]; !known {
				keys = append(keys, k)
			}
		}
		for _, k := range keys {
			at := k
			if path != "" {
				at = path + "." + k
			}
			walk(at, am[k], bm[k], all)
		}
		return
	}
	al, aok := byName(a)
	bl, bok := byName(b)
	if aok && bok {
		names := slices.Collect(maps.Keys(al))
		for n := range bl {
			if _, known := al[n]; !known {
				names = append(names, n)
			}
		}
		for _, n := range names {
			walk(path+"["+n+"]", al[n], bl[n], all)
		}
		return
	}
	*all = append(*all, Difference{path, a, b})
}

// byName returns the elements of a list by their names, if all have a name.
func byName(v any) (map[string]any, bool) {
	l, ok := v.([]any)
	if !ok {
		return nil, false
	}
	named := map[string]any{}
	for _, e := range l {
		m, _ := e.(map[string]any)
		n, ok := m["name"].(string)
		if !ok {
			return nil, false
		}
		named[n] = e
	}
	return named, true
}
