package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/pkg/naming"
)

// objects is the state of a namespace: the fields of every object, which is
// identified by "Kind/name". Fields are identified by their paths, and values are
// JSON.
type objects map[string]map[string]string

// list reads all objects of some types in a namespace.
func list(ctx context.Context, r client.Reader, kinds []schema.GroupVersionKind, namespace string) ([]unstructured.Unstructured, error) {
	var all []unstructured.Unstructured
	for _, k := range kinds {
		l := &unstructured.UnstructuredList{}
		l.SetGroupVersionKind(k.GroupVersion().WithKind(k.Kind + "List"))
		if err := r.List(ctx, l, client.InNamespace(namespace)); err != nil {
			return nil, fmt.Errorf("listing %s: %w", k.Kind, err)
		}
		all = append(all, l.Items...)
	}
	return all, nil
}

// flatten makes objects comparable across namespaces and times.
func flatten(items []unstructured.Unstructured, namespace string) objects {
	all := objects{}
	for _, u := range items {
		f := flattener{namespace: namespace, fields: map[string]string{}}
		f.walk("", u.Object)
		all[u.GetKind()+"/"+u.GetName()] = f.fields
	}
	return all
}

type flattener struct {
	namespace string
	fields    map[string]string
}

func (f flattener) walk(path string, v any) {
	if path == "metadata.resourceVersion" {
		// It counts writes, and a crash may save one: that of a status which was
		// replaced by a later one. The number of writes is checked elsewhere.
		return
	}
	if strings.HasSuffix(path, naming.AnnotationHealthyRevision+"]") {
		// It is what was known at the last write, which a crash may delay until after
		// the pods have become ready.
		return
	}
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 {
			f.fields[path] = "{}"
		}
		for k, e := range v {
			f.walk(child(path, k), e)
		}
	case []any:
		if len(v) == 0 {
			f.fields[path] = "[]"
		}
		for i, key := range elementKeys(path, v) {
			f.walk(path+"["+key+"]", v[i])
		}
	case string:
		f.fields[path] = f.text(v)
	default:
		raw, err := json.Marshal(v)
		if err != nil { // decoded JSON can be encoded
			raw = fmt.Appendf(nil, "%v", v)
		}
		f.fields[path] = string(raw)
	}
}

// text replaces values that differ between runs in a way from which learning would
// draw the wrong conclusion. Times are in whole seconds: two may be equal by chance
// in all three runs, and differ in the fourth. The name of the namespace within a
// longer string, such as an address, would exclude the whole string from the
// comparison.
func (f flattener) text(s string) string {
	if _, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return "‹time›"
	}
	if f.namespace != "" {
		s = strings.ReplaceAll(s, f.namespace, "‹namespace›")
	}
	return strconv.Quote(s)
}

// anyUID matches the UIDs in the keys of managed fields, which identify owner
// references.
var anyUID = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

func child(path, key string) string {
	switch key = anyUID.ReplaceAllString(key, "‹uid›"); {
	case strings.ContainsAny(key, "./[]"):
		return path + "[" + key + "]"
	case path == "":
		return key
	default:
		return path + "." + key
	}
}

// elementKeys returns names for the elements of a list: a field that identifies
// them if their order has no meaning, or else their index.
func elementKeys(path string, l []any) []string {
	candidates := [][]string{{"type"}, {"name"}}
	switch path {
	case "metadata.managedFields":
		// The server sorts them by time.
		candidates = [][]string{{"manager", "operation", "subresource"}}
	case "metadata.ownerReferences":
		// The name of a Namespace differs between runs.
		candidates = [][]string{{"kind"}}
	}
	for _, fields := range candidates {
		if keys := keysBy(l, fields); keys != nil {
			return keys
		}
	}
	keys := make([]string, len(l))
	for i := range l {
		keys[i] = strconv.Itoa(i)
	}
	return keys
}

