// Package cgroup creates and removes the cgroups of a node, in version 1 and
// version 2 hierarchies alike.
package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// hierarchies lists the mounted cgroup hierarchies: several with version 1
// (one per controller), one with version 2. They are used as they are; no
// mount is added or changed, because everything else on the machine lives in
// them too.
func hierarchies() ([]string, error) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, fmt.Errorf("listing cgroup mounts: %w", err)
	}
	var roots []string
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		if len(fields) > 2 && (fields[2] == "cgroup" || fields[2] == "cgroup2") {
			roots = append(roots, fields[1])
		}
	}
	if len(roots) == 0 {
		return nil, errors.New("no cgroup hierarchy is mounted on this machine")
	}
	return roots, nil
}

// Create makes a node's folder in every hierarchy. kubelet wants to find
// its root in all of them.
func Create(name string) error {
	roots, err := hierarchies()
	if err != nil {
		return err
	}
	for _, root := range roots {
		dir := filepath.Join(root, name)
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("creating a cgroup: %w", err)
		}
		// A new cpuset (version 1) is empty, and nothing can run in it.
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			whole, err := os.ReadFile(filepath.Join(root, file))
			if err != nil {
				continue // not the cpuset hierarchy, or version 2, which inherits
			}
			err = os.WriteFile(filepath.Join(dir, file), whole, 0o644)
			if err != nil {
				return fmt.Errorf("giving the cgroup its processors: %w", err)
			}
		}
	}
	return nil
}

// Remove removes a node's folder from every hierarchy, deepest first.
// The kernel releases a cgroup a moment after its last process has ended.
func Remove(ctx context.Context, name string) error {
	roots, err := hierarchies()
	if err != nil {
		return err
	}
	deadline := time.Now().Add(10 * time.Second)
	for _, root := range roots {
		for {
			err := removeTree(filepath.Join(root, name))
			if err == nil {
				break
			}
			if time.Now().After(deadline) || ctx.Err() != nil {
				return fmt.Errorf("removing cgroup %s: %w", filepath.Join(root, name), err)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	return nil
}

// removeTree removes nested folders. The files in them are the kernel's and
// go with their folder.
func removeTree(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeTree(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
