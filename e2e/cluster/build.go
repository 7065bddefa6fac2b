package main

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// builder turns the version table into programs in the cache.
type builder struct {
	config
}

// ensure builds an artifact unless the cache has it.
func (b builder) ensure(ctx context.Context, a artifact) (detail string, err error) {
	if b.has(ctx, a) {
		return "cached", nil
	}
	if _, err := exec.LookPath("go"); err != nil {
		return "", errors.New("the go command is not in PATH; it is needed to build " + a.name)
	}
	if a.cgo {
		if _, err := ensure(ctx, runcRequirements()); err != nil {
			return "", err
		}
	}
	// Built next to where it goes, then renamed: an interrupted build leaves
	// nothing that looks finished.
	target := filepath.Join(b.CacheDir, a.dir)
	if err := os.MkdirAll(target, 0o755); err != nil {
		return "", fmt.Errorf("creating the cache folder: %w", err)
	}
	tmp, err := os.MkdirTemp(b.CacheDir, "build-*")
	if err != nil {
		return "", fmt.Errorf("creating a build folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(tmp) }()

	if a.module != "" {
		err = b.buildModule(ctx, a, tmp)
	} else {
		err = b.install(ctx, a, tmp)
	}
	if err != nil {
		return "", err
	}
	for i, p := range a.programs {
		if err := os.Rename(filepath.Join(tmp, p), a.program(b.CacheDir, i)); err != nil {
			return "", fmt.Errorf("moving %s into the cache: %w", p, err)
		}
	}
	if a.name == artifactHyperkube {
		if err := b.linkHyperkube(target, hyperkubeNames()); err != nil {
			return "", err
		}
	}
	return "built", nil
}

// has reports whether an artifact is in the cache and usable.
func (b builder) has(ctx context.Context, a artifact) bool {
	for i := range a.programs {
		if _, err := os.Stat(a.program(b.CacheDir, i)); err != nil {
			return false
		}
	}
	if a.cgo {
		// Linked against the machine's libraries, which may have gone.
		return exec.CommandContext(ctx, a.program(b.CacheDir, 0), "--version").Run() == nil
	}
	if a.module != "" {
		// The versions are in the key of the cache folder; our own few lines
		// are not. Without the sources at hand, what is there is used.
		source, err := moduleSource(a.module)
		if err != nil {
			return true
		}
		want, err := hashFiles(source, a.sources...)
		if err != nil {
			return true
		}
		got, err := os.ReadFile(b.sourceStamp(a))
		return err == nil && string(got) == want
	}
	return true
}

func (b builder) sourceStamp(a artifact) string { return filepath.Join(b.CacheDir, a.module+".source") }

// goEnv makes builds independent of the caller's settings: no workspace, no
// vendoring, no version control stamp.
func goEnv(cgo bool, extra ...string) []string {
	enabled := "CGO_ENABLED=0"
	if cgo {
		enabled = "CGO_ENABLED=1"
	}
	env := append(os.Environ(), enabled, "GOWORK=off", "GOFLAGS=-buildvcs=false", "GOOS=", "GOARCH=")
	return append(env, extra...)
}

// install builds programs of a released module.
func (b builder) install(ctx context.Context, a artifact, into string) error {
	args := []string{"install", "-trimpath", "-ldflags", a.ldflags}
	if a.tags != "" {
		args = append(args, "-tags", a.tags)
	}
	for _, p := range a.packages {
		args = append(args, p+"@"+a.version)
	}
	// Outside any module: `go install pkg@version` must not read one.
	_, err := run(ctx, runOptions{dir: into, env: goEnv(a.cgo, "GOBIN="+into)}, "go", args...)
	return err
}

// buildModule builds a program in a module next to this one.
func (b builder) buildModule(ctx context.Context, a artifact, into string) error {
	source, err := moduleSource(a.module)
	if err != nil {
		return err
	}
	stamp, err := hashFiles(source, a.sources...)
	if err != nil {
		return fmt.Errorf("reading the sources of %s: %w", a.name, err)
	}
	target := "."
	if len(a.packages) > 0 {
		target = a.packages[0]
	}
	_, err = run(ctx, runOptions{env: goEnv(false)}, "go", "build", "-C", source,
		"-trimpath", "-ldflags", a.ldflags, "-o", filepath.Join(into, a.programs[0]), target)
	if err != nil {
		return err
	}
	return writeFileAtomic(b.sourceStamp(a), []byte(stamp), 0o644)
}

// linkHyperkube makes the one binary answer to the components' names.
func (b builder) linkHyperkube(dir string, names []string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("creating %s: %w", dir, err)
	}
	binary, err := filepath.Rel(dir, filepath.Join(b.binDir(), artifactHyperkube))
	if err != nil {
		return fmt.Errorf("linking hyperkube: %w", err)
	}
	for _, name := range names {
		link := filepath.Join(dir, name)
		if err := os.Remove(link); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("replacing the link %s: %w", name, err)
		}
		if err := os.Symlink(binary, link); err != nil {
			return fmt.Errorf("linking hyperkube as %s: %w", name, err)
		}
	}
	return nil
}

