// Package build compiles the programs of the cluster from Go modules into the
// cache. Its version table names every version and, as a hash, the cache
// folder.
package build

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/platform-operator/platform-operator/e2e/cluster/host"
	"github.com/platform-operator/platform-operator/e2e/cluster/safefile"
)

// Builder turns the version table into programs in the cache.
type Builder struct {
	CacheDir string
}

// Ensure builds an artifact unless the cache has it.
func (b Builder) Ensure(ctx context.Context, a Artifact) (detail string, err error) {
	if b.Has(ctx, a) {
		return "cached", nil
	}
	if _, err := exec.LookPath("go"); err != nil {
		return "", errors.New("the go command is not in PATH; it is needed to build " + a.Name)
	}
	if a.CGO {
		if _, err := host.EnsureInstalled(ctx, host.RuncRequirements()); err != nil {
			return "", err
		}
	}
	// Built next to where it goes, then renamed: an interrupted build leaves
	// nothing that looks finished.
	target := filepath.Join(b.CacheDir, a.Dir)
	if err := os.MkdirAll(target, 0o755); err != nil {
		return "", fmt.Errorf("creating the cache folder: %w", err)
	}
	tmp, err := os.MkdirTemp(b.CacheDir, "build-*")
	if err != nil {
		return "", fmt.Errorf("creating a build folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(tmp) }()

	if a.Module != "" {
		err = b.buildModule(ctx, a, tmp)
	} else {
		err = b.install(ctx, a, tmp)
	}
	if err != nil {
		return "", err
	}
	for i, p := range a.Programs {
		if err := os.Rename(filepath.Join(tmp, p), a.Program(b.CacheDir, i)); err != nil {
			return "", fmt.Errorf("moving %s into the cache: %w", p, err)
		}
	}
	if a.Name == ArtifactHyperkube {
		if err := b.link(target, ArtifactHyperkube, hyperkubeNames()...); err != nil {
			return "", err
		}
	}
	return "built", nil
}

// Has reports whether an artifact is in the cache and usable.
func (b Builder) Has(ctx context.Context, a Artifact) bool {
	for i := range a.Programs {
		if _, err := os.Stat(a.Program(b.CacheDir, i)); err != nil {
			return false
		}
	}
	if a.CGO {
		// Linked against the machine's libraries, which may have gone.
		return exec.CommandContext(ctx, a.Program(b.CacheDir, 0), "--version").Run() == nil
	}
	if a.Module != "" {
		// The versions are in the key of the cache folder; our own few lines
		// are not. Without the sources at hand, the existing build is used.
		source, err := moduleSource(a.Module)
		if err != nil {
			return true
		}
		want, err := hashFiles(source, a.Sources...)
		if err != nil {
			return true
		}
		got, err := os.ReadFile(b.sourceStamp(a))
		return err == nil && string(got) == want
	}
	return true
}

func (b Builder) sourceStamp(a Artifact) string { return filepath.Join(b.CacheDir, a.Name+".source") }

// GoEnv makes builds independent of the caller's settings: no workspace, no
// vendoring, no version control stamp.
func GoEnv(cgo bool, extra ...string) []string {
	enabled := "CGO_ENABLED=0"
	if cgo {
		enabled = "CGO_ENABLED=1"
	}
	env := append(os.Environ(), enabled, "GOWORK=off", "GOFLAGS=-buildvcs=false", "GOOS=", "GOARCH=")
	return append(env, extra...)
}

// NoDWARF saves 8% of the compiler's time: the linker drops this information (-s
// -w) anyway. The Makefile uses it for the operator and for this program, too,
// because packages are only shared between builds with the same flags.
const NoDWARF = "-gcflags=all=-dwarf=false"

// install builds programs of a released module.
func (b Builder) install(ctx context.Context, a Artifact, into string) error {
	args := []string{"install", "-trimpath", NoDWARF, "-ldflags", a.LDFlags}
	if a.Tags != "" {
		args = append(args, "-tags", a.Tags)
	}
	for _, p := range a.Packages {
		args = append(args, p+"@"+a.Version)
	}
	// Outside any module: `go install pkg@version` must not read one.
	_, err := host.Run(ctx, host.Options{Dir: into, Env: GoEnv(a.CGO, "GOBIN="+into)}, "go", args...)
	return err
}

// buildModule builds a program in a module next to this one.
func (b Builder) buildModule(ctx context.Context, a Artifact, into string) error {
	source, err := moduleSource(a.Module)
	if err != nil {
		return err
	}
	stamp, err := hashFiles(source, a.Sources...)
	if err != nil {
		return fmt.Errorf("reading the sources of %s: %w", a.Name, err)
	}
	if a.Version == Kubernetes() && a.Version != KubernetesVersion {
		if source, err = b.otherVersion(ctx, source, into, a.Version); err != nil {
			return err
		}
	}
	target := "."
	if len(a.Packages) > 0 {
		target = a.Packages[0]
	}
	_, err = host.Run(ctx, host.Options{Env: GoEnv(false)}, "go", "build", "-C", source,
		"-trimpath", NoDWARF, "-ldflags", a.LDFlags, "-o", filepath.Join(into, a.Programs[0]), target)
	if err != nil {
		return err
	}
	return safefile.Write(b.sourceStamp(a), []byte(stamp), 0o644)
}

// indirect are the requirements that go mod tidy looks up: those of another version may be
// older, and some modules exist in one version only.
var indirect = regexp.MustCompile(`(?m)^.* // indirect\n`)

// otherVersion copies the module of Kubernetes, and makes it require another version. Which
// modules that needs is not committed, but looked up.
func (b Builder) otherVersion(ctx context.Context, source, into, version string) (string, error) {
	dir := filepath.Join(into, "module")
	if err := os.CopyFS(dir, os.DirFS(source)); err != nil {
		return "", fmt.Errorf("copying the module of Kubernetes: %w", err)
	}
	mod, err := os.ReadFile(filepath.Join(source, "go.mod"))
	if err != nil {
		return "", fmt.Errorf("reading the module of Kubernetes: %w", err)
	}
	text := strings.NewReplacer(KubernetesVersion, version, staging(KubernetesVersion), staging(version)).Replace(string(mod))
	text = indirect.ReplaceAllString(text, "")
	if err := safefile.Write(filepath.Join(dir, "go.mod"), []byte(text), 0o644); err != nil {
		return "", err
	}
	_, err = host.Run(ctx, host.Options{Dir: dir, Env: GoEnv(false)}, "go", "mod", "tidy")
	return dir, err
}

// staging returns the version of the modules that are released with a version of Kubernetes.
func staging(version string) string { return strings.Replace(version, "v1.", "v0.", 1) }

// link makes a program in the cache's bin also available in dir, under other names: the
// one binary answers to the names of its components.
func (b Builder) link(dir, program string, names ...string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("creating %s: %w", dir, err)
	}
	binary, err := filepath.Rel(dir, filepath.Join(b.CacheDir, "bin", program))
	if err != nil {
		return fmt.Errorf("linking %s: %w", program, err)
	}
	for _, name := range names {
		link := filepath.Join(dir, name)
		if err := os.Remove(link); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("replacing the link %s: %w", name, err)
		}
		if err := os.Symlink(binary, link); err != nil {
			return fmt.Errorf("linking %s as %s: %w", program, name, err)
		}
	}
	return nil
}

// Assets makes the folder that envtest looks for its programs in.
func (b Builder) Assets() (string, error) {
	dir := filepath.Join(b.CacheDir, "assets")
	return dir, errors.Join(
		b.link(dir, ArtifactHyperkube, "etcd", "kube-apiserver", "kube-controller-manager"),
		b.link(dir, ArtifactKubectl, "kubectl"),
	)
}
