// Package images builds the container images every cluster offers, from Debian
// packages (unpacked only; no package's script is run) and laid out like the
// official ones, and images of single programs. The same content always has
// the same digest.
package images

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/platform-operator/platform-operator/e2e/cluster/host"
	"github.com/platform-operator/platform-operator/e2e/cluster/registry"
)

// imageRecipe is what the images are made from, the code that does it included.
//
//go:embed 50x.html default.conf group index.html nginx.conf passwd build.go catalog.go layers.go
var imageRecipe embed.FS

// key changes with anything the images are made from.
func key() string {
	h := sha256.New()
	_ = fs.WalkDir(imageRecipe, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := imageRecipe.ReadFile(name)
		fmt.Fprintf(h, "%s %d\n%s", name, len(content), content)
		return err
	})
	return hex.EncodeToString(h.Sum(nil))[:12]
}

// Store is where the finished images are kept, as a registry's content.
func Store(cacheDir string) string { return filepath.Join(cacheDir, "images-"+key()) }

// Ensure builds the image store unless the cache has it.
func Ensure(ctx context.Context, cacheDir string) (detail string, err error) {
	target := Store(cacheDir)
	if _, err := os.Stat(target); err == nil {
		return "cached", nil
	}
	if _, err := host.EnsureInstalled(ctx, host.ImageRequirements()); err != nil {
		return "", err
	}
	tmp, err := os.MkdirTemp(cacheDir, "build-*")
	if err != nil {
		return "", fmt.Errorf("creating a build folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	packages := source{folder: filepath.Join(cacheDir, "packages")}
	roots := filepath.Join(tmp, "roots")
	for _, r := range rootfses() {
		if err := r.build(ctx, packages, roots); err != nil {
			return "", fmt.Errorf("assembling the files of %s: %w", r.name, err)
		}
	}
	finished := filepath.Join(tmp, "store")
	s, err := registry.Open(finished)
	if err != nil {
		return "", err
	}
	count := 0
	layers := map[string]v1.Layer{}
	for _, im := range catalog() {
		for _, tag := range im.tags {
			built, err := im.build(tag, roots, layers)
			if err != nil {
				return "", fmt.Errorf("building %s:%s: %w", im.repository, tag, err)
			}
			if err := registry.Push(ctx, s.Transport(), im.repository+":"+tag, built); err != nil {
				return "", err
			}
			count++
		}
	}
	if err := os.Rename(finished, target); err != nil {
		return "", fmt.Errorf("moving the images into the cache: %w", err)
	}
	return fmt.Sprintf("built %d", count), nil
}

// build fills <roots>/<name>.
func (r rootfs) build(ctx context.Context, packages source, roots string) error {
	dir := filepath.Join(roots, r.name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	// Since Debian 13, packages rely on these links, which no package in an image brings.
	if packages.configuration != "" && r.name == baseLayer {
		for _, d := range []string{"bin", "sbin", "lib", "lib64"} {
			if err := errors.Join(os.MkdirAll(filepath.Join(dir, "usr", d), 0o755), os.Symlink("usr/"+d, filepath.Join(dir, d))); err != nil {
				return err
			}
		}
	}
	for _, alternatives := range r.packages {
		deb, err := packages.download(ctx, strings.Split(alternatives, "|"))
		if err != nil {
			return err
		}
		if _, err := host.Run(ctx, host.Options{}, "dpkg", "-x", deb, dir); err != nil {
			return err
		}
	}
	for _, pattern := range r.remove {
		matches, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return err
		}
		for _, m := range matches {
			if err := os.RemoveAll(m); err != nil {
				return err
			}
		}
	}
	for _, d := range r.dirs {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return err
		}
	}
	for _, target := range slices.Sorted(maps.Keys(r.files)) {
		content, err := imageRecipe.ReadFile(r.files[target])
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, target)), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, target), content, 0o644); err != nil {
			return err
		}
	}
	for _, link := range slices.Sorted(maps.Keys(r.links)) {
		if err := os.Symlink(r.links[link], filepath.Join(dir, link)); err != nil {
			return err
		}
	}
	if r.name == baseLayer {
		if err := os.Chmod(filepath.Join(dir, "tmp"), 0o777|os.ModeSticky); err != nil {
			return err
		}
		if err := linkBusybox(ctx, filepath.Join(dir, "bin")); err != nil {
			return err
		}
	}
	return nil
}

// source is a folder of packages, and the configuration of apt-get that fills it, if
// they are not of the machine's Debian.
type source struct{ folder, configuration string }

// download fetches the first of the packages that the Debian has, and keeps it.
func (s source) download(ctx context.Context, alternatives []string) (string, error) {
	into := s.folder
	if err := os.MkdirAll(into, 0o755); err != nil {
		return "", err
	}
	var failure error
	for _, pkg := range alternatives {
		pattern := filepath.Join(into, pkg+"_*.deb")
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			return found[0], nil
		}
		if failure = host.AptGet(ctx, into, s.configuration, "download", "-qq", pkg); failure != nil {
			continue
		}
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			return found[0], nil
		}
		failure = fmt.Errorf("apt-get download %s left no file", pkg)
	}
	return "", failure
}

// linkBusybox makes the shell's commands.
func linkBusybox(ctx context.Context, dir string) error {
	// With its own C library: that of the machine may be older.
	list, err := host.Run(ctx, host.Options{}, "chroot", filepath.Dir(dir), "/bin/busybox", "--list")
	if err != nil {
		return err
	}
	for command := range strings.FieldsSeq(list) {
		if err := os.Symlink("busybox", filepath.Join(dir, command)); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// build assembles an image. Layers that tags share are built once.
func (im image) build(tag, roots string, layers map[string]v1.Layer) (v1.Image, error) {
	var all []v1.Layer
	for _, l := range im.layers {
		if layers[l] == nil {
			layer, err := folderLayer(filepath.Join(roots, l))
			if err != nil {
				return nil, err
			}
			layers[l] = layer
		}
		all = append(all, layers[l])
	}
	var files []layerFile
	for _, target := range slices.Sorted(maps.Keys(im.tagFiles)) {
		t, err := template.ParseFS(imageRecipe, im.tagFiles[target])
		if err != nil {
			return nil, err
		}
		var b bytes.Buffer
		if err := t.Execute(&b, map[string]string{"Tag": tag}); err != nil {
			return nil, err
		}
		files = append(files, layerFile{path: target, mode: 0o644, modified: tagTime(tag), content: b.Bytes()})
	}
	if len(files) > 0 {
		layer, err := filesLayer(files)
		if err != nil {
			return nil, err
		}
		all = append(all, layer)
	}
	config := im.config
	// Makes every tag an image of its own, even where the files are the same.
	config.Labels = map[string]string{"org.opencontainers.image.version": tag}
	return assemble(config, all...)
}
