package main

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"text/template"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// The images every cluster offers, assembled from Debian packages (unpacked
// only; no package's script is run) and laid out like the official ones.

//go:embed images images.go
var imageRecipe embed.FS

// imagesKey changes with anything the images are made from, this file
// included.
func imagesKey() string {
	h := sha256.New()
	_ = fs.WalkDir(imageRecipe, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := imageRecipe.ReadFile(name)
		fmt.Fprintf(h, "%s %d\n%s", name, len(content), content)
		return err
	})
	h.Write(pauseSource)
	return hex.EncodeToString(h.Sum(nil))[:12]
}

// imageStore is where the finished images are kept, as a registry's content.
func (c config) imageStore() string { return filepath.Join(c.CacheDir, "images-"+imagesKey()) }

// rootfs is a folder to be filled from packages, one layer of an image. Each
// entry of packages may name alternatives, for names that differ between
// Debian releases.
type rootfs struct {
	name     string
	packages []string
	remove   []string // globs of what no container needs
	dirs     []string
	files    map[string]string // target path to file in the recipe
	links    map[string]string
	program  string // whose libraries must be found in this layer or the base
}

const baseLayer = "base"

func rootfses() []rootfs {
	docs := []string{"usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/lintian", "usr/share/vim"}
	return []rootfs{
		{
			// The C library and a shell, shared by all.
			name:     baseLayer,
			packages: []string{"libc6", "libcrypt1", "libssl3|libssl3t64", "zlib1g", "busybox"},
			remove:   append([]string{"usr/lib/*/gconv"}, docs...),
			dirs:     []string{"tmp", "root", "proc", "sys", "dev", "run", "var/log"},
			links:    map[string]string{"var/run": "/run"},
			files:    map[string]string{"etc/passwd": "passwd", "etc/group": "group"},
			program:  "bin/busybox",
		},
		{
			name:     "nginx",
			packages: []string{"nginx", "nginx-common", "libpcre2-8-0"},
			remove: append([]string{
				"etc/init.d", "etc/logrotate.d", "etc/ufw", "etc/default", "lib/systemd", "usr/lib/systemd",
				"etc/nginx/sites-*", "etc/nginx/modules-*", "etc/nginx/snippets", "etc/nginx/nginx.conf",
				"usr/share/nginx/html", "var/www",
			}, docs...),
			dirs: []string{"etc/nginx/conf.d", "var/cache/nginx", "var/log/nginx", "var/lib/nginx", "usr/share/nginx/html"},
			links: map[string]string{
				"var/log/nginx/access.log": "/dev/stdout",
				"var/log/nginx/error.log":  "/dev/stderr",
			},
			files: map[string]string{
				"etc/nginx/conf.d/default.conf": "default.conf",
				"usr/share/nginx/html/50x.html": "50x.html",
			},
			program: "usr/sbin/nginx",
		},
		{
			name: "memcached",
			packages: []string{
				"memcached", "libevent-2.1-7|libevent-2.1-7t64", "libsasl2-2", "libsasl2-modules-db", "libdb5.3|libdb5.3t64",
			},
			remove:  append([]string{"usr/share", "etc", "lib/systemd", "usr/lib/systemd"}, docs...),
			program: "usr/bin/memcached",
		},
		{
			name:     "nginx-exporter",
			packages: []string{"prometheus-nginx-exporter"},
			remove:   append([]string{"etc", "lib/systemd", "usr/lib/systemd"}, docs...),
			links:    map[string]string{"usr/bin/nginx-prometheus-exporter": "prometheus-nginx-exporter"},
			program:  "usr/bin/prometheus-nginx-exporter",
		},
	}
}

// image is a repository of the cluster's registry and its tags.
type image struct {
	repository string
	tags       []string
	layers     []string          // of rootfses
	tagFiles   map[string]string // a further layer of templates that know the tag
	programs   []string          // or: programs of the build folder, as the only layer
	config     v1.Config
}