// keysBy returns nil if the fields do not identify all elements.
func keysBy(l []any, fields []string) []string {
	var keys []string
	for _, e := range l {
		m, _ := e.(map[string]any)
		if _, ok := m[fields[0]].(string); !ok {
			return nil
		}
		var parts []string
		for _, f := range fields {
			s, _ := m[f].(string)
			parts = append(parts, s)
		}
		key := strings.Join(parts, " ")
		if slices.Contains(keys, key) {
			return nil
		}
		keys = append(keys, key)
	}
	return keys
}

// state is what is compared between runs: the objects before the user's change,
// which are the same in all runs, and at the end.
type state struct{ before, end objects }

// The prefixes of paths. The earlier state sorts first.
const (
	pathBefore = "before: "
	pathEnd    = "end: "
)

// mask is what differs between undisturbed runs. It is learned and never written by
// hand, because a list that is written by hand would hide future bugs.
type mask struct {
	// varies are the paths whose value differs between runs. Each is mapped to the
	// first path that had the same value in every run, which may be itself. Later
	// runs must have equal values there too: an owner reference contains the UID of
	// the object, and a node port is the one that existed before. The converse is
	// not required: a new address may be the same as the old one by chance.
	varies map[string]string
	// blind are paths that are missing in some runs, and are not compared.
	blind map[string]bool
	// named are the objects that all runs have. Of the others, such as those with
	// generated names, only the number of each kind is compared.
	named map[string]bool
	loose map[string]bool // phase and kind
}

// learn returns the mask under which all given states are equal.
func learn(runs []state) mask {
	m := mask{varies: map[string]string{}, blind: map[string]bool{}, named: map[string]bool{}, loose: map[string]bool{}}
	seen := map[string]int{}
	for _, r := range runs {
		for o := range r.all() {
			seen[o]++
		}
	}
	for o, n := range seen {
		if n == len(runs) {
			m.named[o] = true
		} else {
			m.loose[kindOf(o)] = true
		}
	}
	values := map[string][]string{} // by path, one for each run that has it
	for _, r := range runs {
		for p, v := range m.fields(r) {
			values[p] = append(values[p], v)
		}
	}
	first := map[string]string{}
	for _, p := range slices.Sorted(maps.Keys(values)) {
		vs := values[p]
		if len(vs) < len(runs) {
			m.blind[p] = true
			continue
		}
		if len(slices.Compact(slices.Clone(vs))) == 1 {
			continue
		}
		key := strings.Join(vs, "\n") // values are JSON, and contain no newline
		if _, ok := first[key]; !ok {
			first[key] = p
		}
		m.varies[p] = first[key]
	}
	return m
}

// fields returns all fields of a state, and the numbers of the objects whose names
// differ between runs.
func (m mask) fields(s state) map[string]string {
	all := map[string]string{}
	for o, fields := range s.all() {
		if !m.named[o] && m.loose[kindOf(o)] {
			all[kindOf(o)+": number of objects whose name varies"] += "|"
			continue
		}
		for f, value := range fields {
			all[o+" "+f] = value
		}
	}
	return all
}

// view returns the part of a state that is compared.
func (m mask) view(s state) map[string]string {
	fields := m.fields(s)
	v := map[string]string{}
	for p, value := range fields {
		as, varies := m.varies[p]
		switch {
		case m.blind[p]:
		case !varies:
			v[p] = value
		case as == p:
			v[p] = "‹some value›"
		case fields[as] == value:
			v[p] = "‹as at " + as + "›"
		default:
			v[p] = "‹not as at " + as + "›"
		}
	}
	return v
}

// all returns the objects of both phases.
func (s state) all() objects {
	all := objects{}
	for o, f := range s.before {
		all[pathBefore+o] = f
	}
	for o, f := range s.end {
		all[pathEnd+o] = f
	}
	return all
}

func kindOf(object string) string {
	kind, _, _ := strings.Cut(object, "/")
	return kind
}

// under returns the part of a view whose paths have the prefix.
func under(v map[string]string, prefix string) map[string]string {
	part := map[string]string{}
	for p, value := range v {
		if strings.HasPrefix(p, prefix) {
			part[p] = value
		}
	}
	return part
}
