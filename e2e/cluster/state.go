package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
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
