package images

import (
	"context"
	_ "embed"
	"fmt"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Discovery is the source of a program that an image can contain.
//
//go:embed discovery/main.go
var Discovery string

// Packages are Debian packages, whose programs an image contains.
type Packages struct {
	Names    []string
	Programs []string // whose libraries must be found
	Remove   []string // globs of files that no container needs
	// Sources are Go programs of one file, by name. They are added to /usr/bin.
	Sources map[string]string
}

// FromPackages returns an image of Debian packages, on the base of all other images.
// It downloads what is missing in a folder, and unpacks it in another.
func FromPackages(ctx context.Context, downloads, work string, p Packages) (v1.Image, error) {
	i := slices.IndexFunc(rootfses(), func(r rootfs) bool { return r.name == baseLayer })
	var layers []v1.Layer
	for _, r := range []rootfs{rootfses()[i], {name: "packages", packages: p.Names, remove: p.Remove, program: p.Programs[0]}} {
		if err := r.build(ctx, downloads, work); err != nil {
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
	root := filepath.Join(work, "packages")
	for _, program := range p.Programs[1:] {
		if err := checkLibraries(filepath.Join(root, program), root, filepath.Join(work, baseLayer)); err != nil {
			return nil, err
		}
	}
	return assemble(v1.Config{
		Env:  []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
		User: "65532:65532",
	}, layers...)
}
