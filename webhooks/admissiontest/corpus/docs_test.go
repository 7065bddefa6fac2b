package corpus

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var tables = flag.String("tables", "", "write the tables of all rules to this file (make admission)")

// TestDocumentation_Tables requires words for every rule of the schemas, and a row for
// every kind in each of the tables.
func TestDocumentation_Tables(t *testing.T) {
	text := page(t)
	if *tables != "" {
		if err := os.WriteFile(*tables, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	_, sections, _ := strings.Cut(text, "\n## ")
	for section := range strings.SplitSeq(sections, "\n## ") {
		heading, rows, _ := strings.Cut(section, "\n")
		for _, k := range Kinds() {
			if !strings.Contains(rows, k.Kind) {
				t.Errorf("the table %q has no row about %s", heading, k.Kind)
			}
		}
	}
}

// TestDocumentation_NamesEveryLayer compares the layers of docs/admission.md with
// those of the corpus.
func TestDocumentation_NamesEveryLayer(t *testing.T) {
	raw, err := os.ReadFile("../../../docs/admission.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range Layers() {
		if row := fmt.Sprintf("\n| %s | ", l); !strings.Contains(string(raw), row) {
			t.Errorf("docs/admission.md has no row that begins with %q", strings.TrimSpace(row))
		}
	}
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
	var bad, good, alone int
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
					beyond.add(k, Place(c.Refused.Field[l]), c.Refused.Says[l])
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
		for _, r := range d.Rules {
			if r.Keyword == KeywordCEL {
				said.add(k, cmp.Or(r.Path, "metadata.name"), r.Message)
			} else {
				fields[r.Path] = append(fields[r.Path], inWords(t, r))
			}
		}
		for field, rules := range fields {
			bounds.add(k, field, strings.Join(rules, "; "))
		}
	}
	var out strings.Builder
	fmt.Fprintf(&out, `# Rules of admission

Written by `+"`make admission`"+` from `+"`e2e/testdata/specs`"+` and the CRDs in
`+"`config/crd/bases`"+`.

**%d of %d specs are rejected**, %d of them also while the webhook is not available.

## Cases

An object that is rejected by several layers counts for each of them.

| kind | class | accepted | rejected |%s
|---|---|---|---|%s
`, bad, bad+good, alone, headings(), strings.Repeat("---|", len(Layers())))
	out.WriteString(byClass.String())
	out.WriteString("\n## CEL rules\n\nWith the message that the user receives.\n\n")
	said.print(&out)
	out.WriteString("\n## Rules of the webhook\n\nWith a part of the message that the user receives.\n\n")
	beyond.print(&out)
	out.WriteString("\n## Bounds\n\n`[*]` means every entry of a list, and every value of a map.\n\n")
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
func inWords(t *testing.T, r Rule) string {
	t.Helper()
	switch r.Keyword {
	case KeywordRequired:
		return "required"
	case KeywordEnum:
		return "one of " + r.Text
	case KeywordPattern:
		return "matches `" + r.Text + "`"
	case KeywordFormat:
		return "a " + r.Text
	case KeywordMinimum:
		return r.Text + " or more"
	case KeywordMaximum:
		return r.Text + " or less"
	case KeywordMinLength:
		return "at least " + r.Text + " characters"
	case KeywordMaxLength:
		return "at most " + r.Text + " characters"
	case KeywordMinItems, KeywordMinProperties:
		return "at least " + r.Text + " entries"
	case KeywordMaxItems, KeywordMaxProperties:
		return "at most " + r.Text + " entries"
	case KeywordUnique:
		return "entries differ in " + r.Text
	}
	t.Errorf("%s: there are no words for %s", r.Path, r.Keyword)
	return ""
}
