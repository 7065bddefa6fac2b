package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// builder turns the version table into programs in the cache.
type builder struct {
	cacheDir string
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
	target := filepath.Join(b.cacheDir, a.dir)
	if err := os.MkdirAll(target, 0o755); err != nil {
		return "", fmt.Errorf("creating the cache folder: %w", err)
	}
	tmp, err := os.MkdirTemp(b.cacheDir, "build-*")
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
		if err := os.Rename(filepath.Join(tmp, p), a.program(b.cacheDir, i)); err != nil {
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
		if _, err := os.Stat(a.program(b.cacheDir, i)); err != nil {
			return false
		}
	}
	if a.cgo {
		// Linked against the machine's libraries, which may have gone.
		return exec.CommandContext(ctx, a.program(b.cacheDir, 0), "--version").Run() == nil
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

func (b builder) sourceStamp(a artifact) string { return filepath.Join(b.cacheDir, a.module+".source") }

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
	binary, err := filepath.Rel(dir, filepath.Join(filepath.Join(b.cacheDir, "bin"), artifactHyperkube))
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
	dir := filepath.Join(b.cacheDir, "assets")
	return dir, b.linkHyperkube(dir, []string{"etcd", "kube-apiserver", "kube-controller-manager", "kubectl"})
}
