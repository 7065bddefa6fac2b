// Package golden compares what code makes with files under testdata.
package golden

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/platform-operator/platform-operator/pkg/apply"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// File fails the test unless got is what the file holds. With the flag -update
// it writes the file instead.
func File(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil { //nolint:gosec // it is read by whoever reads the code
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path) //nolint:gosec // the path is the test's own
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s; if it is meant: go test -update (-want +got):\n%s", path, diff)
	}
}

// Cases are the documents of every testdata/*/in.yaml, by the name of its
// folder.
func Cases(t *testing.T) map[string][]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "*", "in.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases under testdata: %v", err)
	}
	all := map[string][]string{}
	for _, f := range files {
		raw, err := os.ReadFile(f) //nolint:gosec // the path is the test's own
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(filepath.Dir(f))] = strings.Split(string(raw), "\n---\n")
	}
	return all
}

// Children are an object's children as they would be sent, and a line for each
// that would be deleted. It is made from their JSON, because {} and an absent
// field are not the same in a pod template.
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
