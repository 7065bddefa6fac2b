package manifest

import (
	"errors"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

func TestRead_AcceptsWhatKubectlAppliesAccepts(t *testing.T) {
	const a, b = "apiVersion: v1\nkind: A\n", "apiVersion: v1\nkind: B\n"
	for name, tc := range map[string]struct {
		in   string
		want []string
	}{
		"one document":               {a, []string{"1 v1 A"}},
		"documents":                  {a + "---\n" + b, []string{"1 v1 A", "2 v1 B"}},
		"separator with spaces":      {"--- \n" + a + "---   \n" + b, []string{"1 v1 A", "2 v1 B"}},
		"separator with a comment":   {a + "--- # next\n" + b, []string{"1 v1 A", "2 v1 B"}},
		"CRLF":                       {strings.ReplaceAll(a+"---\n"+b, "\n", "\r\n"), []string{"1 v1 A", "2 v1 B"}},
		"byte order mark":            {"\ufeff" + a, []string{"1 v1 A"}},
		"comments only":              {"# licence\n---\n" + a + "---\n# end\n", []string{"2 v1 A"}},
		"nothing":                    {"\n", nil},
		"JSON":                       {`{"apiVersion":"v1","kind":"A"}`, []string{"1 v1 A"}},
		"JSON with tabs":             {"{\n\t\"apiVersion\": \"v1\",\n\t\"kind\": \"A\"\n}\n", []string{"1 v1 A"}},
		"JSON values":                {`{"apiVersion":"v1","kind":"A"}{"apiVersion":"v1","kind":"B"}`, []string{"1 v1 A", "1 v1 B"}},
		"JSON and YAML":              {"{\"apiVersion\":\"v1\",\"kind\":\"A\"}\n---\n" + b, []string{"1 v1 A", "2 v1 B"}},
		"flow style":                 {"{apiVersion: v1, kind: A}\n", []string{"1 v1 A"}},
		"list":                       {"apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: A}\n- {apiVersion: v2, kind: B}\n", []string{"1 v1 A", "1 v2 B"}},
		"list in a list":             {`{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"A"}]}]}`, []string{"1 v1 A"}},
		"list of a kind":             {"apiVersion: v1\nkind: AList\nitems: [{metadata: {name: x}}]\n", []string{"1 v1 A"}},
		"empty list":                 {"apiVersion: v1\nkind: List\nitems: []\n", nil},
		"kind whose name is that of": {"apiVersion: v1\nkind: AllowList\n", []string{"1 v1 AllowList"}},
		"no object":                  {"- a\n", []string{"1  "}},
		"a field twice":              {a + "kind: B\n---\n" + b, []string{`1 error: yaml: unmarshal errors:` + "\n" + `  line 3: key "kind" already set in map`, "2 v1 B"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			err := Read(strings.NewReader(tc.in), "in", func(o Object) error {
				at := strings.TrimPrefix(o.At, "in, document ")
				if o.Err != nil {
					got = append(got, at+" error: "+o.Err.Error())
				} else {
					got = append(got, at+" "+o.APIVersion+" "+o.Kind)
				}
				return nil
			})
			if diff := cmp.Diff(tc.want, got); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestRead_ReturnsErrors(t *testing.T) {
	broken := errors.New("broken")
	if err := Read(iotest.ErrReader(broken), "in", nil); !errors.Is(err, broken) {
		t.Errorf("reading: %v", err)
	}
	for _, in := range []string{"kind: A\n", "kind: List\nitems: [{kind: A}]\n", "a: [\n"} {
		if err := Read(strings.NewReader(in), "in", func(Object) error { return broken }); !errors.Is(err, broken) {
			t.Errorf("%q: %v", in, err)
		}
	}
}