// assets makes the folder that envtest looks for its programs in.
func (b builder) assets() (string, error) {
	dir := filepath.Join(b.CacheDir, "assets")
	return dir, b.linkHyperkube(dir, []string{"etcd", "kube-apiserver", "kube-controller-manager", "kubectl"})
}

//go:embed pause/main.go
var pauseSource []byte

// buildPause compiles the pause program into a folder.
func (b builder) buildPause(ctx context.Context, into string) error {
	src, err := os.MkdirTemp(b.CacheDir, "build-*")
	if err != nil {
		return fmt.Errorf("creating a build folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(src) }()
	for name, content := range map[string][]byte{"main.go": pauseSource, "go.mod": []byte("module pause\n\ngo 1.26.0\n")} {
		if err := os.WriteFile(filepath.Join(src, name), content, 0o644); err != nil {
			return fmt.Errorf("writing pause's source: %w", err)
		}
	}
	_, err = run(ctx, runOptions{env: goEnv(false)}, "go", "build", "-C", src, "-trimpath", "-ldflags", "-s -w",
		"-o", filepath.Join(into, "pause"), ".")
	return err
}

// moduleSource finds a nested module (hyperkube, traefik) of the checkout this
// binary was built from, or is started in.
//
// It is looked for on disk and not embedded: go:embed cannot reach into a
// nested module, and it has to be a real module, with a go.mod of that name,
// for the usual tools (go mod tidy, update bots, vulnerability scanners) to
// see what it pins. Once built, the sources are not needed again.
func moduleSource(module string) (string, error) {
	var starts []string
	if exe, err := os.Executable(); err == nil {
		if exe, err = filepath.EvalSymlinks(exe); err == nil {
			starts = append(starts, filepath.Dir(exe))
		}
	}
	if wd, err := os.Getwd(); err == nil {
		starts = append(starts, wd)
	}
	for _, dir := range starts {
		for {
			for _, sub := range []string{module, "e2e/cluster/" + module} {
				candidate := filepath.Join(dir, sub)
				mod, err := os.ReadFile(filepath.Join(candidate, "go.mod"))
				if err == nil && strings.Contains(string(mod), "/e2e/cluster/"+module+"\n") {
					return candidate, nil
				}
			}
			parent := filepath.Dir(dir)
			if parent == dir {
				break
			}
			dir = parent
		}
	}
	return "", fmt.Errorf("cannot find e2e/cluster/%s above %s; run from inside the checkout", module, strings.Join(starts, " or "))
}

// hashFiles is a fingerprint of some files of a folder, and of whole folders
// below it.
func hashFiles(dir string, names ...string) (string, error) {
	h := sha256.New()
	for _, name := range names {
		err := fs.WalkDir(os.DirFS(dir), name, func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			content, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil {
				return err
			}
			fmt.Fprintf(h, "%s %d\n", file, len(content))
			h.Write(content)
			return nil
		})
		if err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
