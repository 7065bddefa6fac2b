package main

import (
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"regexp"
	"strconv"
	"strings"
	"text/tabwriter"
)

var word = regexp.MustCompile(`[A-Za-z][A-Za-z'’-]*`)

// frequencies are the counts of expressions in a number of words.
type frequencies struct {
	words  int
	counts []int
}

func (f *frequencies) add(body string) {
	if f.counts == nil {
		f.counts = make([]int, len(counted))
	}
	f.words += len(word.FindAllString(body, -1))
	for i, c := range counted {
		f.counts[i] += len(c.pattern.FindAllString(body, -1))
	}
}

// perThousand is how often an expression occurs in 1,000 words.
func (f *frequencies) perThousand(i int) float64 {
	if f.words == 0 {
		return 0
	}
	return 1000 * float64(f.counts[i]) / float64(f.words)
}

// A column of the table is the prose below some folders.
type column struct {
	name    string
	folders []string
	suffix  string
}

var columns = []column{
	{"all comments", []string{"pkg", "controllers", "webhooks", "apis", "cmd", "hack"}, ".go"},
	{"pkg", []string{"pkg"}, ".go"},
	{"controllers", []string{"controllers"}, ".go"},
	{"webhooks", []string{"webhooks"}, ".go"},
	{"apis", []string{"apis"}, ".go"},
	{"cmd", []string{"cmd"}, ".go"},
	{"hack", []string{"hack"}, ".go"},
	{"Markdown", []string{"."}, ".md"},
}

// measure prints how often each expression occurs per 1,000 words of // comments
// and of Markdown.
func measure(w io.Writer, root string) error {
	table := make([]frequencies, len(columns))
	for i, c := range columns {
		table[i].add("")
		for _, folder := range c.folders {
			err := walk(root, folder, nil, func(path string, content []byte) error {
				return count(&table[i], path, content, c.suffix)
			})
			if err != nil {
				return err
			}
		}
	}
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(name string, cell func(i int) string) {
		cells := []string{fmt.Sprintf("%-48s", name)}
		for i := range columns {
			cells = append(cells, cell(i))
		}
		fmt.Fprintln(out, strings.Join(cells, "\t")+"\t")
	}
	row("per 1,000 words", func(i int) string { return columns[i].name })
	for e, c := range counted {
		row(c.name, func(i int) string { return fmt.Sprintf("%.1f", table[i].perThousand(e)) })
	}
	row("words", func(i int) string { return strconv.Itoa(table[i].words) })
	return out.Flush()
}

func count(f *frequencies, path string, content []byte, suffix string) error {
	switch {
	case !strings.HasSuffix(path, suffix) || strings.Contains(path, "zz_generated"):
	case suffix == ".md":
		f.add(markdown(string(content)))
	default:
		file := token.NewFileSet()
		parsed, err := parser.ParseFile(file, path, content, parser.ParseComments)
		if err != nil {
			return err
		}
		for _, t := range comments(file, parsed) {
			f.add(t.body)
		}
	}
	return nil
}
