package compare

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// Removed returns the fields that an apply would remove: the operator owns
// them, or would claim them first, the intent does not state them, and no other
// manager owns them. claims may be nil. stays, which may be nil, states fields that keep
// their value. live needs complete managed fields.
func Removed(live client.Object, stated map[string]any, claims Scope, stays any) ([]Difference, error) {
	ours, others, err := owners(live, claims)
	if err != nil {
		return nil, err
	}
	now, err := Decoded(live)
	if err != nil {
		return nil, err
	}
	left, err := Decoded(stays)
	if err != nil {
		return nil, err
	}
	var gone []Difference
	all := ours.Union(others)
	ours.Iterate(func(p fieldpath.Path) {
		v, there := at(now, p)
		_, isStated := at(stated, p)
		_, isLeft := at(left, p)
		if !there || isStated || isLeft || keepsValue(v, p) || heldBelow(others, p, true) || heldBelow(all, p, false) {
			return // decided by the fields below it, or nothing changes
		}
		top := 1 // the length of the topmost path that is not stated
		for top < len(p) {
			if _, ok := at(stated, p[:top]); !ok && !heldBelow(others, p[:top], true) {
				break
			}
			top++
		}
		gone = append(gone, Difference{Path: pathString(p[:top]), Verb: removed})
	})
	return gone, nil
}

// owners returns the fields that the operator owns or would claim, and those of other
// managers.
func owners(live client.Object, claims Scope) (ours, others *fieldpath.Set, err error) {
	ours, others = fieldpath.NewSet(), fieldpath.NewSet()
	for _, e := range live.GetManagedFields() {
		set, err := fieldsIn(e)
		switch {
		case err != nil:
			return nil, nil, err
		case set == nil:
		case IsOurs(e):
			ours = ours.Union(set)
		case claims == nil:
			others = others.Union(set)
		default:
			taken := inScope(e, set, claims)
			ours, others = ours.Union(taken), others.Union(set.Difference(taken))
		}
	}
	return ours, others, nil
}

// heldBelow reports whether a set holds a path below p, or p itself if at is
// true.
func heldBelow(s *fieldpath.Set, p fieldpath.Path, at bool) bool {
	if at && s.Has(p) {
		return true
	}
	for _, e := range p {
		s = s.WithPrefix(e)
	}
	return !s.Empty()
}

// at returns the value at a path of decoded JSON, and whether it exists.
func at(v any, p fieldpath.Path) (any, bool) {
	for _, e := range p {
		switch {
		case e.FieldName != nil:
			m, ok := v.(map[string]any)
			if !ok {
				return nil, false
			}
			if v, ok = m[*e.FieldName]; !ok {
				return nil, false
			}
		case e.Key != nil:
			l, _ := v.([]any)
			i := slices.IndexFunc(l, func(element any) bool { return hasKey(element, *e.Key) })
			if i < 0 {
				return nil, false
			}
			v = l[i]
		case e.Value != nil:
			l, _ := v.([]any)
			i := slices.IndexFunc(l, func(element any) bool { return sameScalar(element, (*e.Value).Unstructured()) })
			if i < 0 {
				return nil, false
			}
			v = l[i]
		default: // by position: such a list is owned as a whole
			return v, true
		}
	}
	return v, v != nil
}

func hasKey(element any, key value.FieldList) bool {
	m, ok := element.(map[string]any)
	if !ok {
		return false
	}
	for _, k := range key {
		have, there := m[k.Name]
		if !there {
			for _, second := range secondKey { // a key that is not set has the default
				if second.name == k.Name {
					have = second.unset
				}
			}
		}
		if !sameScalar(have, k.Value.Unstructured()) {
			return false
		}
	}
	return true
}

// keepsValue reports whether a field keeps its value if it is no longer stated.
func keepsValue(v any, p fieldpath.Path) bool {
	path := pathString(p)
	if path == "status" || strings.HasPrefix(path, "status.") {
		return true
	}
	if given, known := givenBy(path); known {
		return given == nil || sameScalar(v, given)
	}
	switch v := v.(type) {
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return v == nil
}

// Decoded returns a value as decoded JSON.
func Decoded(v any) (map[string]any, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encoding %T: %w", v, err)
	}
	var decoded map[string]any
	if err := json.Unmarshal(raw, &decoded); err != nil {
		return nil, fmt.Errorf("decoding %T: %w", v, err)
	}
	return decoded, nil
}
