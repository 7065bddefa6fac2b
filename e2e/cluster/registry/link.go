package registry

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/platform-operator/platform-operator/e2e/cluster/safefile"
)

// Seed fills a new cluster's registry with the images of the cache.
func Seed(from, to string) error {
	return Link(from, to, "blobs", "manifests")
}

// Link adds parts of one store to another. Layers are hard-linked where
// possible: no time and no space.
func Link(from, to string, parts ...string) error {
	for _, sub := range parts {
		err := filepath.WalkDir(filepath.Join(from, sub), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(from, path)
			if err != nil {
				return err
			}
			target := filepath.Join(to, rel)
			if d.IsDir() {
				return safefile.MakeDirs(target)
			}
			err = os.Link(path, target) //nolint:gosec // G122: both folders are writable for root only
			if err == nil || errors.Is(err, fs.ErrExist) {
				return nil
			}
			return safefile.Copy(path, target, 0o600)
		})
		if err != nil {
			return fmt.Errorf("filling the registry: %w", err)
		}
	}
	return nil
}
