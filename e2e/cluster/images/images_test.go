package images

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/platform-operator/platform-operator/e2e/cluster/build"
)

// The same files give the same digest, whenever they were written.
func TestFolderLayer_IsDeterministic(t *testing.T) {
	digest := func(stamp time.Time) v1.Hash {
		dir := t.TempDir()
		for _, file := range []string{"b/two", "a/one"} {
			path := filepath.Join(dir, file)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(file), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(path, stamp, stamp); err != nil {
				t.Fatal(err)
			}
		}
		layer, err := folderLayer(dir)
		if err != nil {
			t.Fatal(err)
		}
		im, err := assemble(v1.Config{Cmd: []string{"x"}}, layer)
		if err != nil {
			t.Fatal(err)
		}
		d, err := im.Digest()
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	if a, b := digest(time.Unix(1, 0)), digest(time.Now()); a != b {
		t.Errorf("digests differ: %s, %s", a, b)
	}
}

// The same program gives the same image, wherever it lies and whenever it was
// built; another one does not.
func TestFromBinary_IsDeterministic(t *testing.T) {
	digest := func(lastByte byte, stamp time.Time) v1.Hash {
		// The least that is a Linux program: a header that names no segments.
		header := append([]byte("\x7fELF\x02\x01\x01"), make([]byte, 64-7)...)
		header[16], header[18], header[20], header[52] = 2, 62, 1, 64
		binary := filepath.Join(t.TempDir(), "operator")
		if err := os.WriteFile(binary, append(header, lastByte), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(binary, stamp, stamp); err != nil {
			t.Fatal(err)
		}
		im, err := FromBinary(binary, "")
		if err != nil {
			t.Fatal(err)
		}
		d, err := im.Digest()
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	first := digest(1, time.Unix(1, 0))
	if again := digest(1, time.Now()); first != again {
		t.Errorf("digests differ: %s, %s", first, again)
	}
	if other := digest(2, time.Unix(1, 0)); first == other {
		t.Error("two programs have the same digest")
	}
}

func TestCatalog_TagsDiffer(t *testing.T) {
	roots := t.TempDir()
	for _, r := range rootfses() {
		if err := os.MkdirAll(filepath.Join(roots, r.name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[string]string{}
	layers := map[string]v1.Layer{}
	for _, im := range catalog() {
		for _, tag := range im.tags {
			built, err := im.build(tag, roots, layers)
			if err != nil {
				t.Fatal(err)
			}
			digest, err := built.Digest()
			if err != nil {
				t.Fatal(err)
			}
			if other, ok := seen[digest.String()]; ok {
				t.Errorf("%s:%s is the same image as %s", im.repository, tag, other)
			}
			seen[digest.String()] = im.repository + ":" + tag
		}
	}
}

func TestFromBinary_ChecksProgramAndEntrypoint(t *testing.T) {
	dir := t.TempDir()
	source := filepath.Join(dir, "main.go")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "tiny")
	cmd := exec.Command("go", "build", "-o", binary, source)
	cmd.Env = build.GoEnv(false)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	im, err := FromBinary(binary, "/manager")
	if err != nil {
		t.Fatal(err)
	}
	file, err := im.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if file.Config.User != "65532:65532" || len(file.Config.Entrypoint) != 1 || file.Config.Entrypoint[0] != "/manager" {
		t.Errorf("unexpected configuration: %+v", file.Config)
	}

	for _, entrypoint := range []string{"manager", "/", "/../x"} {
		if _, err := FromBinary(binary, entrypoint); err == nil {
			t.Errorf("entrypoint %q was accepted", entrypoint)
		}
	}
	if _, err := FromBinary(source, ""); err == nil || !strings.Contains(err.Error(), "not a Linux program") {
		t.Errorf("a text file was accepted: %v", err)
	}
}
