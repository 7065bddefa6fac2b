package main

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// loadOptions say where an image comes from.
type loadOptions struct {
	binary     string
	entrypoint string
	tar        string
}

// load makes an image available to the cluster's nodes under a name, and
// returns its digest.
func load(ctx context.Context, c config, reference string, o loadOptions, notice io.Writer) (string, error) {
	s, err := readSpec(c)
	if err != nil {
		return "", err
	}
	if s.ControlPlaneOnly {
		return "", errors.New("this cluster runs no pods (--control-plane-only), so it takes no images")
	}
	ref, err := name.NewTag(reference)
	if err != nil {
		return "", fmt.Errorf("%q is not an image name with a tag: %w", reference, err)
	}
	var im v1.Image
	if o.tar != "" {
		im, err = tarball.ImageFromPath(o.tar, nil)
		if err != nil {
			return "", fmt.Errorf("reading %s: %w", o.tar, err)
		}
	} else if im, err = binaryImage(o.binary, o.entrypoint); err != nil {
		return "", err
	}
	digest, err := im.Digest()
	if err != nil {
		return "", fmt.Errorf("reading the image of %s: %w", reference, err)
	}
	if err := pushToCluster(ctx, c, ref.RepositoryStr()+":"+ref.TagStr(), im); err != nil {
		return "", err
	}
	// A node that pulled this name before would not look again.
	full := canonicalName(ref)
	for n := 1; n <= s.Nodes; n++ {
		if err := newNodeClient(c, n).post(ctx, pathForget, "image", full); err != nil {
			fmt.Fprintf(notice, "%s may go on using an older %s: %v\n", nodeName(n), reference, err)
		}
	}
	return digest.String(), nil
}

// pushToCluster uploads an image to the registry of the running cluster.
func pushToCluster(ctx context.Context, c config, reference string, im v1.Image) error {
	err := push(ctx, unixTransport(c.registrySocket(controlNode)), reference, im)
	if err != nil && (errors.Is(err, os.ErrNotExist) || strings.Contains(err.Error(), "connection refused")) {
		return errors.New("the cluster's registry does not answer; start it with: cluster start registry")
	}
	return err
}

// canonicalName is how containerd calls an image: the library's name for
// Docker's registry is another one.
func canonicalName(ref name.Tag) string {
	host := ref.RegistryStr()
	if host == name.DefaultRegistry {
		host = "docker.io"
	}
	return host + "/" + ref.RepositoryStr() + ":" + ref.TagStr()
}

// binaryImage is an image of nothing but one program, run as nobody special.
func binaryImage(binary, entrypoint string) (v1.Image, error) {
	if entrypoint == "" {
		entrypoint = "/" + filepath.Base(binary)
	}
	if !path.IsAbs(entrypoint) || path.Clean(entrypoint) != entrypoint || entrypoint == "/" {
		return nil, fmt.Errorf("--entrypoint %q: must be an absolute path inside the image, like /manager", entrypoint)
	}
	if err := checkStatic(binary); err != nil {
		return nil, err
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		return nil, fmt.Errorf("reading the program: %w", err)
	}
	layer, err := filesLayer([]layerFile{{path: strings.TrimPrefix(entrypoint, "/"), mode: 0o755, content: content}})
	if err != nil {
		return nil, err
	}
	return assemble(v1.Config{
		Entrypoint: []string{entrypoint},
		User:       "65532:65532", // what distroless images call nonroot
		WorkingDir: "/",
		Env:        []string{"PATH=/"},
	}, layer)
}

// checkStatic refuses programs that could not start in an empty image.
func checkStatic(binary string) error {
	f, err := elf.Open(binary)
	if err != nil {
		return fmt.Errorf("%s is not a Linux program: %w", binary, err)
	}
	defer func() { _ = f.Close() }()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("%s is dynamically linked and cannot run alone in an image; build it with CGO_ENABLED=0", binary)
		}
	}
	return nil
}
