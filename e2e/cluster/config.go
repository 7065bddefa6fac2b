package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// config is where things are and what they are called. It comes from the
// environment only, so that every command of one cluster agrees without flags.
type config struct {
	// Prefix starts the name of everything that is machine-wide: network
	// namespaces and cgroups.
	Prefix string
	// StateDir holds the running cluster: certificates, disks of the nodes,
	// logs. It is a disk folder and not one under /run because container
	// images are unpacked there, and /run is often a small memory disk.
	StateDir string
	// CacheDir holds what was built, keyed by the pinned versions.
	CacheDir string
}

// maxSocketPath is the kernel's limit for a unix socket's path (sun_path, 108
// bytes with the final zero).
const maxSocketPath = 107

// loadConfig reads CLUSTER_NAME, CLUSTER_STATE and XDG_CACHE_HOME.
func loadConfig(getenv func(string) string) (config, error) {
	c := config{Prefix: "pop", StateDir: getenv("CLUSTER_STATE")}
	defaultState := "/var/lib/platform-operator-cluster"
	if name := getenv("CLUSTER_NAME"); name != "" {
		if strings.ContainsFunc(name, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < '0' || r > '9')
		}) || len(name) > 12 {
			return config{}, fmt.Errorf("CLUSTER_NAME=%q: use at most 12 lower-case letters and digits", name)
		}
		c.Prefix += "-" + name
		defaultState += "-" + name
	}
	if c.StateDir == "" {
		c.StateDir = defaultState
	}
	if !filepath.IsAbs(c.StateDir) {
		return config{}, fmt.Errorf("CLUSTER_STATE=%q: must be an absolute path", c.StateDir)
	}
	c.StateDir = filepath.Clean(c.StateDir)
	if longest := c.registrySocket(9); len(longest) > maxSocketPath {
		return config{}, fmt.Errorf("CLUSTER_STATE=%q: %d characters too long (unix sockets live below it)",
			c.StateDir, len(longest)-maxSocketPath)
	}

	cache := getenv("XDG_CACHE_HOME")
	if cache == "" {
		home := getenv("HOME")
		if home == "" {
			return config{}, errors.New("neither XDG_CACHE_HOME nor HOME is set: nowhere to keep built programs")
		}
		cache = filepath.Join(home, ".cache")
	}
	c.CacheDir = filepath.Join(cache, "platform-operator", "cluster", versionsKey())
	return c, nil
}

func (c config) binDir() string { return filepath.Join(c.CacheDir, "bin") }

func (c config) specFile() string { return filepath.Join(c.StateDir, "cluster.json") }

func (c config) lockFile() string { return c.StateDir + ".lock" }

func (c config) pkiDir() string { return filepath.Join(c.StateDir, "pki") }

func (c config) kubeconfig() string { return filepath.Join(c.StateDir, "kubeconfig") }

func (c config) auditLog() string { return filepath.Join(c.StateDir, "audit", "audit.log") }

func (c config) registryStore() string { return filepath.Join(c.StateDir, "registry") }

// ownBinary is the copy of this program the nodes run from: rebuilding or
// deleting the checkout's binary must not disturb a running cluster.
func (c config) ownBinary() string { return filepath.Join(c.StateDir, "cluster") }

func (c config) nodeDir(node int) string { return filepath.Join(c.StateDir, nodeName(node)) }

func (c config) nodeLogs(node int) string {
	return filepath.Join(c.nodeDir(node), "logs")
}

func (c config) logFile(node int, component string) string {
	return filepath.Join(c.nodeLogs(node), component+".log")
}

func (c config) controlSocket(node int) string {
	return filepath.Join(c.nodeDir(node), "control.sock")
}

func (c config) registrySocket(node int) string {
	return filepath.Join(c.nodeDir(node), "registry.sock")
}

func (c config) switchNetns() string { return c.Prefix + "-switch" }

func (c config) nodeNetns(node int) string { return fmt.Sprintf("%s-node%d", c.Prefix, node) }

func (c config) nodeCgroup(node int) string { return fmt.Sprintf("%s-node%d", c.Prefix, node) }

func (c config) nodeNetnsFile(node int) string { return filepath.Join(netnsDir, c.nodeNetns(node)) }

// The network: one namespace holds a bridge, the switch; every node has a
// namespace of its own with an eth0 plugged into it. No namespace has a way
// out: a packet to a pod, a service or a node can reach nothing else, and
// nothing outside can reach the cluster. The machine's own namespace is not
// touched at all.

// netnsDir is where `ip netns` keeps its handles.
const netnsDir = "/run/netns"
