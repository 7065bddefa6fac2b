package build

import (
	"os"
	"path/filepath"
	"testing"
)

func TestHashFiles_CoversNestedFolders(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	hash := func() string {
		t.Helper()
		h, err := hashFiles(dir, "go.mod", "stub")
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	write("go.mod", "module x\n")
	write("stub/a/a.go", "package a\n")
	before := hash()
	write("other.go", "package x\n")
	if hash() != before {
		t.Error("a file that was not asked for counts")
	}
	write("stub/a/a.go", "package b\n")
	changed := hash()
	if changed == before {
		t.Error("a file deep in a folder does not count")
	}
	write("stub/b/b.go", "package b\n")
	if hash() == changed {
		t.Error("a new file in a folder does not count")
	}
	if _, err := hashFiles(dir, "missing"); err == nil {
		t.Error("a missing file went unnoticed")
	}
}
