package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A finding is one use of an expression to avoid.
type finding struct {
	path string
	line int
	text string // the expression as it was found
	use  string
}

func (f finding) String() string {
	return fmt.Sprintf("%s:%d: %q: write %s", f.path, f.line, f.text, f.use)
}

// check returns the expressions to avoid in one file.
func check(path string, content []byte) ([]finding, error) {
	texts, err := extract(path, content)
	if err != nil {
		return nil, err
	}
	var out []finding
	for _, t := range texts {
		for _, m := range matchers {
			for _, at := range m.find(t.body) {
				out = append(out, finding{
					path: path,
					line: t.line + strings.Count(t.body[:at[0]], "\n"),
					text: strings.Join(strings.Fields(t.body[at[0]:at[1]]), " "),
					use:  m.use,
				})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b finding) int { return a.line - b.line })
	return out, nil
}

// find returns the matches of a rule that are in none of its exceptions.
func (m matcher) find(body string) [][]int {
	var legitimate [][]int
	for _, e := range m.except {
		legitimate = append(legitimate, e.FindAllStringIndex(body, -1)...)
	}
	return slices.DeleteFunc(m.pattern.FindAllStringIndex(body, -1), func(at []int) bool {
		return slices.ContainsFunc(legitimate, func(l []int) bool { return l[0] <= at[0] && at[1] <= l[1] })
	})
}

// lint checks the files below folders of the working directory, except hidden and
// ignored ones and test data.
func lint(folders []string) ([]finding, error) {
	var out []finding
	visit := func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, rel := entry.Name(), filepath.ToSlash(path)
		skip := name == ".git" || name == ".ci" || name == "testdata" || slices.Contains(ignored, rel)
		switch {
		case skip && entry.IsDir():
			return filepath.SkipDir
		case skip || !entry.Type().IsRegular():
			return nil
		}
		content, err := os.ReadFile(path) //nolint:gosec // a file of the repository that is linted
		if err != nil {
			return err
		}
		found, err := check(rel, content)
		out = append(out, found...)
		return err
	}
	for _, folder := range folders {
		if err := filepath.WalkDir(filepath.Clean(folder), visit); err != nil {
			return nil, err
		}
	}
	return out, nil
}
