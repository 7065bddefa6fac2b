// Package compare compares live objects with the fields that an intent states. It
// sends no requests.
//
//	compare.go   the stated fields, and unstated content of exclusive paths
//	scalar.go    values that have no fields
//	managed.go   the managed fields: what the operator owns, and claims from others
//	removed.go   what an apply would remove
package compare

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/platform-operator/platform-operator/pkg/hash"
)

// Result is the result of a comparison. The two kinds of differences are
// repaired in different ways.
type Result struct {
	Lacks bool // a stated field is absent or different
	Extra bool // an exclusive path holds a field that is not stated
}

// Difference is a field that an apply would change.
type Difference struct {
	// Path has the notation of kubectl explain, with list elements by their key:
	// "spec.template.spec.containers[web].image".
	Path string
	// Verb is "be added", "be removed" or "change".
	Verb string
	// Live is the live value of a field that Differences returned, or nil.
	Live any
}

const (
	added   = "be added"
	removed = "be removed"
	changed = "change"
)

// String returns a sentence as in status.pendingChanges.
func (d Difference) String() string { return d.Path + " would " + d.Verb }

// Compare reports whether a live object, a pointer to a struct, holds everything that is
// stated, and nothing else in the exclusive paths (apply.Intent.Exclusive). It walks the
// typed live object in parallel with the stated JSON: converting the live object would
// cost several times as much, for every child in every reconcile.
//
// Lists are compared by the merge key in the Go type's patchMergeKey tag and by
// the second key in secondKey, as in the API server's schema, and in ordered ones the
// stated elements must be in the stated order. Lists without a merge key are compared
// element by element, in order. Quantities are compared
// by value: "1000m" equals "1".
func Compare(live any, stated map[string]any, exclusive []string) Result {
	w := newWalk(exclusive)
	lacks := !w.root(live, stated)
	return Result{Lacks: lacks, Extra: w.extra}
}

// Differences returns the fields in which a live object differs, sorted by path. The
// result is empty if and only if Compare finds no difference.
func Differences(live any, stated map[string]any, exclusive []string) []Difference {
	w := newWalk(exclusive)
	w.reports = true
	w.root(live, stated)
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
	exclusive []string
	below     map[string][]string // the exclusive fields, by the path of their parent object
	extra     bool
	reports   bool // collect what differs in found
	found     []Difference
}

func newWalk(exclusive []string) walk {
	w := walk{exclusive: exclusive, below: map[string][]string{}}
	for _, e := range exclusive {
		parent, name := cutLast(strings.TrimSuffix(e, elementsOnly))
		w.below[parent] = append(w.below[parent], name)
	}
	return w
}

// root compares whole objects.
func (w *walk) root(live any, stated map[string]any) bool {
	top := make(map[string]any, len(stated))
	for k, s := range stated {
		// A typed object read from the cache has no apiVersion and kind.
		if k != "apiVersion" && k != "kind" {
			top[k] = s
		}
	}
	return w.covers(reflect.ValueOf(live).Elem(), top, "", field{})
}

// expect returns ok, and reports a difference if it is false.
func (w *walk) expect(ok bool, path, verb string, live reflect.Value) bool {
	if !ok {
		w.report(path, verb, live)
	}
	return ok
}

func (w *walk) report(path, verb string, live reflect.Value) {
	if !w.reports {
		return
	}
	d := Difference{Path: path, Verb: verb}
	if live.IsValid() {
		d.Live = live.Interface()
	}
	w.found = append(w.found, d)
}

// addition records unstated content of an exclusive path.
func (w *walk) addition(path string, live reflect.Value) {
	w.extra = true
	w.report(path, removed, live)
}

// join returns the path of a field. Paths are not built if they are not needed.
func (w *walk) join(path, field string) string {
	if len(w.exclusive) == 0 && !w.reports {
		return ""
	}
	return join(path, field)
}

// element returns the path of a list element.
func (w *walk) element(path string, key any) string {
	if len(w.exclusive) == 0 && !w.reports {
		return ""
	}
	return path + "[" + text(key) + "]"
}

// covers reports whether live holds all of stated. It also records unstated
// content of exclusive paths, which is complete if covers returns true. Below a
// difference, exclusive paths may not be examined.
func (w *walk) covers(live reflect.Value, stated any, path string, f field) bool {
	for live.Kind() == reflect.Pointer || live.Kind() == reflect.Interface {
		if live.IsNil() {
			return w.expect(stated == nil, path, added, reflect.Value{})
		}
		live = live.Elem()
	}
	if w.reports && path != "" && isUnset(live) {
		// Report the topmost field that is not set, rather than those below it.
		var quiet walk
		return w.expect(quiet.covers(live, stated, path, f), path, added, reflect.Value{})
	}
	switch s := stated.(type) {
	case nil:
		return true
	case map[string]any:
		if live.Kind() == reflect.Map {
			return w.coversMap(live, s, path)
		}
		if live.Kind() == reflect.Struct && !isEncoded(live.Type()) {
			return w.coversStruct(live, s, path)
		}
	case []any:
		if live.Kind() == reflect.Slice {
			return w.coversList(live, s, path, f)
		}
	}
	return w.expect(coversScalar(live, stated), path, changed, live)
}

