package corpus

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/platform-operator/platform-operator/pkg/testkit/golden"
	"github.com/platform-operator/platform-operator/webhooks/schema"
)

// TestDocumentation compares docs/admission.md with the corpus and the schemas, so
// that removing a rule is visible there too.
func TestDocumentation(t *testing.T) {
	const file = "../../../docs/admission.md"
	golden.File(t, file, []byte(page(t)))
}

// row is a rule as text, and the kinds that have it.
type row struct{ field, words string }

// escape prevents text from being parsed as Markdown.
var escape = strings.NewReplacer("|", `\|`, "<", "&lt;")

type table map[row]map[string]bool

func (t table) add(k Kind, field, words string) {
	r := row{field, words}
	if t[r] == nil {
		t[r] = map[string]bool{}
	}
	t[r][k.Kind] = true
}

func (t table) print(out *strings.Builder) {
	fmt.Fprint(out, "| field | rule | kinds |\n|---|---|---|\n")
	for _, r := range slices.SortedFunc(maps.Keys(t), func(a, b row) int {
		return cmp.Or(strings.Compare(a.field, b.field), strings.Compare(a.words, b.words))
	}) {
		kinds := "all"
		if len(t[r]) < len(Kinds()) {
			kinds = strings.Join(slices.Sorted(maps.Keys(t[r])), ", ")
		}
		fmt.Fprintf(out, "| `%s` | %s | %s |\n", r.field, escape.Replace(r.words), kinds)
	}
}

func page(t *testing.T) string {
	t.Helper()
	var byClass strings.Builder
	said, bounds, beyond := table{}, table{}, table{}
	var bad, good, alone, made int
	for _, k := range Kinds() {
		d := definition(t, k, k.Versions[0])
		cases := read(t, k)
		type count struct {
			bad, good int
			by        map[Layer]int
		}
		classes := map[string]*count{}
		for _, c := range cases {
			n := classes[c.Class]
			if n == nil {
				n = &count{by: map[Layer]int{}}
				classes[c.Class] = n
			}
			if c.Refused == nil {
				n.good++
				good++
				continue
			}
			n.bad++
			bad++
			if slices.Contains(c.Refused.By, Schema) || slices.Contains(c.Refused.By, Decode) {
				alone++
			}
			for _, l := range c.Refused.By {
				n.by[l]++
				if l == Go || l == Policy {
					beyond.add(k, schema.Place(c.Refused.Field[l]), c.Refused.Says[l])
				}
			}
		}
		for _, class := range slices.Sorted(maps.Keys(classes)) {
			n := classes[class]
			fmt.Fprintf(&byClass, "| %s | %s | %d | %d |", k.Kind, class, n.good, n.bad)
			for _, l := range Layers() {
				fmt.Fprintf(&byClass, " %s |", orNone(n.by[l]))
			}
			fmt.Fprintln(&byClass)
		}
		fields := map[string][]string{}
		for _, r := range d.Rules() {
			if r.Keyword == schema.KeywordCEL {
				said.add(k, cmp.Or(r.Path, "metadata.name"), r.Message)
			} else {
				fields[r.Path] = append(fields[r.Path], inWords(r))
			}
		}
		for field, rules := range fields {
			bounds.add(k, field, strings.Join(rules, "; "))
		}
		b, _ := Bounds(k, d, cases)
		made += len(b)
	}
	var out strings.Builder
	fmt.Fprintf(&out, `# What is refused

Made by `+"`make update-golden`"+` from `+"`e2e/testdata/specs`"+` and the CRDs in
`+"`config/crd/bases`"+`; a test fails when it is not what they say.

**%d objects are refused and %d are not**, of %d written by hand; %d more are made
from the bounds of the schemas. %d of the %d refused are refused with
the webhook down. Every layer is asked by itself in `+"`make test-unit`"+`, and a
real API server with all of them in `+"`make test-envtest`"+`, together with the
children of every object that it admits. Without any one of the rules of the
schemas a case is answered otherwise (`+"`TestSchema_EveryRuleIsNeeded`"+`); of the rules in
Go `+"`make campaign-admission`"+` shows it.

| layer | what it is | needs the operator |
|---|---|---|
| decode | JSON that cannot be read; unknown and duplicate fields, where the client asks for it, as kubectl does | no |
| schema | the schema and the CEL rules of the definition | no |
| go | what CEL cannot say: other words for one thing, nginx's grammar, the node ports of the cluster | yes |
| policy | what the [platform configuration](platform-configuration.md) decides | yes |

## Cases

An object that several layers refuse counts for each of them.

| kind | class | good | refused |%s
|---|---|---|---|%s
`, bad, good, bad+good, made, alone, bad, headings(), strings.Repeat("---|", len(Layers())))
	out.WriteString(byClass.String())
	out.WriteString("\n## Rules that are more than a bound\n\nIn the words that the user reads.\n\n")
	said.print(&out)
	out.WriteString("\n## Beyond the schema\n\nA part of the words that the user reads.\n\n")
	beyond.print(&out)
	out.WriteString("\n## Bounds\n\n`[*]` is every entry of a list, and every value of a map.\n\n")
	bounds.print(&out)
	return out.String()
}

func headings() string {
	var h strings.Builder
	for _, l := range Layers() {
		fmt.Fprintf(&h, " %s |", l)
	}
	return h.String()
}

func orNone(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// inWords returns a bound in plain English.
func inWords(r schema.Rule) string {
	switch r.Keyword {
	case schema.KeywordRequired:
		return "required"
	case schema.KeywordEnum:
		return "one of " + r.Text
	case schema.KeywordPattern:
		return "matches `" + r.Text + "`"
	case schema.KeywordFormat:
		return "a " + r.Text
	case schema.KeywordMinimum:
		return r.Text + " or more"
	case schema.KeywordMaximum:
		return r.Text + " or less"
	case schema.KeywordMinLength:
		return "at least " + r.Text + " characters"
	case schema.KeywordMaxLength:
		return "at most " + r.Text + " characters"
	case schema.KeywordMinItems, schema.KeywordMinProperties:
		return "at least " + r.Text + " entries"
	case schema.KeywordMaxItems, schema.KeywordMaxProperties:
		return "at most " + r.Text + " entries"
	case schema.KeywordUnique:
		return "entries differ in " + r.Text
	}
	return string(r.Keyword) + " " + r.Text
}
