package apply

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// comparer reports whether a live object holds everything that is stated, and
// nothing else in the exclusive paths. It walks the typed live object in
// parallel with the stated JSON: converting the live object would cost several
// times as much, for every child in every reconcile.
//
// Lists are compared by the merge key in the Go type's patchMergeKey tag and by
// the second key in secondKey, as in the API server's schema. Lists without a
// merge key are compared element by element, in order. Quantities are compared
// by value: "1000m" equals "1".
type comparer struct {
	fields sync.Map // reflect.Type -> map[string]field
}

// field describes how a JSON name is accessed in a struct.
type field struct {
	index    []int
	mergeKey string
	set      bool // patchStrategy merge without a key: a set of scalars
}

// result is the result of a comparison. The two kinds of differences are
// repaired in different ways.
type result struct {
	lacks bool // a stated field is absent or different
	extra bool // an exclusive path holds a field that is not stated
}

func (c *comparer) compare(live any, stated map[string]any, exclusive []string) result {
	w := c.walk(exclusive)
	lacks := !w.root(live, stated)
	return result{lacks: lacks, extra: w.extra}
}

func (c *comparer) walk(exclusive []string) walk {
	w := walk{comparer: c, exclusive: exclusive, below: map[string][]string{}}
	for _, e := range exclusive {
		parent, name := cutLast(strings.TrimSuffix(e, elementsOnly))
		w.below[parent] = append(w.below[parent], name)
	}
	return w
}

type walk struct {
	*comparer
	exclusive []string
	below     map[string][]string // the exclusive fields, by the path of their parent object
	extra     bool
	// report is called for each difference, with a path in the notation of
	// Difference and the live value, which is invalid if there is none. If it is
	// nil, these paths are not built.
	report func(path, verb string, live reflect.Value)
	// reportExtra is called, if it is set, for unstated content of each exclusive
	// path.
	reportExtra func(path string, live reflect.Value)
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
	return w.covers(reflect.ValueOf(live).Elem(), top, "", "", field{})
}

// differs reports a difference. It returns false, as covers does then.
func (w *walk) differs(name, verb string, live reflect.Value) bool {
	if w.report != nil {
		w.report(name, verb, live)
	}
	return false
}

// reported returns ok, and reports a difference if it is false.
func (w *walk) reported(ok bool, name, verb string, live reflect.Value) bool {
	return ok || w.differs(name, verb, live)
}

// adds records unstated content of an exclusive path.
func (w *walk) adds(path string, live reflect.Value) {
	w.extra = true
	if w.reportExtra != nil {
		w.reportExtra(path, live)
	}
}

// pathOf returns the path of a field, which is compared with the exclusive ones.
func (w *walk) pathOf(path, field string) string {
	if len(w.exclusive) == 0 {
		return ""
	}
	return join(path, field)
}

// nameIn returns the reported path of a field.
func (w *walk) nameIn(name, field string) string {
	if w.report == nil {
		return ""
	}
	return join(name, field)
}

// nameAt returns the reported path of a list element.
func (w *walk) nameAt(name string, key any) string {
	if w.report == nil {
		return ""
	}
	return fmt.Sprintf("%s[%v]", name, key)
}

var (
	quantityType = reflect.TypeFor[resource.Quantity]()
	intstrType   = reflect.TypeFor[intstr.IntOrString]()
	timeType     = reflect.TypeFor[metav1.Time]()
	microType    = reflect.TypeFor[metav1.MicroTime]()
	durationType = reflect.TypeFor[metav1.Duration]()
	rawType      = reflect.TypeFor[runtime.RawExtension]()
)

