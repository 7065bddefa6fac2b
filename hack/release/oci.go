package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	title       = "platform-operator"
	description = "WebServer, ImmortalContainer, DemoApplication and Memcached for Kubernetes"
	// tagAnnotation names the tag of an image of a layout, and of nothing else.
	tagAnnotation = "org.opencontainers.image.ref.name"
)

// writeImage writes the image of each architecture, as the Dockerfile describes it, to
// the layout dist/image, and returns the digest of their index.
func (r release) writeImage() (v1.Hash, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range []string{"amd64", "arm64"} {
		image, err := r.image(arch)
		if err != nil {
			return v1.Hash{}, fmt.Errorf("image for %s: %w", arch, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	index = mutate.Annotations(index, r.annotations()).(v1.ImageIndex)
	path, err := layout.Write(filepath.Join(r.dist, "image"), empty.Index)
	if err != nil {
		return v1.Hash{}, fmt.Errorf("writing a layout: %w", err)
	}
	if err := path.AppendIndex(index, layout.WithAnnotations(map[string]string{tagAnnotation: r.version})); err != nil {
		return v1.Hash{}, fmt.Errorf("writing the image: %w", err)
	}
	return index.Digest()
}

func (r release) annotations() map[string]string {
	return map[string]string{
		"org.opencontainers.image.created":     r.created.Format(time.RFC3339),
		"org.opencontainers.image.title":       title,
		"org.opencontainers.image.description": description,
		"org.opencontainers.image.source":      r.source,
		"org.opencontainers.image.version":     r.version,
		"org.opencontainers.image.revision":    r.revision,
		"org.opencontainers.image.licenses":    "Apache-2.0",
	}
}

func (r release) image(arch string) (v1.Image, error) {
	files, err := r.licences("licenses/")
	if err != nil {
		return nil, err
	}
	program, err := os.ReadFile(r.program("platform-operator", "linux", arch))
	if err != nil {
		return nil, err
	}
	var content bytes.Buffer
	if err := writeTar(&content, r.created, append(files, file{"platform-operator", 0o755, program})); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image := mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON), types.OCIManifestSchema1)
	image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{
		Created: v1.Time{Time: r.created}, CreatedBy: "make release",
	}})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", arch, v1.Time{Time: r.created}
	config.Config = v1.Config{Entrypoint: []string{"/platform-operator"}, User: "65532:65532", Labels: r.annotations()}
	return mutate.ConfigFile(image, config)
}

type file struct {
	name    string
	mode    int64
	content []byte
}

func writeTar(w io.Writer, modified time.Time, files []file) error {
	t := tar.NewWriter(w)
	for _, f := range files {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Size: int64(len(f.content)), ModTime: modified}
		if err := t.WriteHeader(header); err != nil {
			return err
		}
		if _, err := t.Write(f.content); err != nil {
			return err
		}
	}
	return t.Close()
}

// writeChart writes the packaged chart to the layout dist/chart, as helm push does to a
// registry.
func (r release) writeChart() error {
	content, err := os.ReadFile(filepath.Join(r.dist, title+"-"+r.version+".tgz"))
	if err != nil {
		return err
	}
	path, err := layout.Write(filepath.Join(r.dist, "chart"), empty.Index)
	if err != nil {
		return fmt.Errorf("writing a layout: %w", err)
	}
	blob := func(mediaType types.MediaType, content []byte) v1.Descriptor {
		hash, size, hashErr := v1.SHA256(bytes.NewReader(content))
		err = errors.Join(err, hashErr, path.WriteBlob(hash, io.NopCloser(bytes.NewReader(content))))
		return v1.Descriptor{MediaType: mediaType, Size: size, Digest: hash}
	}
	manifest := blob(types.OCIManifestSchema1, encode(v1.Manifest{
		SchemaVersion: 2,
		MediaType:     types.OCIManifestSchema1,
		Config: blob("application/vnd.cncf.helm.config.v1+json", encode(map[string]string{
			"apiVersion": "v2", "name": title, "type": "application", "version": r.version, "appVersion": r.version,
		})),
		Layers:      []v1.Descriptor{blob("application/vnd.cncf.helm.chart.content.v1.tar+gzip", content)},
		Annotations: r.annotations(),
	}))
	manifest.Annotations = map[string]string{tagAnnotation: r.version}
	return errors.Join(err, path.AppendDescriptor(manifest))
}

// push uploads dist/image and dist/chart, under the names by which the chart and
// install.yaml find them.
func (r release) push(ctx context.Context) error {
	for folder, repository := range map[string]string{"image": title, "chart": "charts/" + title} {
		index, err := layout.ImageIndexFromPath(filepath.Join(r.dist, folder))
		if err != nil {
			return fmt.Errorf("reading what make release has written: %w", err)
		}
		manifest, err := index.IndexManifest()
		if err != nil {
			return err
		}
		for _, d := range manifest.Manifests {
			if err := pushManifest(ctx, index, d, r.registry+"/"+repository+":"+d.Annotations[tagAnnotation]); err != nil {
				return err
			}
		}
	}
	return nil
}

func pushManifest(ctx context.Context, from v1.ImageIndex, d v1.Descriptor, as string) error {
	ref, err := name.ParseReference(as)
	if err != nil {
		return err
	}
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	var content remote.Taggable
	if d.MediaType.IsIndex() {
		content, err = from.ImageIndex(d.Digest)
	} else {
		content, err = from.Image(d.Digest)
	}
	if err != nil {
		return fmt.Errorf("reading what make release has written: %w", err)
	}
	if err := remote.Push(ref, content, options...); err != nil {
		return fmt.Errorf("pushing %s: %w", as, err)
	}
	fmt.Printf("%s@%s\n", as, d.Digest)
	return nil
}
