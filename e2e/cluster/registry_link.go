package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// seedStore fills a new cluster's registry with the images of the cache.
func seedStore(from, to string) error {
	return linkStore(from, to, "blobs", "manifests")
}

// linkStore adds parts of one store to another. Layers are hard-linked where
// possible: no time and no space.
func linkStore(from, to string, parts ...string) error {
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
				return makeDirs(target)
			}
			err = os.Link(path, target) //nolint:gosec // G122: both folders are writable for root only
			if err == nil || errors.Is(err, fs.ErrExist) {
				return nil
			}
			return copyFile(path, target, 0o600)
		})
		if err != nil {
			return fmt.Errorf("filling the registry: %w", err)
		}
	}
	return nil
}