// covers reports whether live holds all of stated. It also records unstated
// content of exclusive paths in w.extra, which is complete if covers returns
// true. Below a difference, exclusive paths may not be examined. path is
// compared with the exclusive paths, and name is reported.
func (w *walk) covers(live reflect.Value, stated any, path, name string, f field) bool {
	for live.Kind() == reflect.Pointer || live.Kind() == reflect.Interface {
		if live.IsNil() {
			return w.reported(stated == nil, name, added, reflect.Value{})
		}
		live = live.Elem()
	}
	if w.report != nil && name != "" && (live.IsZero() || live.Kind() == reflect.Slice && live.Len() == 0) {
		// Report the topmost field that is not set, rather than those below it.
		quiet := walk{comparer: w.comparer}
		return w.reported(quiet.covers(live, stated, path, "", f), name, added, reflect.Value{})
	}
	switch s := stated.(type) {
	case nil:
		return true
	case map[string]any:
		if live.Type() == rawType { // its content is opaque, so it is stated as a whole
			var content any
			same := json.Unmarshal(live.Interface().(runtime.RawExtension).Raw, &content) == nil && reflect.DeepEqual(content, stated)
			return w.reported(same, name, changed, live)
		}
		switch live.Kind() {
		case reflect.Struct:
			return w.coversStruct(live, s, path, name)
		case reflect.Map:
			ok, found := true, 0
			for k, sv := range s {
				lv := live.MapIndex(reflect.ValueOf(k).Convert(live.Type().Key()))
				if !lv.IsValid() {
					ok = w.differs(w.nameIn(name, k), added, lv)
					continue
				}
				found++
				ok = w.covers(lv, sv, "", w.nameIn(name, k), field{}) && ok
			}
			if live.Len() > found && (w.isExclusive(path) || w.within(path)) {
				w.adds(path, live)
			}
			return ok
		default:
			return w.differs(name, changed, live)
		}
	case []any:
		if live.Kind() != reflect.Slice {
			return w.differs(name, changed, live)
		}
		return w.coversList(live, s, path, name, f)
	default:
		return w.reported(coversScalar(live, s), name, changed, live)
	}
}

func (w *walk) coversStruct(live reflect.Value, stated map[string]any, path, name string) bool {
	ok := true
	fields := w.fieldsOf(live.Type())
	for k, sv := range stated {
		f, known := fields[k]
		if !known { // a field newer than the Go types: let the API server decide
			ok = w.differs(w.nameIn(name, k), changed, reflect.Value{})
			continue
		}
		ok = w.covers(live.FieldByIndex(f.index), sv, w.pathOf(path, k), w.nameIn(name, k), f) && ok
	}
	if w.within(path) {
		for k, f := range fields {
			w.look(live, k, f, stated, path)
		}
		return ok
	}
	for _, k := range w.below[path] {
		if f, known := fields[k]; known {
			w.look(live, k, f, stated, path)
		}
	}
	return ok
}

// look records an unstated value in a field of an exclusive path.
func (w *walk) look(live reflect.Value, name string, f field, stated map[string]any, path string) {
	if _, isStated := stated[name]; isStated {
		return // covers examines a stated field
	}
	if v := live.FieldByIndex(f.index); !isEmpty(v) && !isDefault(join(path, name), v) {
		w.adds(join(path, name), v)
	}
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

// isEmpty reports whether a value sets nothing. The API server stores an empty
// object for a security context that is not set.
func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer:
		return v.IsNil() || v.Elem().Kind() == reflect.Struct && isEmpty(v.Elem())
	case reflect.Slice, reflect.Map:
		return v.Len() == 0
	case reflect.Struct:
		for _, field := range v.Fields() {
			if !isEmpty(field) {
				return false
			}
		}
		return true
	default:
		return v.IsZero()
	}
}

// isDefault reports whether a scalar has the default that the API server sets
// for its field.
func isDefault(path string, v reflect.Value) bool {
	v = reflect.Indirect(v)
	given, known := givenBy(path)
	return known && (v.Kind() == reflect.String || v.CanInt() || v.Kind() == reflect.Bool) && (given == nil || fmt.Sprint(v.Interface()) == text(given))
}

func (w *walk) coversList(live reflect.Value, stated []any, path, name string, f field) bool {
	ok, found := true, 0
	switch {
	case f.mergeKey != "":
		for _, s := range stated {
			var key any
			if m, isMap := s.(map[string]any); isMap {
				key = m[f.mergeKey]
			}
			e, there := w.element(live, s, f.mergeKey)
			if !there {
				ok = w.differs(w.nameAt(name, key), added, e)
				continue
			}
			found++
			ok = w.covers(e, s, elementPath(path, s, f.mergeKey), w.nameAt(name, key), field{}) && ok
		}
	case f.set:
		for _, s := range stated {
			ok = w.reported(containsScalar(live, s), w.nameAt(name, s), added, reflect.Value{}) && ok
		}
		found = len(stated)
	default:
		found = len(stated)
		if live.Len() != len(stated) {
			ok = w.differs(name, changed, live)
			break
		}
		for i, s := range stated {
			ok = w.covers(live.Index(i), s, path+elementsOnly, w.nameAt(name, i), field{}) && ok
		}
	}
	// An element with another key is an addition even if the stated element is
	// missing: a port that was renumbered by hand still occupies the node port.
	if live.Len() > found && w.isExclusive(path) {
		w.adds(path, live)
	}
	return ok
}