func catalog() []image {
	path := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	nginx := v1.Config{
		Env: path, Cmd: []string{"nginx", "-g", "daemon off;"},
		StopSignal: "SIGQUIT", ExposedPorts: map[string]struct{}{"80/tcp": {}},
	}
	nginxFiles := map[string]string{"etc/nginx/nginx.conf": "nginx.conf", "usr/share/nginx/html/index.html": "index.html"}
	shell := func(script string) v1.Config {
		c := nginx
		c.Cmd = []string{"sh", "-c", script}
		return c
	}
	return []image{
		{
			repository: "pause", tags: []string{pauseVersion}, programs: []string{"pause"},
			config: v1.Config{Env: path, Entrypoint: []string{"/pause"}, User: "65535:65535"},
		},
		{
			repository: "coredns/coredns", tags: []string{strings.TrimPrefix(coreDNSVersion, "v")}, programs: []string{"coredns"},
			config: v1.Config{Env: path, Entrypoint: []string{"/coredns"}},
		},
		{
			repository: "library/nginx", tags: []string{"1.23.0", "1.23.1", "1.27.3", "1.27.4", "latest"},
			layers: []string{baseLayer, "nginx"}, tagFiles: nginxFiles, config: nginx,
		},
		{
			// A version that cannot start.
			repository: "library/nginx", tags: []string{"crash"},
			layers: []string{baseLayer, "nginx"}, tagFiles: nginxFiles,
			config: shell("echo 'nginx: [emerg] this image always fails' >&2; exit 1"),
		},
		{
			// A version that starts and never answers.
			repository: "library/nginx", tags: []string{"mute"},
			layers: []string{baseLayer, "nginx"}, tagFiles: nginxFiles,
			config: shell("trap 'exit 0' QUIT TERM; echo 'running, not listening'; while :; do sleep 1; done"),
		},
		{
			repository: "library/memcached", tags: []string{"1.6", "1.6.18", "1.4.36-alpine", "latest"},
			layers: []string{baseLayer, "memcached"},
			config: v1.Config{
				Env: path, Cmd: []string{"memcached"}, User: "11211:11211",
				ExposedPorts: map[string]struct{}{"11211/tcp": {}},
			},
		},
		{
			// Debian's is version 0.11. Its flags are the newer ones', except
			// that it gives up when nginx does not answer at the start, and a
			// sidecar is often first. The newer ones go on; trying again for a
			// day is as close as its settings get to that.
			repository: "nginx/nginx-prometheus-exporter", tags: []string{"1.4", "1.4.0", "latest"},
			layers: []string{baseLayer, "nginx-exporter"},
			config: v1.Config{
				Env:        append([]string{"NGINX_RETRIES=86400", "NGINX_RETRY_INTERVAL=1s"}, path...),
				Entrypoint: []string{"/usr/bin/nginx-prometheus-exporter"}, User: "1001:1001",
				ExposedPorts: map[string]struct{}{"9113/tcp": {}},
			},
		},
		{
			repository: "library/busybox", tags: []string{"latest"},
			layers: []string{baseLayer}, config: v1.Config{Env: path, Cmd: []string{"sh"}},
		},
	}
}

