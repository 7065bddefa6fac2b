package corpus

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestSchema_EveryCELRuleIsNeeded requires, for each CEL rule, a case whose result would
// differ without it. A rule of a shared type is written once, so that one case is enough
// for all of its fields and kinds. The other rules, such as bounds, are those of
// Kubernetes; docs/admission.md lists them.
func TestSchema_EveryCELRuleIsNeeded(t *testing.T) {
	survivors, needed := map[Rule]string{}, 0
	for _, k := range Kinds() {
		for _, r := range definition(t, k, k.Versions[0]).Rules {
			if r.Keyword == KeywordCEL {
				survivors[Rule{Text: r.Text, Message: r.Message}] = k.Folder + " " + r.Path
			}
		}
	}
	for _, k := range Kinds() {
		for _, c := range read(t, k) {
			if c.Refused == nil {
				continue
			}
			faults, err := Judge(t.Context(), k, definition(t, k, c.Version(k)), c)
			if err != nil {
				continue // TestCorpus reports it
			}
			for _, f := range faults {
				if f.Rule == nil {
					continue
				}
				is := func(g Failure) bool {
					return g.Rule != nil && g.Rule.Text == f.Rule.Text && g.Rule.Message == f.Rule.Message
				}
				key := Rule{Text: f.Rule.Text, Message: f.Rule.Message}
				if _, open := survivors[key]; open && Wrong(c, slices.DeleteFunc(slices.Clone(faults), is)) != "" {
					delete(survivors, key)
					needed++
				}
			}
		}
	}
	for r, where := range survivors {
		t.Errorf("no case would notice that %s loses its rule %s (%s)", where, r.Text, r.Message)
	}
	if needed < 100 {
		t.Errorf("only %d rules were found", needed)
	}
}

// valid returns the objects of the valid cases that create one.
func valid(d *Definition, cases []Case) []map[string]any {
	var objects []map[string]any
	for _, c := range cases {
		if c.Refused == nil && c.Old == nil {
			if obj, strict, err := d.Decode(c.Object); err == nil && len(strict) == 0 {
				objects = append(objects, obj)
			}
		}
	}
	return objects
}

// clone copies JSON values.
func clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		c := make(map[string]any, len(v))
		for k, e := range v {
			c[k] = clone(e)
		}
		return c
	case []any:
		c := make([]any, len(v))
		for i, e := range v {
			c[i] = clone(e)
		}
		return c
	}
	return v
}

// split splits the path of a rule: spec.env[*].name is spec, env, [*], name.
func split(path string) []string {
	return strings.Split(strings.ReplaceAll(path, "[*]", ".[*]"), ".")
}

// edit calls change with the parent and the key of each place that the path
// matches, until it returns true, and reports whether it did.
func edit(v any, path []string, change func(parent, key any) bool) bool {
	step, rest := path[0], path[1:]
	try := func(parent any, key any, child any) bool {
		if len(rest) == 0 {
			return change(parent, key)
		}
		return child != nil && edit(child, rest, change)
	}
	switch v := v.(type) {
	case map[string]any:
		if step != "[*]" {
			return try(v, step, v[step])
		}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if try(v, k, v[k]) {
				return true
			}
		}
	case []any:
		for i := range v {
			if step == "[*]" && try(v, i, v[i]) {
				return true
			}
		}
	}
	return false
}

// The type check of the API server admits any list for a string with a format
// (typeValidator.Validate of kube-openapi), which no client could decode: one such object
// would stop the controllers of its kind.
func TestSchema_RefusesListsForStringsWithAFormat(t *testing.T) {
	for _, k := range Kinds() {
		d := definition(t, k, k.Versions[0])
		hosts := valid(d, read(t, k))
		for _, r := range d.Rules {
			if r.Keyword != KeywordFormat {
				continue
			}
			tried := 0
			for _, host := range hosts {
				obj := clone(host).(map[string]any)
				if !edit(obj, split(r.Path), func(parent, key any) bool {
					fields, ok := parent.(map[string]any)
					if _, has := fields[fmt.Sprint(key)]; !ok || !has {
						return false
					}
					fields[fmt.Sprint(key)] = []any{}
					return true
				}) {
					continue
				}
				tried++
				if faults, _ := d.Validate(t.Context(), obj, nil); len(faults) == 0 {
					t.Errorf("%s: the schema admits a list for %s: add a rule that reads its value", k.Folder, r.Path)
				}
			}
			if tried == 0 {
				t.Errorf("%s: no good case has %s", k.Folder, r.Path)
			}
		}
	}
}