// secondKey completes merge keys, because the Go tag names only the first key
// of the API server's schema. A key that is not stated has the value in unset.
var secondKey = map[string]struct{ name, unset string }{
	"containerPort": {"protocol", "TCP"},
	"port":          {"protocol", "TCP"},
	"topologyKey":   {"whenUnsatisfiable", ""},
}

// element returns the live element that the API server matches with the stated
// one, by the same keys.
func (w *walk) element(live reflect.Value, stated any, mergeKey string) (reflect.Value, bool) {
	s, isMap := stated.(map[string]any)
	if !isMap {
		return reflect.Value{}, false
	}
	for i := range live.Len() {
		e := reflect.Indirect(live.Index(i))
		fields := w.fieldsOf(e.Type())
		f, known := fields[mergeKey]
		if !known || !coversScalar(e.FieldByIndex(f.index), s[mergeKey]) {
			continue
		}
		second, has := secondKey[mergeKey]
		if f, known = fields[second.name]; !has || !known {
			return e, true
		}
		want := s[second.name]
		if want == nil {
			want = second.unset
		}
		if coversScalar(e.FieldByIndex(f.index), want) {
			return e, true
		}
	}
	return reflect.Value{}, false
}

// elementPath returns the path of an element, with its name if the list is
// keyed by name.
func elementPath(path string, stated any, mergeKey string) string {
	if s, isMap := stated.(map[string]any); isMap {
		if name, isString := s[mergeKey].(string); isString && mergeKey == "name" {
			return path + "[" + name + "]"
		}
	}
	return path + elementsOnly
}

func containsScalar(live reflect.Value, stated any) bool {
	for i := range live.Len() {
		if coversScalar(live.Index(i), stated) {
			return true
		}
	}
	return false
}

func coversScalar(live reflect.Value, stated any) bool {
	for live.Kind() == reflect.Pointer {
		if live.IsNil() {
			return false
		}
		live = live.Elem()
	}
	switch live.Type() {
	case quantityType:
		q := live.Interface().(resource.Quantity)
		s, isString := stated.(string)
		if !isString {
			return false
		}
		want, err := resource.ParseQuantity(s)
		if err != nil {
			return false
		}
		if q.Cmp(want) == 0 {
			return true
		}
		want.RoundUp(resource.Milli) // as the API server does
		return q.Cmp(want) == 0
	case intstrType:
		v := live.Interface().(intstr.IntOrString)
		switch s := stated.(type) {
		case string:
			return v.Type == intstr.String && v.StrVal == s
		case float64:
			return v.Type == intstr.Int && float64(v.IntVal) == s
		}
		return false
	case timeType:
		t := live.Interface().(metav1.Time)
		raw, err := t.MarshalQueryParameter()
		return err == nil && raw == stated
	case microType, durationType: // their JSON has a single notation
		var want string
		raw, err := json.Marshal(live.Interface())
		return err == nil && json.Unmarshal(raw, &want) == nil && want == stated
	}
	switch s := stated.(type) {
	case string:
		if live.Kind() == reflect.Slice && live.Type().Elem().Kind() == reflect.Uint8 {
			return base64.StdEncoding.EncodeToString(live.Bytes()) == s
		}
		return live.Kind() == reflect.String && live.String() == s
	case bool:
		return live.Kind() == reflect.Bool && live.Bool() == s
	case float64:
		switch {
		case live.CanInt():
			return float64(live.Int()) == s
		case live.CanUint():
			return float64(live.Uint()) == s
		case live.CanFloat():
			return live.Float() == s
		}
	}
	return false
}

// fieldsOf maps the JSON names of a struct to its fields, including inlined
// ones.
func (c *comparer) fieldsOf(t reflect.Type) map[string]field {
	if m, ok := c.fields.Load(t); ok {
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
		m[name] = field{index: f.Index, mergeKey: key, set: merge && key == ""}
	}
	c.fields.Store(t, m)
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