// ensureImages builds the image store unless the cache has it.
func (b builder) ensureImages(ctx context.Context) (detail string, err error) {
	target := b.imageStore()
	if _, err := os.Stat(target); err == nil {
		return "cached", nil
	}
	if _, err := ensure(ctx, imageRequirements()); err != nil {
		return "", err
	}
	tmp, err := os.MkdirTemp(b.CacheDir, "build-*")
	if err != nil {
		return "", fmt.Errorf("creating a build folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	if err := b.buildPause(ctx, tmp); err != nil {
		return "", err
	}
	if err := os.Symlink(filepath.Join(b.binDir(), "coredns"), filepath.Join(tmp, "coredns")); err != nil {
		return "", fmt.Errorf("adding coredns: %w", err)
	}
	packages := filepath.Join(b.CacheDir, "packages")
	roots := filepath.Join(tmp, "roots")
	for _, r := range rootfses() {
		if err := r.build(ctx, packages, roots); err != nil {
			return "", fmt.Errorf("assembling the files of %s: %w", r.name, err)
		}
	}
	finished := filepath.Join(tmp, "store")
	s, err := openStore(finished)
	if err != nil {
		return "", err
	}
	count := 0
	layers := map[string]v1.Layer{}
	for _, im := range catalog() {
		for _, tag := range im.tags {
			built, err := im.build(tag, tmp, roots, layers)
			if err != nil {
				return "", fmt.Errorf("building %s:%s: %w", im.repository, tag, err)
			}
			if err := push(ctx, s.transport(), im.repository+":"+tag, built); err != nil {
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

// push uploads an image under a name like library/nginx:latest.
func push(ctx context.Context, transport http.RoundTripper, reference string, im v1.Image) error {
	ref, err := name.NewTag(registryAddress()+"/"+reference, name.Insecure)
	if err != nil {
		return fmt.Errorf("naming %s: %w", reference, err)
	}
	if err := remote.Write(ref, im, remote.WithTransport(transport), remote.WithContext(ctx)); err != nil {
		return fmt.Errorf("pushing %s: %w", reference, err)
	}
	return nil
}

// build fills <roots>/<name>.
func (r rootfs) build(ctx context.Context, packages, roots string) error {
	dir := filepath.Join(roots, r.name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, alternatives := range r.packages {
		deb, err := download(ctx, packages, strings.Split(alternatives, "|"))
		if err != nil {
			return err
		}
		if _, err := run(ctx, runOptions{}, "dpkg", "-x", deb, dir); err != nil {
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
	for _, target := range sortedKeys(r.files) {
		content, err := imageRecipe.ReadFile("images/" + r.files[target])
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
	for _, link := range sortedKeys(r.links) {
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
	return checkLibraries(filepath.Join(dir, r.program), dir, filepath.Join(roots, baseLayer))
}

// download fetches the first of the packages that the machine's Debian has,
// and keeps it.
func download(ctx context.Context, into string, alternatives []string) (string, error) {
	if err := os.MkdirAll(into, 0o755); err != nil {
		return "", err
	}
	var failure error
	for _, pkg := range alternatives {
		pattern := filepath.Join(into, pkg+"_*.deb")
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			return found[0], nil
		}
		if failure = aptGet(ctx, into, "download", "-qq", pkg); failure != nil {
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
	list, err := run(ctx, runOptions{}, filepath.Join(dir, "busybox"), "--list")
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

// checkLibraries finds out now, and not in a crashing container, that a
// package was forgotten.
func checkLibraries(program string, roots ...string) error {
	f, err := elf.Open(program)
	if err != nil {
		return fmt.Errorf("reading %s: %w", program, err)
	}
	defer func() { _ = f.Close() }()
	libraries, err := f.ImportedLibraries()
	if err != nil {
		return fmt.Errorf("reading %s: %w", program, err)
	}
	for _, library := range libraries {
		found := false
		for _, root := range roots {
			for _, pattern := range []string{"lib/*", "usr/lib/*", "lib*", "usr/lib"} {
				matches, _ := filepath.Glob(filepath.Join(root, pattern, library))
				found = found || len(matches) > 0
			}
		}
		if !found {
			return fmt.Errorf("%s needs %s, which no package brought", filepath.Base(program), library)
		}
	}
	return nil
}

// build puts an image together. Layers that tags share are made once.
func (im image) build(tag, programs, roots string, layers map[string]v1.Layer) (v1.Image, error) {
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
	for _, p := range im.programs {
		content, err := os.ReadFile(filepath.Join(programs, p))
		if err != nil {
			return nil, err
		}
		files = append(files, layerFile{path: p, mode: 0o755, content: content})
	}
	for _, target := range sortedKeys(im.tagFiles) {
		t, err := template.ParseFS(imageRecipe, "images/"+im.tagFiles[target])
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

// assemble makes an OCI image. No clock is read: the same content always has
// the same digest.
func assemble(config v1.Config, layers ...v1.Layer) (v1.Image, error) {
	im := mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON), types.OCIManifestSchema1)
	im, err := mutate.AppendLayers(im, layers...)
	if err != nil {
		return nil, fmt.Errorf("adding layers: %w", err)
	}
	file, err := im.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("reading the image configuration: %w", err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Config = "linux", runtime.GOARCH, config
	return mutate.ConfigFile(im, file)
}

// layerFile is one file of a layer.
type layerFile struct {
	path     string
	mode     int64
	modified time.Time // zero: the epoch
	content  []byte
}

// tagTime is a modification time that depends on nothing but the tag. Web
// servers make a page's ETag from its time and size, and two tags' pages must
// not pass for the same page.
func tagTime(tag string) time.Time {
	h := fnv.New32a()
	h.Write([]byte(tag))
	return time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(h.Sum32()%(1<<24)) * time.Second)
}

func filesLayer(files []layerFile) (v1.Layer, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	made := map[string]bool{".": true}
	for _, f := range files {
		if err := writeParents(w, path.Dir(f.path), made); err != nil {
			return nil, err
		}
		modified := f.modified
		if modified.IsZero() {
			modified = time.Unix(0, 0)
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: f.path, Mode: f.mode, Size: int64(len(f.content)), ModTime: modified}
		if err := w.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("writing a layer: %w", err)
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, fmt.Errorf("writing a layer: %w", err)
		}
	}
	return finishLayer(w, &b)
}

func writeParents(w *tar.Writer, dir string, made map[string]bool) error {
	if made[dir] {
		return nil
	}
	if err := writeParents(w, path.Dir(dir), made); err != nil {
		return err
	}
	made[dir] = true
	err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, ModTime: time.Unix(0, 0)})
	if err != nil {
		return fmt.Errorf("writing a layer: %w", err)
	}
	return nil
}

// folderLayer packs a folder: sorted, everything root's, all times zero.
func folderLayer(root string) (v1.Layer, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == root {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		link := ""
		if info.Mode()&fs.ModeSymlink != 0 {
			if link, err = os.Readlink(p); err != nil {
				return err
			}
		}
		header, err := tar.FileInfoHeader(info, link)
		if err != nil {
			return err
		}
		if header.Name, err = filepath.Rel(root, p); err != nil {
			return err
		}
		if d.IsDir() {
			header.Name += "/"
		}
		header.Uid, header.Gid, header.Uname, header.Gname = 0, 0, "", ""
		header.ModTime, header.AccessTime, header.ChangeTime = time.Unix(0, 0), time.Time{}, time.Time{}
		if err := w.WriteHeader(header); err != nil || !info.Mode().IsRegular() {
			return err
		}
		f, err := os.Open(p) //nolint:gosec // G122: a folder we just made, in a place only root can write
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		_, err = io.Copy(w, f)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("packing %s: %w", filepath.Base(root), err)
	}
	return finishLayer(w, &b)
}

func finishLayer(w *tar.Writer, b *bytes.Buffer) (v1.Layer, error) {
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("finishing a layer: %w", err)
	}
	content := b.Bytes()
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content)), nil
	}, tarball.WithMediaType(types.OCILayer))
}
