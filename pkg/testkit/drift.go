package testkit

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/pkg/naming"
)

// Drift is the result of changing one field of a child manually.
type Drift struct {
	Path    string    // JSON pointer
	Removed bool      // removed rather than changed
	Refused bool      // the API server rejects the change
	Writes  int       // requests until the field was restored
	Took    []Request // those requests
	Back    bool      // the field was restored
}

// String returns the drift as one line of a report.
func (d Drift) String() string {
	how := "changed"
	if d.Removed {
		how = "removed"
	}
	switch {
	case d.Refused:
		return fmt.Sprintf("%s %s: refused by the API server", d.Path, how)
	case d.Back:
		return fmt.Sprintf("%s %s: back after %d writes", d.Path, how, d.Writes)
	default:
		return fmt.Sprintf("%s %s: did not come back", d.Path, how)
	}
}

// Drifts manually changes, or else removes, one after the other, every field in
// stated, which is the JSON of an intent. Each time it waits until the child
// contains the whole intent again. A field is removed if the API server rejects the
// change, or reverts it because of its defaults. If it does the same with the removal,
// that is reported as refused. Without prefixes of paths, one field of sixteen is changed, or, if
// DRIFT is all, each of them.
func (e *Env) Drifts(ctx context.Context, stated []byte, prefixes []string) ([]Drift, error) {
	want := &unstructured.Unstructured{}
	if err := json.Unmarshal(stated, &want.Object); err != nil {
		return nil, fmt.Errorf("decoding what is stated: %w", err)
	}
	// A record is only written together with other fields (apply.Intent.Record).
	unstructured.RemoveNestedField(want.Object, "metadata", "annotations", naming.AnnotationHealthyRevision)
	var found []Drift
	for i, leaf := range leaves(want.Object, "") {
		if prefixes == nil && i%driftEvery() != 0 {
			continue
		}
		if slices.Contains([]string{"/apiVersion", "/kind", "/metadata/name", "/metadata/namespace"}, leaf) ||
			prefixes != nil && !slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(leaf, p) }) {
			continue
		}
		if element, isKey := keyOf(leaf); isKey {
			// A different key would be a different element, that is, an addition by
			// another client, which is kept. Only the removal of the element is
			// drift.
			leaf = element
		}
		for _, remove := range []bool{false, true} {
			if _, isElement := at(want.Object, leaf).(map[string]any); isElement && !remove {
				continue
			}
			e.forget(want)
			d, err := e.drift(ctx, want, leaf, remove)
			if err != nil {
				return found, err
			}
			if !d.Refused || remove {
				found = append(found, d)
			}
			if !d.Refused && !d.Back {
				return found, nil // the remaining fields would only wait for this one again
			}
			if !d.Refused {
				break
			}
		}
	}
	return found, nil
}

// driftEvery returns 16, or 1 if DRIFT is all: some fields are changed in make test, and
// every one in make campaign-crash. Which fields differ is a function of two objects
// (pkg/apply/compare), so what a server adds is that some of each child are restored.
func driftEvery() int {
	if os.Getenv("DRIFT") == "all" {
		return 1
	}
	return 16
}

// forget makes operators forget the owner of a child, because a child that was changed
// often is restored late (docs/decisions/0042-disputes.md).
func (e *Env) forget(child client.Object) {
	e.running.Range(func(o, _ any) bool {
		o.(*Operator).Applier.Forget(naming.OwnerUID(child))
		return true
	})
}

func (e *Env) drift(ctx context.Context, want *unstructured.Unstructured, leaf string, remove bool) (Drift, error) {
	d := Drift{Path: leaf, Removed: remove}
	child := &unstructured.Unstructured{}
	child.SetGroupVersionKind(want.GroupVersionKind())
	key := client.ObjectKeyFromObject(want)
	before, err := e.Audit.Requests(ctx, key.Namespace)
	if err != nil {
		return d, err
	}
	if err := e.Admin.Get(ctx, key, child); err != nil {
		return d, fmt.Errorf("reading the child: %w", err)
	}
	path, there := locate(child.Object, want.Object, leaf)
	stored := at(child.Object, path) != nil
	// A field can have the zero value and yet differ from one that is absent: an
	// absent enableServiceLinks is true in a pod.
	intact := func() bool {
		return Holds(child.Object, want.Object) && (at(child.Object, path) != nil) == stored
	}
	d.Refused = true
	for _, p := range damages(want.Object, leaf, path, remove) {
		if !there {
			break
		}
		err := e.Admin.Patch(ctx, child, client.RawPatch(types.JSONPatchType, p), client.FieldOwner("kubectl-edit"))
		if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || err != nil && strings.Contains(err.Error(), "duplicate nodePort") {
			continue
		}
		if err != nil {
			return d, fmt.Errorf("damaging %s: %w", leaf, err)
		}
		if !intact() {
			d.Refused = false
			break
		}
	}
	if d.Refused {
		return d, nil
	}
	err = Eventually(ctx, leaf+" to come back", func(ctx context.Context) (bool, error) {
		err := e.Admin.Get(ctx, key, child)
		return err == nil && intact(), err
	})
	d.Back = err == nil
	// A write can be visible before it is answered, and is logged afterwards.
	err = Eventually(ctx, "the audit log to tell of the write", func(ctx context.Context) (bool, error) {
		after, err := e.Audit.Requests(ctx, key.Namespace)
		d.Writes, d.Took = 0, nil
		for _, r := range after[len(before):] {
			if r.IsWrite() && r.Name == key.Name && r.Resource == resources(want.GetKind()) {
				if r.Succeeded() { // one that lost a race wrote nothing
					d.Writes++
				}
				d.Took = append(d.Took, r)
			}
		}
		return d.Writes > 0 || !d.Back, err
	})
	return d, err
}

