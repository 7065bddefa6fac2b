// Package safefile writes files and folders that other processes may read or
// write at the same time: atomic replacement, private folders and locks.
package safefile

import (
	"fmt"
	"os"
	"path/filepath"
)

// DefaultUmask replaces the caller's while something is built or started: a
// strict one would make images whose files only root can read.
const DefaultUmask = 0o022

// MakeDirs creates folders only root may look into: they hold keys and
// sockets that give full control of the cluster.
func MakeDirs(dirs ...string) error {
	for _, dir := range dirs {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("creating %s: %w", dir, err)
		}
	}
	return nil
}

// Copy copies content, appearing at the target only when complete.
func Copy(from, to string, mode os.FileMode) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("copying %s: %w", from, err)
	}
	return Write(to, content, mode)
}

// Write replaces a file in one step: readers see the old or the new
// content, never half of one.
func Write(path string, content []byte, mode os.FileMode) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	defer func() { _ = os.Remove(tmp.Name()) }()
	if _, err = tmp.Write(content); err == nil {
		err = tmp.Chmod(mode)
	}
	if closeErr := tmp.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}
