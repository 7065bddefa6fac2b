// Package state reads, writes and removes the state folder of a cluster, which
// holds what the running cluster was asked to be.
package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/platform-operator/platform-operator/e2e/cluster/config"
	"github.com/platform-operator/platform-operator/e2e/cluster/network"
	"github.com/platform-operator/platform-operator/e2e/cluster/safefile"
)

// Spec is what the running cluster was asked to be. It is written before
// anything starts and read by every node when it boots, so that a node that
// was cut off and started again comes back the same.
type Spec struct {
	Nodes            int
	ControlPlaneOnly bool
	DNS              bool
	Prefix           string
	StateDir         string
	CacheDir         string
}

// Config returns the configuration the cluster was started with.
func (s Spec) Config() config.Config {
	return config.Config{Prefix: s.Prefix, StateDir: s.StateDir, CacheDir: s.CacheDir}
}

// ErrNoCluster is returned when nothing was started, or everything was taken
// down.
var ErrNoCluster = errors.New("no cluster is running; start one with: cluster up")

// Read returns what the running cluster was asked to be, or ErrNoCluster. A
// folder left over from before a reboot does not count: without its network,
// the cluster no longer exists.
func Read(c config.Config) (Spec, error) {
	raw, err := os.ReadFile(c.SpecFile())
	if errors.Is(err, fs.ErrNotExist) {
		return Spec{}, ErrNoCluster
	}
	if err != nil {
		return Spec{}, fmt.Errorf("reading the cluster's settings: %w", err)
	}
	var s Spec
	if err := json.Unmarshal(raw, &s); err != nil {
		return Spec{}, fmt.Errorf("reading the cluster's settings from %s: %w", c.SpecFile(), err)
	}
	if !network.Exists(c.SwitchNetns()) {
		return Spec{}, ErrNoCluster
	}
	return s, nil
}

// Write replaces what the running cluster was asked to be.
func Write(c config.Config, s Spec) error {
	raw, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the cluster's settings: %w", err)
	}
	return safefile.Write(c.SpecFile(), append(raw, '\n'), 0o600)
}
