package crash

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func object(kind, name string, fields map[string]any) unstructured.Unstructured {
	fields["kind"] = kind
	fields["metadata"] = map[string]any{"name": name}
	return unstructured.Unstructured{Object: fields}
}

func service(namespace string, port int64) unstructured.Unstructured {
	return object("Service", "web", map[string]any{
		"url": "http://web." + namespace, "port": port, "made": "2026-01-02T03:04:05Z",
	})
}

func TestFlatten_NamesEveryField(t *testing.T) {
	t.Parallel()
	got := flatten([]unstructured.Unstructured{object("Pod", "a", map[string]any{
		"labels":     map[string]any{"a.io/b": "here"},
		"conditions": []any{map[string]any{"type": "Ready", "since": "2026-01-02T03:04:05Z"}},
		"args":       []any{"x", int64(2)},
		"none":       map[string]any{},
	})}, "here")["Pod/a"]
	want := map[string]string{
		"kind": `"Pod"`, "metadata.name": `"a"`, "labels[a.io/b]": `"‹namespace›"`,
		"conditions[Ready].type": `"Ready"`, "conditions[Ready].since": "‹time›",
		"args[0]": `"x"`, "args[1]": "2", "none": "{}",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestMask_IgnoresOnlyVaryingFields(t *testing.T) {
	t.Parallel()
	at := func(namespace string, before, end []unstructured.Unstructured) state {
		return state{before: flatten(before, namespace), end: flatten(end, namespace)}
	}
	kept := func(namespace string, port int64) state {
		s := []unstructured.Unstructured{service(namespace, port)}
		return at(namespace, s, s)
	}
	named := func(namespace string, names ...string) state {
		var all []unstructured.Unstructured
		for _, n := range names {
			all = append(all, object("Job", n, map[string]any{}))
		}
		return at(namespace, nil, all)
	}
	made := func(namespace string, before, end int64) state {
		return at(namespace, []unstructured.Unstructured{service(namespace, before)}, []unstructured.Unstructured{service(namespace, end)})
	}
	anew := []state{made("a", 1, 2), made("b", 3, 4), made("c", 5, 6)}
	three := []state{kept("a", 30001), kept("b", 30002), kept("c", 30003)}
	generated := []state{named("a", "x1"), named("b", "x2"), named("c", "x3")}

	for name, tt := range map[string]struct {
		clean []state
		run   state
		same  bool
	}{
		"another value where it varies":                 {three, kept("d", 30004), true},
		"another value in the end than before":          {three, at("d", []unstructured.Unstructured{service("d", 1)}, []unstructured.Unstructured{service("d", 2)}), false},
		"by chance the value from before":               {anew, made("d", 7, 7), true},
		"an object is deleted":                          {three, at("d", []unstructured.Unstructured{service("d", 1)}, nil), false},
		"an address of another namespace":               {three, at("d", []unstructured.Unstructured{service("d", 1)}, []unstructured.Unstructured{service("e", 1)}), false},
		"another generated name":                        {generated, named("d", "x4"), true},
		"two objects with generated names in its place": {generated, named("d", "x4", "x5"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := learn(tt.clean)
			for _, c := range tt.clean {
				if d := cmp.Diff(m.view(tt.clean[0]), m.view(c)); d != "" {
					t.Errorf("clean runs differ under their mask:\n%s", d)
				}
			}
			d := cmp.Diff(m.view(tt.clean[0]), m.view(tt.run))
			if same := d == ""; same != tt.same {
				t.Errorf("same is %t, want %t:\n%s", same, tt.same, d)
			}
		})
	}
}
