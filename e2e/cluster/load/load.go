// Package load makes images available to the nodes of the running cluster.
package load

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

	"github.com/platform-operator/platform-operator/e2e/cluster/config"
	"github.com/platform-operator/platform-operator/e2e/cluster/control"
	"github.com/platform-operator/platform-operator/e2e/cluster/images"
	"github.com/platform-operator/platform-operator/e2e/cluster/registry"
	"github.com/platform-operator/platform-operator/e2e/cluster/state"
)

// Options say where an image comes from.
type Options struct {
	Binary     string
	Entrypoint string
	Tar        string
}

// Image makes an image available to the cluster's nodes under a name, and
// returns its digest.
func Image(ctx context.Context, c config.Config, reference string, o Options, notice io.Writer) (string, error) {
	s, err := state.Read(c)
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
	if o.Tar != "" {
		im, err = tarball.ImageFromPath(o.Tar, nil)
		if err != nil {
			return "", fmt.Errorf("reading %s: %w", o.Tar, err)
		}
	} else if im, err = images.FromBinary(o.Binary, o.Entrypoint); err != nil {
		return "", err
	}
	digest, err := im.Digest()
	if err != nil {
		return "", fmt.Errorf("reading the image of %s: %w", reference, err)
	}
	if err := Push(ctx, c, ref.RepositoryStr()+":"+ref.TagStr(), im); err != nil {
		return "", err
	}
	// A node that pulled this name before would not look again.
	full := canonicalName(ref)
	for n := 1; n <= s.Nodes; n++ {
		if err := control.NewClient(c, n).ForgetImage(ctx, full); err != nil {
			fmt.Fprintf(notice, "%s may go on using an older %s: %v\n", config.NodeName(n), reference, err)
		}
	}
	return digest.String(), nil
}

// Push uploads an image to the registry of the running cluster.
func Push(ctx context.Context, c config.Config, reference string, im v1.Image) error {
	err := registry.Push(ctx, control.UnixTransport(c.RegistrySocket(config.ControlNode)), reference, im)
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
