package corpus

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/platform-operator/platform-operator/webhooks/schema"
)

// same returns the key by which rules of several fields and kinds are considered
// the same rule. A CEL rule of a shared type is written once, so that one case is
// enough to show that it exists; bounds differ between fields.
func same(r schema.Rule) schema.Rule {
	if r.Keyword == schema.KeywordCEL {
		r.Path = ""
	}
	return r
}

// TestSchema_EveryRuleIsNeeded requires, for each rule of each schema, a case whose result
// would differ without it.
func TestSchema_EveryRuleIsNeeded(t *testing.T) {
	survivors := map[schema.Rule]string{}
	killed := map[schema.Rule]bool{}
	counts := map[schema.Keyword]int{}
	for _, k := range Kinds() {
		d := definition(t, k, k.Versions[0])
		all := read(t, k)
		for _, r := range d.Rules() {
			survivors[same(r)] = k.Folder + " " + r.Path
			counts[r.Keyword]++
		}
		for _, c := range all {
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
				less := slices.DeleteFunc(slices.Clone(faults), func(g Failure) bool { return g.Rule != nil && same(*g.Rule) == same(*f.Rule) })
				if Wrong(c, less) != "" {
					killed[same(*f.Rule)] = true
				}
			}
		}
		made, without := Bounds(k, d, all)
		for _, r := range without {
			t.Logf("%s: no good case has %s (%s %s)", k.Folder, r.Path, r.Keyword, r.Text)
		}
		for _, b := range made {
			faults, err := Judge(t.Context(), k, d, b.Case)
			if err != nil {
				t.Error(err)
				continue
			}
			hit := slices.ContainsFunc(faults, func(f Failure) bool { return f.Rule != nil && same(*f.Rule) == same(b.Rule) })
			if hit != b.Bad {
				t.Errorf("%s: a value that is refused: %v, is refused by that rule: %v\n%v", b.Case, b.Bad, hit, faults)
			}
			if b.Bad && hit {
				killed[same(b.Rule)] = true
			}
		}
	}
	for r := range killed {
		delete(survivors, r)
	}
	for _, r := range slices.SortedFunc(maps.Keys(survivors), func(a, b schema.Rule) int { return strings.Compare(survivors[a], survivors[b]) }) {
		t.Errorf("no case would notice that %s loses its %s %s %s", survivors[r], r.Keyword, r.Text, r.Message)
	}
	t.Logf("%d rules, %d of them different, %d of them needed by no case; %v", total(counts), len(killed)+len(survivors), len(survivors), counts)
}

func total(counts map[schema.Keyword]int) int {
	n := 0
	for _, c := range counts {
		n += c
	}
	return n
}

// The type check of the API server admits any list for a string with a format
// (typeValidator.Validate of kube-openapi), which no client could decode: one such object
// would stop the controllers of its kind.
func TestSchema_RefusesListsForStringsWithAFormat(t *testing.T) {
	for _, k := range Kinds() {
		d := definition(t, k, k.Versions[0])
		hosts := valid(d, read(t, k))
		for _, r := range d.Rules() {
			if r.Keyword != schema.KeywordFormat {
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
				if faults := d.Create(t.Context(), obj); len(faults) == 0 {
					t.Errorf("%s: the schema admits a list for %s: add a rule that reads its value", k.Folder, r.Path)
				}
			}
			if tried == 0 {
				t.Errorf("%s: no good case has %s", k.Folder, r.Path)
			}
		}
	}
}
