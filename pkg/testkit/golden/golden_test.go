package golden

import (
	"bytes"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// withUpdate sets the flag -update until the test ends.
func withUpdate(t *testing.T, on bool) {
	t.Helper()
	before := *update
	*update = on
	t.Cleanup(func() { *update = before })
}

// contents returns the files below the working directory.
func contents(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	if err := fs.WalkDir(os.DirFS("."), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files[path] = string(read(t, path))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return files
}

var cases = map[string]string{"base": fleet, "fewer": edit("replicas: 3", "replicas: 2"), "same": fleet}

func compareAll(t *testing.T) {
	t.Helper()
	CompareCases(t, "base", cases, func(_ *testing.T, content string) []byte { return []byte(content) })
}

func TestCompareCases_UpdateRepairsEveryFile(t *testing.T) {
	t.Chdir(t.TempDir())
	withUpdate(t, true)
	compareAll(t)
	want := contents(t)
	if diff := cmp.Diff([]string{"testdata/base/want.yaml", "testdata/fewer/want.diff", "testdata/same/want.diff"}, slices.Sorted(maps.Keys(want))); diff != "" {
		t.Fatalf("files (-want +got):\n%s", diff)
	}
	for path := range want {
		write(t, path, []byte("kind: Other\n"))
	}
	for _, stale := range []string{"testdata/base/want.diff", "testdata/fewer/want.yaml", "testdata/former/want.diff"} {
		write(t, stale, []byte("stale\n"))
	}
	compareAll(t)
	if diff := cmp.Diff(want, contents(t)); diff != "" {
		t.Errorf("-update leaves (-want +got):\n%s", diff)
	}
}

const inSubprocess = "GOLDEN_COMPARE_IN"

func TestCompareCases_NoticesEveryChange(t *testing.T) {
	if dir := os.Getenv(inSubprocess); dir != "" {
		t.Chdir(dir)
		compareAll(t)
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ file, old, with, want string }{
		"none":                    {file: "base/want.yaml"},
		"base":                    {"base/want.yaml", "web-1", "web-0", "testdata/base/want.yaml; if the change is intended"},
		"base of a difference":    {"base/want.yaml", "replicas: 3", "replicas: 4", "testdata/fewer/want.diff; if the change is intended"},
		"difference":              {"fewer/want.diff", "replicas: 2", "replicas: 1", "testdata/fewer/want.diff; if the change is intended"},
		"difference in its words": {"fewer/want.diff", "@@ spec", "@@ status", "testdata/fewer/want.diff; if the change is intended"},
		"order":                   {"same/want.diff", "= ConfigMap web\n= ControllerRevision web-1\n", "= ControllerRevision web-1\n= ConfigMap web\n", "testdata/same/want.diff; if the change is intended"},
		"file of no case":         {"former/want.diff", "", "", "testdata/former/want.diff belongs to no case"},
		"base as a difference":    {"base/want.diff", "", "", "testdata/base/want.diff belongs to no case"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			t.Chdir(dir)
			withUpdate(t, true)
			compareAll(t)
			*update = false
			file := filepath.Join("testdata", tc.file)
			before, err := os.ReadFile(file)
			if err != nil && tc.old != "" {
				t.Fatal(err)
			}
			write(t, file, bytes.ReplaceAll(before, []byte(tc.old), []byte(tc.with)))
			cmd := exec.Command(self, "-test.run=^TestCompareCases_NoticesEveryChange$")
			cmd.Env = append(os.Environ(), inSubprocess+"="+dir)
			out, err := cmd.CombinedOutput()
			if (err != nil) != (tc.want != "") || !strings.Contains(string(out), tc.want) {
				t.Errorf("error %v, want %q in\n%s", err, tc.want, out)
			}
		})
	}
}

// make update-golden runs the packages whose tests import this one, so that it
// would miss the golden files of a package with a flag of its own.
func TestUpdate_IsDefinedOnlyHere(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	own := `flag.Bool(` + `"update"`
	if err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "bin" || d.Name() == ".git") {
			return filepath.SkipDir
		}
		// The table in docs/security.md is generated from a cluster.
		if d.IsDir() || !strings.HasSuffix(path, ".go") || path == filepath.Join(root, "e2e", "tenant_page_test.go") {
			return nil
		}
		if strings.Contains(string(read(t, path)), own) && filepath.Base(path) != "golden.go" {
			t.Errorf("%s defines its own flag -update; use pkg/testkit/golden", path)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
