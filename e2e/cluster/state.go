package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// spec is what the running cluster was asked to be. It is written before
// anything starts and read by every node when it boots, so that a node that
// was cut off and started again comes back the same.
type spec struct {
	Nodes            int
	ControlPlaneOnly bool
	FastFailover     bool
	Audit            bool
	Prefix           string
	StateDir         string
	CacheDir         string
}

func (s spec) config() config {
	return config{Prefix: s.Prefix, StateDir: s.StateDir, CacheDir: s.CacheDir}
}

// errNoCluster is returned when nothing was started, or everything was taken
// down.
var errNoCluster = errors.New("no cluster is running; start one with: cluster up")

// readSpec returns errNoCluster when there is none. A folder left over from
// before a reboot does not count: its network is gone, and so is the cluster.
func readSpec(c config) (spec, error) {
	raw, err := os.ReadFile(c.specFile())
	if errors.Is(err, fs.ErrNotExist) {
		return spec{}, errNoCluster
	}
	if err != nil {
		return spec{}, fmt.Errorf("reading the cluster's settings: %w", err)
	}
	var s spec
	if err := json.Unmarshal(raw, &s); err != nil {
		return spec{}, fmt.Errorf("reading the cluster's settings from %s: %w", c.specFile(), err)
	}
	if !netnsExists(c.switchNetns()) {
		return spec{}, errNoCluster
	}
	return s, nil
}

func writeSpec(c config, s spec) error {
	raw, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the cluster's settings: %w", err)
	}
	return writeFileAtomic(c.specFile(), append(raw, '\n'), 0o600)
}

// writeFileAtomic replaces a file in one step: readers see the old or the new
// content, never half of one.
func writeFileAtomic(path string, content []byte, mode os.FileMode) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	defer func() { _ = os.Remove(tmp.Name()) }() //nolint:gosec // G703: as below; does nothing after the rename
	if _, err = tmp.Write(content); err == nil {
		err = tmp.Chmod(mode)
	}
	if closeErr := tmp.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(tmp.Name(), path) //nolint:gosec // G703: the state folder is the user's choice
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// lock serializes commands that change a cluster or a cache. The kernel drops
// the lock with the process, so a crash leaves nothing to clean up.
func lock(path string, notice io.Writer) (unlock func(), err error) {
	if err := makeDirs(filepath.Dir(path)); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock file: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		holder, _ := io.ReadAll(io.LimitReader(f, 20))
		who := "another cluster command"
		if pid := strings.TrimSpace(string(holder)); pid != "" {
			who += " (pid " + pid + ")"
		}
		fmt.Fprintf(notice, "waiting for %s to finish\n", who)
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	if err := f.Truncate(0); err == nil {
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	return func() { _ = f.Close() }, nil
}
