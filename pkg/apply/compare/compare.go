// Package compare compares live objects with the fields that an intent states. It
// sends no requests.
//
//	compare.go   the stated fields, and unstated content of exclusive paths
//	scalar.go    values that have no fields
//	managed.go   the managed fields: what the operator owns, and claims from others
//	applied.go   what an apply would change, by the code of the API server
package compare

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/platform-operator/platform-operator/pkg/hash"
)

// Difference is a field that an apply would change.
type Difference struct {
	// Path has the notation of kubectl explain, with list elements by their key:
	// "spec.template.spec.containers[web].image".
	Path string
	// Verb is "be added", "be removed" or "change".
	Verb string
	// Live is the live value of a field that Compare returned, or nil.
	Live any
}

// IsExtra reports that an exclusive path holds what is not stated. An apply removes it only
// if the operator owns it.
func (d Difference) IsExtra() bool { return d.Verb == removed }

const (
	added   = "be added"
	removed = "be removed"
	changed = "change"
)

// String returns a sentence as in status.pendingChanges.
func (d Difference) String() string { return d.Path + " would " + d.Verb }

// Compare returns the fields, sorted by path, in which a live object, a pointer to a struct,
// differs from what is stated, or holds something else in the exclusive paths
// (apply.Intent.Exclusive). It walks the typed live object in parallel with the stated JSON:
// converting the live object would cost several times as much, for every child in every
// reconcile.
//
// Lists are compared by the merge key in the Go type's patchMergeKey tag and by
// the second key in secondKey, as in the API server's schema, and in ordered ones the
// stated elements must be in the stated order. Lists without a merge key are compared
// element by element, in order. Quantities are compared
// by value: "1000m" equals "1".
func Compare(live any, stated map[string]any, exclusive []string) []Difference {
	w := walk{exclusive: exclusive}
	stated = maps.Clone(stated)
	// A typed object read from the cache has neither.
	delete(stated, "apiVersion")
	delete(stated, "kind")
	return w.differences(live, stated)
}

func (w *walk) differences(live any, stated map[string]any) []Difference {
	w.compare(reflect.ValueOf(live).Elem(), stated, "", field{})
	slices.SortFunc(w.found, func(a, b Difference) int { return strings.Compare(a.Path+a.Verb, b.Path+b.Verb) })
	return w.found
}

// Fingerprint identifies differences together with the live values. It is "" if there
// are none.
func Fingerprint(all []Difference) string {
	if len(all) == 0 {
		return ""
	}
	raw, err := json.Marshal(all)
	if err != nil {
		raw = []byte(err.Error()) // the values of API types can be encoded
	}
	return hash.Bytes("", raw)
}

// walk is one comparison.
type walk struct {
	all       bool // every path is exclusive
	exclusive []string
	found     []Difference
}

func (w *walk) report(path, verb string, live reflect.Value) {
	d := Difference{Path: path, Verb: verb}
	if live.IsValid() {
		d.Live = live.Interface()
	}
	w.found = append(w.found, d)
}

// compare reports what live lacks of stated, and unstated content of exclusive paths. Below
// a difference, exclusive paths may not be examined.
func (w *walk) compare(live reflect.Value, stated any, path string, f field) {
	for live.Kind() == reflect.Pointer || live.Kind() == reflect.Interface {
		if live.IsNil() {
			if stated != nil {
				w.report(path, added, reflect.Value{})
			}
			return
		}
		live = live.Elem()
	}
	if path != "" && (live.IsZero() || live.Kind() == reflect.Slice && live.Len() == 0) {
		// Report the topmost field that is not set, rather than those below it.
		var inner walk
		if inner.compareSet(live, stated, path, f); len(inner.found) > 0 {
			w.report(path, added, reflect.Value{})
		}
		return
	}
	w.compareSet(live, stated, path, f)
}

func (w *walk) compareSet(live reflect.Value, stated any, path string, f field) {
	switch s := stated.(type) {
	case nil:
		return
	case map[string]any:
		if live.Kind() == reflect.Map {
			w.compareMap(live, s, path)
			return
		}
		if live.Kind() == reflect.Struct && !isEncoded(live.Type()) {
			w.compareStruct(live, s, path)
			return
		}
	case []any:
		if live.Kind() == reflect.Slice {
			w.compareList(live, s, path, f)
			return
		}
	}
	if !coversScalar(live, stated) {
		w.report(path, changed, live)
	}
}

func (w *walk) compareMap(live reflect.Value, stated map[string]any, path string) {
	for k, s := range stated {
		v := live.MapIndex(reflect.ValueOf(k).Convert(live.Type().Key()))
		if !v.IsValid() {
			w.report(join(path, k), added, v)
			continue
		}
		w.compare(v, s, join(path, k), field{})
	}
	if !w.isExclusive(path) {
		return
	}
	for _, k := range live.MapKeys() {
		if _, isStated := stated[k.String()]; !isStated {
			w.report(join(path, k.String()), removed, live.MapIndex(k))
		}
	}
}

func (w *walk) compareStruct(live reflect.Value, stated map[string]any, path string) {
	fields := fieldsOf(live.Type())
	for k, s := range stated {
		f, known := fields[k]
		if !known { // a field newer than the Go types: let the API server decide
			w.report(join(path, k), changed, reflect.Value{})
			continue
		}
		w.compare(live.FieldByIndex(f.index), s, join(path, k), f)
	}
	if w.isExclusive(path) || oneOf[live.Type().Name()] {
		for k, f := range fields {
			w.reportUnstated(live, k, f, stated, path)
		}
		return
	}
	for _, e := range w.exclusive {
		if k, under := strings.CutPrefix(e, path); under {
			if f, known := fields[strings.TrimPrefix(k, ".")]; known {
				w.reportUnstated(live, strings.TrimPrefix(k, "."), f, stated, path)
			}
		}
	}
}

