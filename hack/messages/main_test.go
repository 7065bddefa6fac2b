package main

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/platform-operator/platform-operator/controllers"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/message"
	"github.com/platform-operator/platform-operator/pkg/testkit/golden"
)

func TestPage_IsCurrent(t *testing.T) {
	golden.File(t, "../../docs/conditions.md", page(message.All()))
}

// A message follows docs/style.md, and the table has everything about it.
func TestMessages_AreCompleteSentences(t *testing.T) {
	place := regexp.MustCompile(`^(\w+=(True|False|Unknown)|Event|lastActions)$`)
	texts := map[string]bool{}
	var known []string
	for _, k := range controllers.Kinds(config.Default()) {
		known = append(known, k.MessageKinds()...)
	}
	for _, m := range message.All() {
		bad := func(format string, values ...any) {
			t.Helper()
			t.Errorf("%q: "+format, append([]any{m.Text}, values...)...)
		}
		for _, s := range []string{m.Text, m.When, cmp.Or(m.Remedy, m.When)} {
			if s == "" || !strings.HasSuffix(s, ".") || strings.HasSuffix(s, "..") {
				bad("%q does not end with a full stop", s)
			}
			if first := []rune(s + " ")[0]; !unicode.IsUpper(first) && first != '{' && !strings.HasPrefix(s, "kubectl ") && !strings.HasPrefix(s, "spec.") {
				bad("%q does not begin with a capital letter", s)
			}
		}
		if texts[m.Text] && len(m.Kinds) == 0 {
			bad("is defined twice")
		}
		texts[m.Text] = true
		if strings.Contains(m.Text, "; ") && !strings.Contains(m.Text, "; some") && !strings.Contains(m.Text, "; the operator's log") {
			bad("is joined by a semicolon: write two sentences")
		}
		if strings.Contains(m.Text, "%") {
			bad("has a verb of fmt: write a {placeholder}")
		}
		if len(m.In) == 0 || slices.ContainsFunc(m.In, func(p string) bool { return !place.MatchString(p) }) {
			bad("occurs in %v: write TYPE=STATUS, Event or lastActions", m.In)
		}
		for _, k := range m.Kinds {
			if !slices.Contains(known, k) {
				bad("has the kind %s, must be one of %q", k, known)
			}
		}
	}
}

// Every call that fills a message in has as many values as the message has
// placeholders, and every text of a condition or of a reported error is defined.
func TestMessages_AreUsedWithTheirValues(t *testing.T) {
	const root = "../.."
	files := token.NewFileSet()
	for _, dir := range directories(t, root) {
		packages := map[string]*ast.File{}
		paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(files, path, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			packages[path] = f
		}
		placeholders := map[string]int{}
		for _, f := range packages {
			for name, text := range defined(f) {
				placeholders[name] = strings.Count(text, "{")
			}
		}
		used := map[string]bool{}
		for _, f := range packages {
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CallExpr:
					name, values := filled(n)
					want, ok := placeholders[name]
					if ok && values != want && !n.Ellipsis.IsValid() {
						t.Errorf("%s: %s has %d placeholders and gets %d values", files.Position(n.Pos()), name, want, values)
					}
					if s, ok := n.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "New" && isIdent(s.X, "message") {
						t.Errorf("%s: use message.Define: message.New is for tests", files.Position(n.Pos()))
					}
				case *ast.CompositeLit:
					if text := literal(n); text != "" {
						t.Errorf("%s: %s: define it with message.Define", files.Position(n.Pos()), text)
					}
				case *ast.Ident:
					if n.Obj == nil || n.Obj.Pos() != n.Pos() {
						used[n.Name] = true
					}
				}
				return true
			})
		}
		for name := range placeholders {
			if !used[name] {
				t.Errorf("%s: %s is in docs/conditions.md and never used", dir, name)
			}
		}
	}
}

// directories returns the folders of packages that may report messages.
func directories(t *testing.T, root string) []string {
	t.Helper()
	var all []string
	for _, top := range []string{"pkg", "controllers"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, d os.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return err
			}
			switch d.Name() {
			case "testkit", "testdata", "message", "preflight": // preflight prints a report
				return filepath.SkipDir
			}
			all = append(all, path)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// defined returns the texts of the messages that are variables of a file.
func defined(f *ast.File) map[string]string {
	texts := map[string]string{}
	ast.Inspect(f, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok || len(v.Values) != 1 {
			return true
		}
		call, ok := v.Values[0].(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		if s, ok := call.Fun.(*ast.SelectorExpr); !ok || s.Sel.Name != "Define" {
			return true
		}
		fields, ok := call.Args[0].(*ast.CompositeLit)
		if !ok {
			return true
		}
		for _, e := range fields.Elts {
			if kv := e.(*ast.KeyValueExpr); isIdent(kv.Key, "Text") {
				texts[v.Names[0].Name], _ = strconv.Unquote(kv.Value.(*ast.BasicLit).Value)
			}
		}
		return true
	})
	return texts
}

// filled returns the variable of a message that a call fills in, and the number of
// values: msg.With(values...), msg.Quoting(text, values...) or f(..., msg, values...).
func filled(call *ast.CallExpr) (name string, values int) {
	if s, ok := call.Fun.(*ast.SelectorExpr); ok && (s.Sel.Name == "With" || s.Sel.Name == "Quoting") {
		if x, ok := s.X.(*ast.Ident); ok {
			values := len(call.Args)
			if s.Sel.Name == "Quoting" {
				values--
			}
			return x.Name, values
		}
	}
	for i, a := range call.Args {
		x, ok := a.(*ast.Ident)
		if !ok || !strings.HasPrefix(x.Name, "msg") {
			continue
		}
		if f, ok := call.Fun.(*ast.Ident); ok && f.Name == "refused" {
			return "", 0 // quotes an error
		}
		return x.Name, len(call.Args) - i - 1
	}
	return "", 0
}

// literal returns the text of a condition or of an error that is reported and that
// is not a defined message.
func literal(n *ast.CompositeLit) string {
	s, ok := n.Type.(*ast.SelectorExpr)
	if !ok || !(isIdent(s.X, "conditions") && s.Sel.Name == "Condition" || isIdent(s.X, "fault") && s.Sel.Name == "Error") {
		return ""
	}
	text := ""
	for _, e := range n.Elts {
		kv, ok := e.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		if class, ok := kv.Value.(*ast.SelectorExpr); ok && class.Sel.Name == "Quiet" {
			return "" // never reported
		}
		if !isIdent(kv.Key, "Message") {
			continue
		}
		ast.Inspect(kv.Value, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING && strings.Contains(l.Value, " ") {
				text = l.Value
			}
			return true
		})
	}
	return text
}

func isIdent(e ast.Expr, name string) bool {
	x, ok := e.(*ast.Ident)
	return ok && x.Name == name
}
