// Package golden compares generated output with files in testdata.
package golden

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/platform-operator/platform-operator/pkg/apply"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// File fails the test unless got is the content of the file. With the flag -update
// it writes the file instead.
func File(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		write(t, path, got)
	}
	compare(t, path, read(t, path), got)
}

// CompareCases runs a subtest for each case, which fails unless its documents, as
// returned by render, are those of its golden file. The file of the base case,
// testdata/BASE/want.yaml, contains all its documents. That of another case,
// testdata/CASE/want.diff, contains the differences from the base case, so that it
// shows what the case is about. With the flag -update the files are written
// instead.
func CompareCases[C any](t *testing.T, base string, cases map[string]C, render func(*testing.T, C) []byte) {
	t.Helper()
	if _, ok := cases[base]; !ok {
		t.Fatalf("there is no case %q", base)
	}
	baseFile := filepath.Join("testdata", base, "want.yaml")
	if *update {
		// Before the subtests, of which only some may run, in any order.
		write(t, baseFile, render(t, cases[base]))
	}
	compareNames(t, base, slices.Collect(maps.Keys(cases)))
	from := read(t, baseFile)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := render(t, c)
			if name == base {
				compare(t, baseFile, from, got)
				return
			}
			file := filepath.Join("testdata", name, "want.diff")
			diff, err := difference("../"+base+"/want.yaml", from, got)
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if *update {
				write(t, file, diff)
			}
			compare(t, file, read(t, file), diff)
		})
	}
}

// compareNames fails the test if there are golden files of cases that do not exist.
// With the flag -update it deletes them instead.
func compareNames(t *testing.T, base string, names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "*", "want.*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name, want := filepath.Base(filepath.Dir(file)), "want.diff"
		if name == base {
			want = "want.yaml"
		}
		if slices.Contains(names, name) && filepath.Base(file) == want {
			continue
		}
		if !*update {
			t.Errorf("%s belongs to no case; make update-golden deletes it", file)
			continue
		}
		if err := os.Remove(file); err != nil {
			t.Error(err)
		}
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(path) //nolint:gosec // the path is chosen by the test
	if err != nil {
		t.Fatalf("%v; make update-golden writes it", err)
	}
	return raw
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o644); err != nil { //nolint:gosec // it is committed with the code
		t.Fatal(err)
	}
}

func compare(t *testing.T, path string, want, got []byte) {
	t.Helper()
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s; if the change is intended, run make update-golden (-want +got):\n%s", path, diff)
	}
}

// Cases returns the documents of every testdata/*/in.yaml by the name of the
// folder.
func Cases(t *testing.T) map[string][]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "*", "in.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases under testdata: %v", err)
	}
	all := map[string][]string{}
	for _, f := range files {
		raw, err := os.ReadFile(f) //nolint:gosec // the path is chosen by the test
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(filepath.Dir(f))] = strings.Split(string(raw), "\n---\n")
	}
	return all
}

// Children returns the children of an object as they would be sent, and one line
// for each that would be deleted. It is generated from their JSON, because {}
// differs from an absent field in a pod template.
func Children(t *testing.T, owner client.Object, gvk metav1.GroupVersionKind, intents []apply.Intent, prune []client.Object) []byte {
	t.Helper()
	var docs [][]byte
	for _, in := range intents {
		raw, err := in.Object(owner, gvk)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := yaml.JSONToYAML(raw)
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, doc)
	}
	for _, p := range prune {
		docs = append(docs, fmt.Appendf(nil, "# deleted: %T %s\n", p, p.GetName()))
	}
	return bytes.Join(docs, []byte("---\n"))
}