// keyOf reports whether a pointer refers to the key of a list element, and returns
// the pointer to the element. The elements of the ports of a Service are all owned
// by the operator, so any change of them can be reverted.
func keyOf(pointer string) (element string, isKey bool) {
	for _, key := range []string{"name", "mountPath", "containerPort"} {
		e, ok := strings.CutSuffix(pointer, "/"+key)
		if ok && e != "" && isDigit(e[len(e)-1]) && !strings.HasPrefix(pointer, "/spec/ports") && !strings.Contains(pointer, "ownerReferences") && !strings.Contains(pointer, "sysctls") {
			return e, true
		}
	}
	return pointer, false
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// locate translates a pointer into the intent to one into the live object, whose
// lists may be in another order.
func locate(live, stated any, pointer string) (string, bool) {
	var path strings.Builder
	for _, step := range strings.Split(pointer, "/")[1:] {
		if list, isList := live.([]any); isList {
			want := at(stated, "/"+step)
			i := slices.IndexFunc(list, func(e any) bool { return reflect.DeepEqual(number(e), number(want)) || sameKey(e, want) })
			if i < 0 {
				return "", false
			}
			fmt.Fprintf(&path, "/%d", i)
			live, stated = list[i], want
			continue
		}
		path.WriteString("/" + step)
		live, stated = at(live, "/"+step), at(stated, "/"+step)
	}
	return path.String(), true
}

func sameKey(a, b any) bool {
	am, _ := a.(map[string]any)
	bm, _ := b.(map[string]any)
	for _, key := range []string{"name", "mountPath", "containerPort", "port", "uid"} {
		if bm[key] != nil {
			return reflect.DeepEqual(number(am[key]), number(bm[key]))
		}
	}
	return false
}

// resources returns the resource of a kind, such as "networkpolicies" for
// NetworkPolicy.
func resources(kind string) string {
	r, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Kind: kind})
	return r.Resource
}

// damages returns JSON patches that change or remove, at path, the value of leaf in
// the intent. They are tried until the API server accepts one.
func damages(stated map[string]any, leaf, path string, remove bool) [][]byte {
	patch := func(ops ...map[string]any) []byte {
		raw, err := json.Marshal(ops)
		if err != nil {
			panic(err) // maps of plain values
		}
		return raw
	}
	if remove {
		return [][]byte{patch(map[string]any{"op": "remove", "path": path})}
	}
	var values []any
	switch v := at(stated, leaf).(type) {
	case string:
		values = []any{"x" + v, v + "0", "Recreate", "ClusterIP", "LoadBalancer", "ClientIP", "UDP", "Unconfined", "Never", "50%"}
	case float64:
		values = []any{v + 1, v - 1}
	case bool:
		values = []any{!v}
	case []any:
		values = []any{[]any{}}
	case map[string]any:
		values = []any{nil}
	}
	var all [][]byte
	for _, v := range values {
		op := map[string]any{"op": "replace", "path": path, "value": v}
		all = append(all, patch(op))
		if v == "Recreate" {
			all = append(all, patch(op, map[string]any{"op": "remove", "path": strings.TrimSuffix(path, "type") + "rollingUpdate"}))
		}
	}
	return all
}

// leaves returns the JSON pointers of all scalars and of all empty values.
func leaves(v any, path string) []string {
	var all []string
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			all = append(all, leaves(e, path+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(k))...)
		}
	case []any:
		for i, e := range v {
			all = append(all, leaves(e, fmt.Sprintf("%s/%d", path, i))...)
		}
	}
	if len(all) == 0 {
		return []string{path}
	}
	slices.Sort(all)
	return all
}

func at(v any, pointer string) any {
	for _, step := range strings.Split(pointer, "/")[1:] {
		switch t := v.(type) {
		case map[string]any:
			v = t[strings.NewReplacer("~1", "/", "~0", "~").Replace(step)]
		case []any:
			var i int
			if _, err := fmt.Sscan(step, &i); err != nil || i >= len(t) {
				return nil
			}
			v = t[i]
		}
	}
	return v
}

// Holds reports whether live contains everything in stated: lists of objects are
// compared by name or port, other values as they are. It is written independently
// of the operator's own comparison, which it checks.
func Holds(live, stated any) bool {
	switch s := stated.(type) {
	case map[string]any:
		l, ok := live.(map[string]any)
		for k, v := range s {
			ok = ok && Holds(l[k], v)
		}
		return ok
	case []any:
		l, ok := live.([]any)
		for _, e := range s {
			ok = ok && slices.ContainsFunc(l, func(le any) bool { return Holds(le, e) })
		}
		return ok
	default:
		// The server omits numbers, strings and booleans that are set to their zero
		// value.
		if live == nil && stated != nil && reflect.ValueOf(stated).IsZero() {
			return true
		}
		return reflect.DeepEqual(number(live), number(stated))
	}
}

func number(v any) any {
	if i, ok := v.(int64); ok {
		return float64(i)
	}
	return v
}
