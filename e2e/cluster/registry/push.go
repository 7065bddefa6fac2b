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
	ref, err := name.NewTag(config.RegistryAddress()+"/"+reference, name.Insecure)
	if err != nil {
		return fmt.Errorf("naming %s: %w", reference, err)
	}
	if err := remote.Write(ref, im, remote.WithTransport(transport), remote.WithContext(ctx)); err != nil {
		return fmt.Errorf("pushing %s: %w", reference, err)
	}
	return nil
}