// oneOf are list elements that may have one of several fields. If a user replaced the stated
// one by another, an apply of the stated one would be refused, because both would be set.
var oneOf = map[string]bool{"EnvVar": true, "Volume": true}

// reportUnstated reports an unstated value in a field of an exclusive path.
func (w *walk) reportUnstated(live reflect.Value, name string, f field, stated map[string]any, path string) {
	if _, isStated := stated[name]; isStated {
		return // compare examines a stated field
	}
	if v := live.FieldByIndex(f.index); (!isEmpty(v) || oneOf[live.Type().Name()] && !v.IsZero()) && !isDefault(join(path, name), v) {
		w.report(join(path, name), removed, v)
	}
}

func (w *walk) compareList(live reflect.Value, stated []any, path string, f field) {
	switch {
	case f.mergeKey != "":
		w.compareElements(live, stated, path, f)
	case live.Len() != len(stated):
		w.report(path, changed, live)
	default:
		for i, s := range stated {
			w.compare(live.Index(i), s, element(path, i), field{})
		}
	}
}

// compareElements compares the elements of a list that have keys.
func (w *walk) compareElements(live reflect.Value, stated []any, path string, f field) {
	last, inOrder, found := -1, true, map[int]bool{}
	for _, s := range stated {
		m, _ := s.(map[string]any)
		at := element(path, m[f.mergeKey])
		i := findElement(live, m, f.mergeKey)
		if i < 0 {
			w.report(at, added, reflect.Value{})
			continue
		}
		found[i] = true
		inOrder, last = inOrder && i > last, i
		w.compare(reflect.Indirect(live.Index(i)), s, at, field{})
	}
	if f.ordered && !inOrder {
		w.report(path, changed, live)
	}
	if live.Len() == len(found) || !w.isExclusive(path) {
		return
	}
	// An element with another key is an addition even if the stated element is
	// missing: a port that was renumbered by hand still occupies the node port.
	for i := range live.Len() {
		if e := reflect.Indirect(live.Index(i)); !found[i] {
			key := fieldsOf(e.Type())[f.mergeKey]
			w.report(element(path, e.FieldByIndex(key.index).Interface()), removed, e)
		}
	}
}

// ordered are the lists with a merge key in which the order has a meaning: a variable can
// refer to the ones before it, and init containers run one after the other.
var ordered = map[string]bool{"env": true, "initContainers": true}

// secondKey completes merge keys, because the Go tag names only the first key
// of the API server's schema. A key that is not stated has the value in unset.
var secondKey = map[string]struct{ name, unset string }{
	"containerPort": {"protocol", "TCP"},
	"port":          {"protocol", "TCP"},
	"topologyKey":   {"whenUnsatisfiable", ""},
}

// findElement returns the index of the live element that the API server matches with the
// stated one, by the same keys, or -1.
func findElement(live reflect.Value, stated map[string]any, mergeKey string) int {
	for i := range live.Len() {
		e := reflect.Indirect(live.Index(i))
		fields := fieldsOf(e.Type())
		f, known := fields[mergeKey]
		if !known || !coversScalar(e.FieldByIndex(f.index), stated[mergeKey]) {
			continue
		}
		second, has := secondKey[mergeKey]
		if f, known = fields[second.name]; !has || !known {
			return i
		}
		want := stated[second.name]
		if want == nil {
			want = second.unset
		}
		if coversScalar(e.FieldByIndex(f.index), want) {
			return i
		}
	}
	return -1
}

// isExclusive reports whether a path is at or below an exclusive one, without a list in
// between, because the API server sets defaults in list elements.
func (w *walk) isExclusive(path string) bool {
	return w.all || slices.ContainsFunc(w.exclusive, func(e string) bool {
		rest, under := strings.CutPrefix(path, e)
		return under && (rest == "" || rest[0] == '.' && !strings.Contains(rest, "["))
	})
}

// field describes how a JSON name is accessed in a struct.
type field struct {
	index    []int
	mergeKey string
	ordered  bool // the order of the elements has a meaning
}

var knownFields sync.Map // reflect.Type -> map[string]field

// fieldsOf maps the JSON names of a struct to its fields, including inlined
// ones.
func fieldsOf(t reflect.Type) map[string]field {
	if m, ok := knownFields.Load(t); ok {
		return m.(map[string]field)
	}
	m := map[string]field{}
	for _, f := range reflect.VisibleFields(t) {
		name, parent := jsonName(f), len(f.Index)-1
		if _, shadowed := m[name]; shadowed || !f.IsExported() || name == "" || name == "-" ||
			parent > 0 && jsonName(t.FieldByIndex(f.Index[:parent])) != "" { // below another name
			continue
		}
		m[name] = field{index: f.Index, mergeKey: f.Tag.Get("patchMergeKey"), ordered: ordered[name]}
	}
	knownFields.Store(t, m)
	return m
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// element returns the path of a list element.
func element(path string, key any) string { return path + "[" + text(key) + "]" }

func cutLast(path string) (parent, name string) {
	i := strings.LastIndexByte(path, '.')
	if i < 0 {
		return "", path
	}
	return path[:i], path[i+1:]
}
