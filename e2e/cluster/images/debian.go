package images

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/platform-operator/platform-operator/e2e/cluster/host"
)

// Discovery is the source of a program that an image can contain.
//
//go:embed discovery/main.go
var Discovery string

// Packages are Debian packages that an image contains.
type Packages struct {
	Names  []string
	Remove []string // globs of files that no container needs
	// Sources are Go programs of one file, by name. They are added to /usr/bin.
	Sources map[string]string
}

// FromPackages returns an image of Debian packages, on the base of all other images.
// It downloads what is missing in a folder, and unpacks it in another.
func FromPackages(ctx context.Context, downloads, work string, p Packages) (v1.Image, error) {
	i := slices.IndexFunc(rootfses(), func(r rootfs) bool { return r.name == baseLayer })
	var layers []v1.Layer
	for _, r := range []rootfs{rootfses()[i], {name: "packages", packages: p.Names, remove: p.Remove}} {
		if err := r.build(ctx, source{folder: downloads}, work); err != nil {
			return nil, fmt.Errorf("assembling the files of %s: %w", r.name, err)
		}
		root := filepath.Join(work, r.name)
		if r.name != baseLayer {
			for name, source := range p.Sources {
				if err := compile(ctx, work, filepath.Join(root, "usr", "bin"), name, []byte(source)); err != nil {
					return nil, err
				}
			}
		}
		layer, err := folderLayer(root)
		if err != nil {
			return nil, err
		}
		layers = append(layers, layer)
	}
	return assemble(v1.Config{
		Env:  []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
		User: "65532:65532",
	}, layers...)
}

// FromSuite returns an image of the catalog, such as library/nginx, from the packages of
// another release of Debian than the machine's. The packages are kept in a folder.
func FromSuite(ctx context.Context, suite, repository, tag, folder string) (v1.Image, error) {
	i := slices.IndexFunc(catalog(), func(im image) bool { return im.repository == repository })
	if i < 0 || len(catalog()[i].layers) == 0 {
		return nil, fmt.Errorf("no image of packages is called %s", repository)
	}
	im := catalog()[i]
	packages := source{folder: folder, configuration: filepath.Join(folder, "apt.conf")}
	if err := configureApt(ctx, suite, packages); err != nil {
		return nil, err
	}
	work, err := os.MkdirTemp(folder, "build-*")
	if err != nil {
		return nil, fmt.Errorf("creating a build folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }()
	for _, r := range rootfses() {
		if slices.Contains(im.layers, r.name) {
			if err := r.build(ctx, packages, work); err != nil {
				return nil, fmt.Errorf("assembling the files of %s: %w", r.name, err)
			}
		}
	}
	return im.build(tag, work, map[string]v1.Layer{})
}

// configureApt writes a configuration of apt-get with lists of its own, from the mirror
// that the machine uses.
func configureApt(ctx context.Context, suite string, s source) error {
	targets, err := host.Run(ctx, host.Options{}, "apt-get", "indextargets", "--format", "$(REPO_URI)", "Identifier: Packages")
	if err != nil {
		return err
	}
	uris := strings.Fields(targets)
	i := slices.IndexFunc(uris, func(uri string) bool { return strings.HasSuffix(strings.TrimSuffix(uri, "/"), "/debian") })
	if i < 0 {
		return errors.New("apt-get knows no mirror of Debian")
	}
	list := filepath.Join(s.folder, "sources.list")
	settings := fmt.Sprintf(`Dir::Etc::sourcelist "%[1]s/sources.list";
Dir::Etc::sourceparts "-";
Dir::State::lists "%[1]s/lists";
Dir::State::status "/dev/null";
Dir::Cache "%[1]s/cache";
`, s.folder)
	return errors.Join(
		os.MkdirAll(filepath.Join(s.folder, "lists", "partial"), 0o755),
		os.MkdirAll(filepath.Join(s.folder, "cache", "archives", "partial"), 0o755),
		os.WriteFile(list, []byte("deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] "+uris[i]+" "+suite+" main\n"), 0o644),
		os.WriteFile(s.configuration, []byte(settings), 0o644),
	)
}
