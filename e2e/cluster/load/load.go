// Package load makes images available to the nodes of the running cluster.
package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"

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
	// From is the name and tag of an image of the cluster's registry.
	From string
	// Debian is the release of Debian that the image's packages are from.
	Debian string
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
	ref, err := parse(reference)
	if err != nil {
		return "", err
	}
	im, err := o.open(ctx, c, ref)
	if err != nil {
		return "", err
	}
	digest, err := im.Digest()
	if err != nil {
		return "", fmt.Errorf("reading the image of %s: %w", reference, err)
	}
	if err := Push(ctx, c, inRegistry(ref), im); err != nil {
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

func (o Options) open(ctx context.Context, c config.Config, as name.Tag) (v1.Image, error) {
	switch {
	case o.Debian != "":
		return images.FromSuite(ctx, o.Debian, as.RepositoryStr(), as.TagStr(), filepath.Join(c.CacheDir, "packages", o.Debian))
	case o.From != "":
		ref, err := parse(o.From)
		if err != nil {
			return nil, err
		}
		im, err := registry.Pull(ctx, transport(c), inRegistry(ref))
		return im, advise(err)
	default:
		return images.FromBinary(o.Binary, o.Entrypoint)
	}
}

func parse(reference string) (name.Tag, error) {
	ref, err := name.NewTag(reference)
	if err != nil {
		return name.Tag{}, fmt.Errorf("%q is not an image name with a tag: %w", reference, err)
	}
	return ref, nil
}

// Push uploads an image to the registry of the running cluster.
func Push(ctx context.Context, c config.Config, reference string, im v1.Image) error {
	return advise(registry.Push(ctx, transport(c), reference, im))
}

func transport(c config.Config) http.RoundTripper {
	return control.UnixTransport(c.RegistrySocket(config.ControlNode))
}

func advise(err error) error {
	if err != nil && (errors.Is(err, os.ErrNotExist) || strings.Contains(err.Error(), "connection refused")) {
		return errors.New("the cluster's registry does not answer; start it with: cluster up")
	}
	return err
}

// inRegistry is how the registry calls an image: it ignores the image's own registry.
func inRegistry(ref name.Tag) string { return ref.RepositoryStr() + ":" + ref.TagStr() }

// canonicalName is how containerd calls an image: the library's name for
// Docker's registry is another one.
func canonicalName(ref name.Tag) string {
	host := ref.RegistryStr()
	if host == name.DefaultRegistry {
		host = "docker.io"
	}
	return host + "/" + ref.RepositoryStr() + ":" + ref.TagStr()
}
