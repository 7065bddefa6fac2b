package addon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/platform-operator/platform-operator/e2e/cluster/build"
	"github.com/platform-operator/platform-operator/e2e/cluster/config"
	"github.com/platform-operator/platform-operator/e2e/cluster/host"
	"github.com/platform-operator/platform-operator/e2e/cluster/images"
	"github.com/platform-operator/platform-operator/e2e/cluster/progress"
	"github.com/platform-operator/platform-operator/e2e/cluster/registry"
	"github.com/platform-operator/platform-operator/e2e/cluster/safefile"
)

// cacheDir is the add-on's folder in the cache. Its name changes with what the
// add-on is made from.
func cacheDir(c config.Config, a Addon) string {
	h := sha256.New()
	p := a.program
	fmt.Fprintln(h, runtime.GOOS, runtime.GOARCH, p.Packages, p.LDFlags, p.Tags, p.CGO, a.image, a.crds)
	if a.packaged() {
		fmt.Fprintln(h, a.packages)
	}
	key := hex.EncodeToString(h.Sum(nil))[:8]
	return filepath.Join(cacheRoot(c), a.Name+"-"+a.version()+"-"+key)
}

// cacheRoot is next to the cache folder of the base, independent of its key.
func cacheRoot(c config.Config) string {
	return filepath.Join(filepath.Dir(filepath.Dir(c.CacheDir)), "addons")
}

func buildAll(ctx context.Context, c config.Config, list []Addon, p *progress.Reporter) error {
	if err := os.MkdirAll(cacheRoot(c), 0o755); err != nil {
		return fmt.Errorf("creating the cache folder: %w", err)
	}
	unlock, err := safefile.Lock(cacheRoot(c)+".lock", p.Out)
	if err != nil {
		return err
	}
	defer unlock()
	for _, a := range list {
		err := p.Run(a.Name+" "+a.version(), a.program.Takes, func() (string, error) { return ensure(ctx, c, a) })
		if err != nil {
			return err
		}
	}
	return nil
}

// ensure fills the add-on's folder unless it is.
func ensure(ctx context.Context, c config.Config, a Addon) (detail string, err error) {
	dir := cacheDir(c, a)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("creating the cache folder: %w", err)
	}
	detail = "cached"
	if a.crds.module != "" {
		if detail, err = a.crds.ensure(ctx, dir, filepath.Join(dir, "crds")); err != nil {
			return "", err
		}
	}
	if !a.runs() {
		return detail, nil
	}
	store := filepath.Join(dir, "image")
	if a.packaged() {
		return a.ensurePackages(ctx, dir, store)
	}
	b := build.Builder{CacheDir: dir}
	if !b.Has(ctx, a.program) {
		// The image has the program in it.
		if err := os.RemoveAll(store); err != nil {
			return "", fmt.Errorf("removing the old image of %s: %w", a.Name, err)
		}
	}
	if detail, err = b.Ensure(ctx, a.program); err != nil {
		return "", err
	}
	if _, err := os.Stat(store); err == nil {
		return detail, nil
	}
	im, err := images.FromBinary(a.program.Program(dir, 0), "")
	if err != nil {
		return "", err
	}
	return detail, a.packImage(ctx, im, dir, store)
}

// ensurePackages makes the image of Debian packages, unless it is there.
func (a Addon) ensurePackages(ctx context.Context, dir, store string) (detail string, err error) {
	if _, err := os.Stat(store); err == nil {
		return "cached", nil
	}
	if _, err := host.EnsureInstalled(ctx, host.ImageRequirements()); err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(dir, "build-*")
	if err != nil {
		return "", fmt.Errorf("creating a build folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }()
	im, err := images.FromPackages(ctx, filepath.Join(work, "downloads"), work, a.packages)
	if err != nil {
		return "", err
	}
	return "built", a.packImage(ctx, im, dir, store)
}

// packImage makes a registry's content of the image, which is compressed
// once and then only linked into each cluster's registry.
func (a Addon) packImage(ctx context.Context, im v1.Image, dir, store string) error {
	tmp, err := os.MkdirTemp(dir, "build-*")
	if err != nil {
		return fmt.Errorf("creating a build folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	s, err := registry.Open(tmp)
	if err != nil {
		return err
	}
	if err := registry.Push(ctx, s.Transport(), a.reference(), im); err != nil {
		return err
	}
	if err := os.Rename(tmp, store); err != nil {
		return fmt.Errorf("moving the image of %s into the cache: %w", a.Name, err)
	}
	return nil
}

func (a Addon) reference() string { return a.image + ":" + a.version() }

// ensure copies the files into a folder, flat, unless it is there.
func (m moduleFiles) ensure(ctx context.Context, dir, target string) (detail string, err error) {
	if _, err := os.Stat(target); err == nil {
		return "cached", nil
	}
	if _, err := exec.LookPath("go"); err != nil {
		return "", errors.New("the go command is not in PATH; it is needed to download " + m.module)
	}
	tmp, err := os.MkdirTemp(dir, "build-*")
	if err != nil {
		return "", fmt.Errorf("creating a build folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	// Outside any module, as in install.
	said, err := host.Run(ctx, host.Options{Dir: tmp, Env: build.GoEnv(false)}, "go", "mod", "download", "-json", m.module+"@"+m.version)
	if err != nil {
		return "", err
	}
	var downloaded struct{ Dir string }
	if err := json.Unmarshal([]byte(said), &downloaded); err != nil {
		return "", fmt.Errorf("downloading %s: %w", m.module, err)
	}
	for _, pattern := range m.files {
		found, err := filepath.Glob(filepath.Join(downloaded.Dir, pattern))
		if err != nil {
			return "", err
		}
		if len(found) == 0 {
			return "", fmt.Errorf("%s %s has no %s", m.module, m.version, pattern)
		}
		for _, file := range found {
			if err := safefile.Copy(file, filepath.Join(tmp, filepath.Base(file)), 0o644); err != nil {
				return "", err
			}
		}
	}
	if err := os.Rename(tmp, target); err != nil {
		return "", fmt.Errorf("moving the files of %s into the cache: %w", m.module, err)
	}
	return "downloaded", nil
}
