package registry

import (
	"context"
	"fmt"
	"net/http"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/platform-operator/platform-operator/e2e/cluster/config"
)

// Push uploads an image under a name like library/nginx:latest.
func Push(ctx context.Context, transport http.RoundTripper, reference string, im v1.Image) error {
	ref, err := tag(reference)
	if err != nil {
		return err
	}
	if err := remote.Write(ref, im, remote.WithTransport(transport), remote.WithContext(ctx)); err != nil {
		return fmt.Errorf("pushing %s: %w", reference, err)
	}
	return nil
}

// Pull returns an image that was pushed under a name like library/nginx:latest. Its
// layers are read when they are needed, with the same context.
func Pull(ctx context.Context, transport http.RoundTripper, reference string) (v1.Image, error) {
	ref, err := tag(reference)
	if err != nil {
		return nil, err
	}
	im, err := remote.Image(ref, remote.WithTransport(transport), remote.WithContext(ctx))
	if err != nil {
		return nil, fmt.Errorf("reading %s from the registry: %w", reference, err)
	}
	return im, nil
}

func tag(reference string) (name.Tag, error) {
	ref, err := name.NewTag(config.RegistryAddress()+"/"+reference, name.Insecure)
	if err != nil {
		return name.Tag{}, fmt.Errorf("naming %s: %w", reference, err)
	}
	return ref, nil
}
