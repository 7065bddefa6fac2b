package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// down removes a cluster, or what is left of one. It does not trust the
// settings file: everything a cluster can own is looked for by name.
func down(ctx context.Context, c config, out io.Writer) error {
	if os.Geteuid() != 0 {
		return errors.New("cluster down needs root")
	}
	start := time.Now()
	unlock, err := lock(c.lockFile(), out)
	if err != nil {
		return err
	}
	defer unlock()

	found := netnsExists(c.switchNetns())
	// Others first: node1 has the API server they would complain about.
	for n := maxNodes; n >= 1; n-- {
		pids, err := nodeInitPIDs(c, n)
		if err != nil {
			return err
		}
		found = found || len(pids) > 0
		if err := killNode(ctx, c, n); err != nil {
			return err
		}
	}
	if err := removeNetwork(ctx, c); err != nil {
		return err
	}
	if err := removeState(c, true); err != nil {
		return err
	}
	if !found {
		fmt.Fprintln(out, "no cluster was running")
		return nil
	}
	fmt.Fprintf(out, "down, in %s (logs stay in %s until the next up)\n", elapsed(start), c.StateDir)
	return nil
}

// removeState empties the state folder, except for logs if they are to stay:
// they are what one wants after something went wrong.
func removeState(c config, keepLogs bool) error {
	entries, err := os.ReadDir(c.StateDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the state folder: %w", err)
	}
	// The nodes' mounts were in namespaces of theirs and are gone. Should
	// anything be mounted here after all, deleting would reach into it.
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return fmt.Errorf("listing mounts: %w", err)
	}
	if strings.Contains(string(mounts), " "+c.StateDir+"/") {
		return fmt.Errorf("something is mounted below %s; unmount it first", c.StateDir)
	}
	for _, e := range entries {
		path := filepath.Join(c.StateDir, e.Name())
		switch _, isNode := parseNode(e.Name()); {
		case keepLogs && path == filepath.Dir(c.auditLog()):
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
