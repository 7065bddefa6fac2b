package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A text is a run of prose and the line of the file that it begins on.
type text struct {
	line int
	body string
}

var (
	message     = regexp.MustCompile(`message="((?:[^"\\]|\\.)*)"`)
	description = regexp.MustCompile(`"description":\s*("(?:[^"\\]|\\.)*")`)
	yamlComment = regexp.MustCompile(`(?:^|\s)#+ ?(.*)$`)
	codeSpan    = regexp.MustCompile("`[^`\n]*`")
	linkTarget  = regexp.MustCompile(`\]\([^)\s]*\)`)
	longSpan    = regexp.MustCompile("(?s)``.*?``")
)

// extract returns the prose of a file: comments, string literals and marker
// messages of Go, Markdown without code, comments of YAML and scripts. It
// returns nothing for other files.
func extract(path string, content []byte) ([]text, error) {
	switch base := filepath.Base(path); {
	case strings.HasPrefix(base, "zz_generated"):
		return nil, nil
	case strings.HasSuffix(base, ".go"):
		file := token.NewFileSet()
		parsed, err := parser.ParseFile(file, path, content, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		return slices.Concat(comments(file, parsed), messages(file, parsed), literals(file, parsed)), nil
	case strings.HasSuffix(base, ".md"):
		return []text{{1, markdown(string(content))}}, nil
	case base == "NOTES.txt":
		return []text{{1, string(content)}}, nil
	case base == "values.schema.json":
		return descriptions(string(content)), nil
	case strings.HasSuffix(base, ".yaml"), strings.HasSuffix(base, ".yml"), strings.HasSuffix(base, ".tpl"),
		strings.HasSuffix(base, ".sh"), base == "Makefile", base == "Dockerfile":
		return hashComments(string(content)), nil
	}
	return nil, nil
}

// comments returns the // comments without directives and markers.
func comments(file *token.FileSet, parsed *ast.File) []text {
	var out []text
	for _, group := range parsed.Comments {
		var lines []string
		for _, c := range group.List {
			body, ok := strings.CutPrefix(c.Text, "//")
			if !ok || isDirective(body) {
				body = ""
			}
			lines = append(lines, codeSpan.ReplaceAllStringFunc(body, blank))
		}
		out = append(out, text{file.Position(group.Pos()).Line, strings.Join(lines, "\n")})
	}
	return out
}

// isDirective reports whether a comment is for a tool rather than for a reader.
func isDirective(body string) bool {
	trimmed := strings.TrimSpace(body)
	return strings.HasPrefix(trimmed, "+") || strings.HasPrefix(body, "go:") || strings.HasPrefix(body, "nolint") ||
		strings.HasPrefix(trimmed, "Copyright") || strings.HasPrefix(trimmed, "SPDX-")
}

// messages returns the validation messages in kubebuilder markers.
func messages(file *token.FileSet, parsed *ast.File) []text {
	var out []text
	for _, group := range parsed.Comments {
		for _, c := range group.List {
			for _, m := range message.FindAllStringSubmatch(c.Text, -1) {
				out = append(out, text{file.Position(c.Pos()).Line, m[1]})
			}
		}
	}
	return out
}

// literals returns the string literals that contain a space. Shorter ones are
// names and keys.
func literals(file *token.FileSet, parsed *ast.File) []text {
	var out []text
	ast.Inspect(parsed, func(n ast.Node) bool {
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return true
		}
		if s, err := strconv.Unquote(lit.Value); err == nil && strings.Contains(s, " ") {
			out = append(out, text{file.Position(lit.Pos()).Line, s})
		}
		return true
	})
	return out
}

// markdown replaces code blocks, code spans and link targets by white space.
func markdown(content string) string {
	lines := strings.Split(content, "\n")
	fenced := false
	for i, line := range lines {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		if fence {
			fenced = !fenced
		}
		indented := strings.HasPrefix(line, "    ") && (i == 0 || strings.TrimSpace(lines[i-1]) == "" || strings.HasPrefix(lines[i-1], "    "))
		if fenced || fence || indented && !strings.HasPrefix(strings.TrimSpace(line), "* ") {
			lines[i] = ""
		}
	}
	out := strings.Join(lines, "\n")
	for _, code := range []*regexp.Regexp{longSpan, codeSpan, linkTarget} {
		out = code.ReplaceAllStringFunc(out, blank)
	}
	return out
}

// blank keeps the line breaks of a text and nothing else.
func blank(s string) string {
	return " " + strings.Repeat("\n", strings.Count(s, "\n"))
}

func descriptions(content string) []text {
	var out []text
	for i, line := range strings.Split(content, "\n") {
		for _, m := range description.FindAllStringSubmatch(line, -1) {
			if s, err := strconv.Unquote(m[1]); err == nil {
				out = append(out, text{i + 1, s})
			}
		}
	}
	return out
}

// hashComments returns the comments of YAML, shell, make and Dockerfiles.
// Lines that follow one another are one text.
func hashComments(content string) []text {
	var out []text
	last := -1
	for i, line := range strings.Split(content, "\n") {
		m := yamlComment.FindStringSubmatch(line)
		if m == nil || strings.HasPrefix(line, "#!") {
			continue
		}
		body := codeSpan.ReplaceAllStringFunc(m[1], blank)
		if last == i-1 && len(out) > 0 {
			out[len(out)-1].body += "\n" + body
		} else {
			out = append(out, text{i + 1, body})
		}
		last = i
	}
	return out
}
