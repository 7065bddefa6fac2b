package corpus

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// judged returns the packages with statements that reject objects.
func judged() []string {
	all := []string{"webhooks/policy", "webhooks/validate", "pkg/naming", "pkg/config"}
	for _, k := range Kinds() {
		all = append(all, "webhooks/"+k.Folder)
	}
	return all
}

const root = "../../.."

// TestCampaignGo removes each Go statement that rejects something, in a copy of the
// code, and requires that the corpus detects it. All copies are in one binary; an
// environment variable selects the removed statement. `make campaign-admission`
// runs it.
func TestCampaignGo(t *testing.T) {
	if os.Getenv("CAMPAIGN") == "" {
		t.Skip("a part of make campaign-admission")
	}
	dir := t.TempDir()
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	var mutants []string
	for n, pkg := range judged() {
		files, err := filepath.Glob(filepath.Join(root, pkg, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		name := ""
		for i, file := range files {
			if strings.HasSuffix(file, "_test.go") || filepath.Base(file) == "webhook.go" {
				continue
			}
			text, in, found := mutate(t, file, len(mutants))
			mutants, name = append(mutants, found...), in
			if len(found) == 0 {
				continue
			}
			place(t, overlay.Replace, file, filepath.Join(dir, fmt.Sprintf("%d-%d.go", n, i)), text)
		}
		place(t, overlay.Replace, filepath.Join(root, pkg, "mutant.go"), filepath.Join(dir, fmt.Sprintf("%d.go", n)),
			[]byte("package "+name+"\n\nimport \"os\"\n\nfunc keeps(n string) bool { return os.Getenv(\"MUTANT\") != n }\n"))
	}
	raw, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	list, binary := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "corpus.test")
	if err := os.WriteFile(list, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-overlay", list, "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	corpus := func(missing string) ([]byte, error) {
		cmd := exec.CommandContext(t.Context(), binary, "-test.run", "^TestCorpus$")
		cmd.Env = append(os.Environ(), "MUTANT="+missing)
		return cmd.CombinedOutput()
	}
	if out, err := corpus(""); err != nil {
		t.Fatalf("the corpus fails with nothing missing: %v\n%s", err, out)
	}
	for n, where := range mutants {
		if out, err := corpus(strconv.Itoa(n)); err == nil {
			t.Errorf("no case notices that this is missing: %s", where)
		} else if bytes.Contains(out, []byte("panic:")) {
			t.Logf("%s: the corpus panics without it", where)
		}
	}
	t.Logf("%d statements of %d packages were taken away, one at a time", len(mutants), len(judged()))
}

func place(t *testing.T, into map[string]string, file, copied string, text []byte) {
	t.Helper()
	full, err := filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(copied, text, 0o600); err != nil {
		t.Fatal(err)
	}
	into[full] = copied
}

// mutate makes each statement that collects or returns validation errors depend on
// keeps.
func mutate(t *testing.T, file string, first int) (text []byte, pkg string, mutants []string) {
	t.Helper()
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, file, src, 0)
	if err != nil {
		t.Fatal(err)
	}
	type insert struct {
		at   int
		text string
	}
	var inserts []insert
	around := func(s ast.Stmt, before, after string) {
		from, to := fset.Position(s.Pos()), fset.Position(s.End())
		mutants = append(mutants, fmt.Sprintf("%s:%d: %s", strings.TrimPrefix(file, root+"/"), from.Line, src[from.Offset:to.Offset]))
		inserts = append(inserts, insert{from.Offset, before}, insert{to.Offset, after})
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		condition := fmt.Sprintf("keeps(%q)", strconv.Itoa(first+len(mutants)))
		switch s := n.(type) {
		case *ast.AssignStmt:
			if len(s.Rhs) == 1 && s.Tok == token.ASSIGN && collects(s.Rhs[0]) {
				around(s, "if "+condition+" { ", " }")
				return false
			}
		case *ast.ExprStmt:
			if refuses(s) {
				around(s, "if "+condition+" { ", " }")
				return false
			}
		case *ast.ReturnStmt:
			if len(s.Results) != 1 {
				return true
			}
			switch {
			case collects(s.Results[0]): // return append(errs, …): without the appended errors
				call := s.Results[0].(*ast.CallExpr)
				from, to := fset.Position(call.Args[0].Pos()).Offset, fset.Position(call.Args[0].End()).Offset
				around(s, "if !"+condition+" { return "+string(src[from:to])+" }; ", "")
				return false
			case refuses(s):
				around(s, "if !"+condition+" { return nil }; ", "")
				return false
			}
		}
		return true
	})
	text = bytes.Clone(src)
	for _, in := range slices.Backward(inserts) {
		text = bytes.Join([][]byte{text[:in.at], []byte(in.text), text[in.at:]}, nil)
	}
	return text, parsed.Name.Name, mutants
}

// collects reports whether an expression is append(errs, …) of validation errors.
func collects(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok || len(call.Args) < 2 {
		return false
	}
	if f, ok := call.Fun.(*ast.Ident); !ok || f.Name != "append" {
		return false
	}
	switch into := call.Args[0].(type) {
	case *ast.Ident:
		return into.Name == "errs"
	case *ast.SelectorExpr:
		return into.Sel.Name == "Refused"
	}
	return refuses(call)
}

// refuses reports whether a node creates a validation error of a field.
func refuses(n ast.Node) bool {
	found := false
	ast.Inspect(n, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if s, ok := call.Fun.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "field" && s.Sel.Name != "NewPath" {
					found = true
				}
			}
		}
		return !found
	})
	return found
}
