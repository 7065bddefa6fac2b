// Package docs tests the documentation: its links, and the form of the decisions.
package docs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	code    = regexp.MustCompile("(?ms)^ *```.*?^ *```|`[^`\n]*`")
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	target  = regexp.MustCompile(`\]\([^)]*\)`)
	noSlug  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	mention = regexp.MustCompile(`\bdocs/[\w/-]+\.md\b`)
)

// slugs returns the anchors that GitHub gives to the headings of a page.
func slugs(page string) []string {
	var out []string
	for _, m := range heading.FindAllStringSubmatch(regexp.MustCompile("(?ms)^ *```.*?^ *```").ReplaceAllString(page, ""), -1) {
		words := noSlug.ReplaceAllString(strings.ToLower(target.ReplaceAllString(m[1], "")), "")
		out = append(out, strings.ReplaceAll(words, " ", "-"))
	}
	return out
}

// broken returns the links and the mentions of pages in a file that lead nowhere.
func broken(files map[string]string, name string) []string {
	var out []string
	if strings.HasSuffix(name, ".md") {
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(files[name], ""), -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			file, anchor, _ := strings.Cut(m[1], "#")
			to := path.Join(path.Dir(name), file)
			if file == "" {
				to = name
			}
			page, ok := files[to]
			if !ok || anchor != "" && !slices.Contains(slugs(page), anchor) {
				out = append(out, m[1])
			}
		}
		return out
	}
	for _, to := range mention.FindAllString(files[name], -1) {
		if _, ok := files[to]; !ok {
			out = append(out, to)
		}
	}
	return out
}

// repository returns the text files that link to pages, and folders and other files, whose
// content does not matter, as empty ones.
func repository(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	tree := os.DirFS("..")
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			files[name] = ""
			if name == ".git" || name == "bin" {
				return filepath.SkipDir
			}
			return nil
		}
		files[name] = ""
		if slices.Contains([]string{".md", ".go", ".yaml", ".yml", ".sh", ".tpl"}, path.Ext(name)) || path.Base(name) == "Makefile" {
			raw, err := fs.ReadFile(tree, name)
			if err != nil {
				return err
			}
			files[name] = string(raw)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestLinks_LeadSomewhere(t *testing.T) {
	files := repository(t)
	for name := range files {
		if name == "docs/docs_test.go" || strings.Contains(name, "/testdata/") {
			continue
		}
		for _, l := range broken(files, name) {
			t.Errorf("%s: the link to %s is broken", name, l)
		}
	}
}

func TestIndex_ListsEveryPage(t *testing.T) {
	index, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{"*.md", "api/*.md", "contributing/*.md"} {
		pages, err := filepath.Glob(pattern)
		if err != nil || len(pages) == 0 {
			t.Fatalf("%d pages, error %v", len(pages), err)
		}
		for _, page := range pages {
			if page != "README.md" && !strings.Contains(string(index), "]("+filepath.ToSlash(page)+")") {
				t.Errorf("README.md does not list %s", page)
			}
		}
	}
}

func TestBroken(t *testing.T) {
	files := map[string]string{
		"docs/a.md":        "# A `b` c\n\n## One, two\n",
		"docs/api":         "",
		"docs/good.md":     "[a](a.md) [b](a.md#one-two) [c](#x) [d](api) [e](../docs/a.md#a-b-c) [f](https://x.y/z.md)\n\n# X\n\n```\n[g](h.md)\n```\n",
		"docs/no-page.md":  "[a](b.md)",
		"docs/anchor.md":   "[a](a.md#three)",
		"docs/own.md":      "# X\n\n[a](#y)",
		"pkg/good/x.go":    "// See docs/a.md.",
		"pkg/no-page/x.go": "// See docs/decisions/0001-b.md.",
	}
	for name := range files {
		want := !strings.Contains(name, "good") && name != "docs/a.md" && name != "docs/api"
		if got := broken(files, name); (len(got) > 0) != want {
			t.Errorf("%s: broken links %q", name, got)
		}
	}
}

// malformed returns what is missing in a decision or in the index of all.
func malformed(name, page, index string) error {
	title, rest, _ := strings.Cut(page, "\n\n")
	if !strings.HasPrefix(title, "# "+name[:4]+" ") {
		return fmt.Errorf("the title must begin with # %s", name[:4])
	}
	if entry := fmt.Sprintf("* [%s](%s)\n", strings.TrimPrefix(title, "# "), name); !strings.Contains(index, entry) {
		return fmt.Errorf("README.md must contain the line %s", strings.TrimSpace(entry))
	}
	date, rest, ok := strings.Cut(strings.TrimPrefix(rest, "* **Date:** "), "\n")
	if _, err := time.Parse(time.DateOnly, date[:min(len(date), len(time.DateOnly))]); err != nil || !ok {
		return errors.New("the title must be followed by a line such as * **Date:** 2026-11-20")
	}
	status, _, _ := strings.Cut(rest, "\n")
	status = strings.TrimPrefix(status, "* **Status:** ")
	if first, _, _ := strings.Cut(status, " "); !slices.Contains([]string{"proposed", "accepted", "superseded"}, first) {
		return errors.New("the date must be followed by a line such as * **Status:** accepted")
	}
	return nil
}

func TestDecisions_HaveDateAndStatusAndAreListed(t *testing.T) {
	names, err := filepath.Glob("decisions/[0-9]*.md")
	if err != nil || len(names) == 0 {
		t.Fatalf("%d decisions, error %v", len(names), err)
	}
	index, err := os.ReadFile("decisions/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		page, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := malformed(filepath.Base(name), string(page), string(index)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMalformed(t *testing.T) {
	const good, index = "# 0001 A\n\n* **Date:** 2026-11-20; b 2026-11-21\n* **Status:** superseded by 0002\n\nText.\n", "* [0001 A](0001-a.md)\n"
	if err := malformed("0001-a.md", good, index); err != nil {
		t.Error(err)
	}
	for name, tc := range map[string]struct{ page, index string }{
		"no date":        {strings.Replace(good, "* **Date:** 2026-11-20; b 2026-11-21\n", "", 1), index},
		"no status":      {strings.Replace(good, "* **Status:** superseded by 0002\n", "", 1), index},
		"unknown status": {strings.Replace(good, "superseded", "done", 1), index},
		"another number": {strings.Replace(good, "0001", "0002", 1), index},
		"not listed":     {good, "* [0001 B](0001-a.md)\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if malformed("0001-a.md", tc.page, tc.index) == nil {
				t.Error("no error")
			}
		})
	}
}
