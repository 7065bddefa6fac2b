package main

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCheck(t *testing.T) {
	const goFile = `// Package p is looked at by nobody.
package p

// +kubebuilder:validation:XValidation:rule="self == 'foreign'",message="must be the
//go:generate whoever

// f goes
// back. See ` + "`ours`" + `. Understand the standard.
func f() error { return errors.New("a foreign Service") } // anew

// +kubebuilder:validation:XValidation:rule="self == 'theirs'",message="belongs to somebody"
var key = "ours"
`
	for name, tc := range map[string]struct {
		path, content string
		want          []string // line and expression
	}{
		"comments, messages and strings of Go": {
			"a/b.go", goFile,
			[]string{"1 nobody", "7 goes back", "9 foreign", "9 anew", "11 somebody"},
		},
		"tests are no different": {
			"a/b_test.go", goFile,
			[]string{"1 nobody", "7 goes back", "9 foreign", "9 anew", "11 somebody"},
		},
		"generated Go": {"a/zz_generated.deepcopy.go", "package p // anew\n", nil},
		"Markdown without code": {
			"a.md", "The `pass` of\n\n```\nnobody\n```\n[ours](docs/rbac.md) does\nnot tell whether.\n\n    anew\n",
			[]string{"6 ours", "7 tell whether"},
		},
		"comments of YAML": {
			"values.yaml", "key: nobody # what\n# of rights\nurl: http://a#foreign\n",
			[]string{"1 what of", "2 rights"},
		},
		"descriptions of a JSON schema": {
			"charts/x/values.schema.json", "{\n\"description\": \"The \\\"foreign\\\" one\", \"title\": \"nobody\"}\n",
			[]string{"2 foreign"},
		},
		"NOTES.txt":   {"templates/NOTES.txt", "Look after it.\n", []string{"1 Look after"}},
		"other files": {"main.c", "/* nobody */", nil},
		"exceptions": {
			"a.md", "The name stands for it, it serves on port 80, it is made of parts, they are going to stop, and right after.\n",
			nil,
		},
		"near an exception": {"a.md", "It serves on and on port 80 it was made by hand.\n", []string{"1 serves on", "1 was made"}},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := check(tc.path, []byte(tc.content))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range found {
				got = append(got, fmt.Sprint(f.line, " ", f.text))
			}
			slices.Sort(got)
			slices.Sort(tc.want)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRules_HaveReplacements(t *testing.T) {
	for _, m := range matchers {
		if m.use == "" {
			t.Errorf("%s has no replacement", m.rule.pattern)
		}
		for _, e := range m.except {
			if e.MatchString("") {
				t.Errorf("%s: exception %s matches everything", m.rule.pattern, e)
			}
		}
	}
}