func isUnset(live reflect.Value) bool {
	return live.IsZero() || live.Kind() == reflect.Slice && live.Len() == 0
}

func (w *walk) coversMap(live reflect.Value, stated map[string]any, path string) bool {
	ok, found := true, 0
	for k, s := range stated {
		v := live.MapIndex(reflect.ValueOf(k).Convert(live.Type().Key()))
		if !v.IsValid() {
			w.report(w.join(path, k), added, v)
			ok = false
			continue
		}
		found++
		ok = w.covers(v, s, w.join(path, k), field{}) && ok
	}
	if live.Len() > found && (w.isExclusive(path) || w.within(path)) {
		w.addition(path, live)
	}
	return ok
}

func (w *walk) coversStruct(live reflect.Value, stated map[string]any, path string) bool {
	ok := true
	fields := fieldsOf(live.Type())
	for k, s := range stated {
		f, known := fields[k]
		if !known { // a field newer than the Go types: let the API server decide
			w.report(w.join(path, k), changed, reflect.Value{})
			ok = false
			continue
		}
		ok = w.covers(live.FieldByIndex(f.index), s, w.join(path, k), f) && ok
	}
	if w.within(path) {
		for k, f := range fields {
			w.reportUnstated(live, k, f, stated, path)
		}
		return ok
	}
	for _, k := range w.below[path] {
		if f, known := fields[k]; known {
			w.reportUnstated(live, k, f, stated, path)
		}
	}
	return ok
}

// reportUnstated records an unstated value in a field of an exclusive path.
func (w *walk) reportUnstated(live reflect.Value, name string, f field, stated map[string]any, path string) {
	if _, isStated := stated[name]; isStated {
		return // covers examines a stated field
	}
	if v := live.FieldByIndex(f.index); !isEmpty(v) && !isDefault(join(path, name), v) {
		w.addition(join(path, name), v)
	}
}

func (w *walk) coversList(live reflect.Value, stated []any, path string, f field) bool {
	ok, found := true, len(stated)
	switch {
	case f.mergeKey != "":
		ok, found = w.coversElements(live, stated, path, f)
	case f.set:
		for _, s := range stated {
			ok = w.expect(containsScalar(live, s), w.element(path, s), added, reflect.Value{}) && ok
		}
	case live.Len() != len(stated):
		w.report(path, changed, live)
		ok = false
	default:
		for i, s := range stated {
			ok = w.covers(live.Index(i), s, w.element(path, i), field{}) && ok
		}
	}
	// An element with another key is an addition even if the stated element is
	// missing: a port that was renumbered by hand still occupies the node port.
	if live.Len() > found && w.isExclusive(path) {
		w.addition(path, live)
	}
	return ok
}

// coversElements compares the elements of a list that have keys, and returns how many of
// the stated ones it found.
func (w *walk) coversElements(live reflect.Value, stated []any, path string, f field) (ok bool, found int) {
	ok = true
	last, inOrder := -1, true
	for _, s := range stated {
		m, _ := s.(map[string]any)
		at := w.element(path, m[f.mergeKey])
		i := findElement(live, m, f.mergeKey)
		if i < 0 {
			w.report(at, added, reflect.Value{})
			ok = false
			continue
		}
		found++
		inOrder, last = inOrder && i > last, i
		ok = w.covers(reflect.Indirect(live.Index(i)), s, at, field{}) && ok
	}
	return w.expect(inOrder || !f.ordered, path, changed, live) && ok, found
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

// elementsOnly ends an exclusive path whose list may not have unstated
// elements, although its stated elements may have unstated fields.
const elementsOnly = "[]"

// isExclusive reports whether a path is itself an exclusive path.
func (w *walk) isExclusive(path string) bool {
	return slices.Contains(w.exclusive, path) || slices.Contains(w.exclusive, path+elementsOnly)
}

// within reports whether an object is at or below an exclusive path, without a
// list in between, because the API server sets defaults in list elements.
func (w *walk) within(path string) bool {
	return slices.ContainsFunc(w.exclusive, func(e string) bool {
		rest, under := strings.CutPrefix(path, e)
		return under && (rest == "" || rest[0] == '.' && !strings.Contains(rest, "["))
	})
}

// field describes how a JSON name is accessed in a struct.
type field struct {
	index    []int
	mergeKey string
	set      bool // patchStrategy merge without a key: a set of scalars
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
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "" || name == "-" {
			continue
		}
		if _, shadowed := m[name]; shadowed {
			continue
		}
		merge := strings.Contains(f.Tag.Get("patchStrategy"), "merge")
		key := f.Tag.Get("patchMergeKey")
		m[name] = field{index: f.Index, mergeKey: key, set: merge && key == "", ordered: ordered[name]}
	}
	knownFields.Store(t, m)
	return m
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func cutLast(path string) (parent, name string) {
	i := strings.LastIndexByte(path, '.')
	if i < 0 {
		return "", path
	}
	return path[:i], path[i+1:]
}
