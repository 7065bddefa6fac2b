package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/platform-operator/platform-operator/e2e/cluster/config"
)

// Remove empties the state folder. It keeps the logs if asked to: they are
// needed after something went wrong.
func Remove(c config.Config, keepLogs bool) error {
	entries, err := os.ReadDir(c.StateDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the state folder: %w", err)
	}
	// The nodes' mounts were in the nodes' namespaces and ended with them. If
	// anything is mounted here all the same, deleting would reach into it.
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return fmt.Errorf("listing mounts: %w", err)
	}
	if strings.Contains(string(mounts), " "+c.StateDir+"/") {
		return fmt.Errorf("something is mounted below %s; unmount it first", c.StateDir)
	}
	for _, e := range entries {
		path := filepath.Join(c.StateDir, e.Name())
		switch _, isNode := config.ParseNode(e.Name()); {
		case keepLogs && path == filepath.Dir(c.AuditLog()):
			continue
		case keepLogs && isNode:
			err = removeExcept(path, "logs")
		default:
			err = os.RemoveAll(path)
		}
		if err != nil {
			return fmt.Errorf("removing %s: %w", path, err)
		}
	}
	return nil
}

// removeExcept empties a folder but for one entry.
func removeExcept(dir, keep string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == keep {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}
