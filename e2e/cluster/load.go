package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
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
