// Package config holds the names, folders and addresses of a cluster. It reads
// the environment only, so that all commands of one cluster agree without
// flags, and it touches no file.
package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/platform-operator/platform-operator/e2e/cluster/build"
)

// Config is where things are and what they are called.
type Config struct {
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

// Load reads CLUSTER_NAME, CLUSTER_STATE and XDG_CACHE_HOME.
func Load(getenv func(string) string) (Config, error) {
	c := Config{Prefix: "pop", StateDir: getenv("CLUSTER_STATE")}
	defaultState := "/var/lib/platform-operator-cluster"
	if name := getenv("CLUSTER_NAME"); name != "" {
		if strings.ContainsFunc(name, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < '0' || r > '9')
		}) || len(name) > 12 {
			return Config{}, fmt.Errorf("CLUSTER_NAME=%q: use at most 12 lower-case letters and digits", name)
		}
		c.Prefix += "-" + name
		defaultState += "-" + name
	}
	if c.StateDir == "" {
		c.StateDir = defaultState
	}
	if !filepath.IsAbs(c.StateDir) {
		return Config{}, fmt.Errorf("CLUSTER_STATE=%q: must be an absolute path", c.StateDir)
	}
	c.StateDir = filepath.Clean(c.StateDir)
	if longest := c.RegistrySocket(9); len(longest) > maxSocketPath {
		return Config{}, fmt.Errorf("CLUSTER_STATE=%q: %d characters too long (unix sockets live below it)",
			c.StateDir, len(longest)-maxSocketPath)
	}

	cache := getenv("XDG_CACHE_HOME")
	if cache == "" {
		home := getenv("HOME")
		if home == "" {
			return Config{}, errors.New("neither XDG_CACHE_HOME nor HOME is set: nowhere to keep built programs")
		}
		cache = filepath.Join(home, ".cache")
	}
	c.CacheDir = filepath.Join(cache, "platform-operator", "cluster", build.Key())
	return c, nil
}

// BinDir is the folder of the built programs.
func (c Config) BinDir() string { return filepath.Join(c.CacheDir, "bin") }

// SpecFile holds what the running cluster was asked to be.
func (c Config) SpecFile() string { return filepath.Join(c.StateDir, "cluster.json") }

// LockFile serializes the commands that change the cluster. It is next to the
// state folder, which commands remove.
func (c Config) LockFile() string { return c.StateDir + ".lock" }

// PKIDir is the folder of keys and certificates.
func (c Config) PKIDir() string { return filepath.Join(c.StateDir, "pki") }

// Kubeconfig is the administrator's kubeconfig.
func (c Config) Kubeconfig() string { return filepath.Join(c.StateDir, "kubeconfig") }

// AuditLog is the API server's audit log.
func (c Config) AuditLog() string { return filepath.Join(c.StateDir, "audit", "audit.log") }

// RegistryStore is the folder with the registry's content.
func (c Config) RegistryStore() string { return filepath.Join(c.StateDir, "registry") }

// OwnBinary is the copy of this program the nodes run from: rebuilding or
// deleting the checkout's binary must not disturb a running cluster.
func (c Config) OwnBinary() string { return filepath.Join(c.StateDir, "cluster") }

// NodeDir is the folder of a node: its disk, its sockets, its logs.
func (c Config) NodeDir(node int) string { return filepath.Join(c.StateDir, NodeName(node)) }

// NodeLogs is the folder of the logs of a node.
func (c Config) NodeLogs(node int) string {
	return filepath.Join(c.NodeDir(node), "logs")
}

// LogFile is the log of a component of a node.
func (c Config) LogFile(node int, component string) string {
	return filepath.Join(c.NodeLogs(node), component+".log")
}

// ControlSocket is the socket of a node's first process.
func (c Config) ControlSocket(node int) string {
	return filepath.Join(c.NodeDir(node), "control.sock")
}

// RegistrySocket is the registry's socket for image pushes.
func (c Config) RegistrySocket(node int) string {
	return filepath.Join(c.NodeDir(node), "registry.sock")
}

// SwitchNetns names the network namespace that connects the nodes.
func (c Config) SwitchNetns() string { return c.Prefix + "-switch" }

// NodeNetns names the network namespace of a node.
func (c Config) NodeNetns(node int) string { return fmt.Sprintf("%s-node%d", c.Prefix, node) }

// NodeCgroup names the cgroup of a node.
func (c Config) NodeCgroup(node int) string { return fmt.Sprintf("%s-node%d", c.Prefix, node) }

// NodeNetnsFile is the handle of a node's network namespace.
func (c Config) NodeNetnsFile(node int) string { return filepath.Join(NetnsDir, c.NodeNetns(node)) }

// NetnsDir is where `ip netns` keeps its handles.
const NetnsDir = "/run/netns"
