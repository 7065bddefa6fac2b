package main

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
)

// addonDir is the add-on's folder in the cache. Its name changes with what the
// add-on is made from.
func addonDir(c config, a addon) string {
	h := sha256.New()
	p := a.program
	fmt.Fprintln(h, runtime.GOOS, runtime.GOARCH, p.packages, p.ldflags, p.tags, p.cgo, a.image, a.crds)
	key := hex.EncodeToString(h.Sum(nil))[:8]
	return filepath.Join(addonsDir(c), a.name+"-"+a.version()+"-"+key)
}

// addonsDir is beside the folder the base is in, whatever its key.
func addonsDir(c config) string {
	return filepath.Join(filepath.Dir(filepath.Dir(c.CacheDir)), "addons")
}

func buildAddons(ctx context.Context, c config, list []addon, p *progress) error {
	if err := os.MkdirAll(addonsDir(c), 0o755); err != nil {
		return fmt.Errorf("creating the cache folder: %w", err)
	}
	unlock, err := lock(addonsDir(c)+".lock", p.out)
	if err != nil {
		return err
	}
	defer unlock()
	for _, a := range list {
		err := p.run(a.name+" "+a.version(), a.program.takes, func() (string, error) { return ensureAddon(ctx, c, a) })
		if err != nil {
			return err
		}
	}
	return nil
}

// ensureAddon fills the add-on's folder unless it is.
func ensureAddon(ctx context.Context, c config, a addon) (detail string, err error) {
	dir := addonDir(c, a)
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
	b, store := builder{cacheDir: dir}, filepath.Join(dir, "image")
	if !b.has(ctx, a.program) {
		// The image has the program in it.
		if err := os.RemoveAll(store); err != nil {
			return "", fmt.Errorf("removing the old image of %s: %w", a.name, err)
		}
	}
	if detail, err = b.ensure(ctx, a.program); err != nil {
		return "", err
	}
	if _, err := os.Stat(store); err == nil {
		return detail, nil
	}
	return detail, a.packImage(ctx, a.program.program(dir, 0), dir, store)
}

// packImage makes a registry's content of the program, which is compressed
// once and then only linked into each cluster's registry.
func (a addon) packImage(ctx context.Context, program, dir, store string) error {
	im, err := binaryImage(program, "")
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(dir, "build-*")
	if err != nil {
		return fmt.Errorf("creating a build folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	s, err := openStore(tmp)
	if err != nil {
		return err
	}
	if err := push(ctx, s.transport(), a.reference(), im); err != nil {
		return err
	}
	if err := os.Rename(tmp, store); err != nil {
		return fmt.Errorf("moving the image of %s into the cache: %w", a.name, err)
	}
	return nil
}

func (a addon) reference() string { return a.image + ":" + a.program.version }

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
	said, err := run(ctx, runOptions{dir: tmp, env: goEnv(false)}, "go", "mod", "download", "-json", m.module+"@"+m.version)
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
			if err := copyFile(file, filepath.Join(tmp, filepath.Base(file)), 0o644); err != nil {
				return "", err
			}
		}
	}
	if err := os.Rename(tmp, target); err != nil {
		return "", fmt.Errorf("moving the files of %s into the cache: %w", m.module, err)
	}
	return "downloaded", nil
}
