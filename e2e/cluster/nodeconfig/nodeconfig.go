// Package nodeconfig writes the configuration files of the components of a
// node.
package nodeconfig

import (
	"maps"
	"path/filepath"
	"slices"

	"github.com/platform-operator/platform-operator/e2e/cluster/build"
	"github.com/platform-operator/platform-operator/e2e/cluster/config"
	"github.com/platform-operator/platform-operator/e2e/cluster/host"
	"github.com/platform-operator/platform-operator/e2e/cluster/safefile"
	"github.com/platform-operator/platform-operator/e2e/cluster/state"
	"github.com/platform-operator/platform-operator/e2e/cluster/templates"
)

// settings fill the configuration templates.
type settings struct {
	Name           string
	Cgroup         string
	EtcDir         string
	PKIDir         string
	CacheDir       string
	PodCIDR        string
	PodNetwork     string
	DNS            string
	Registry       string
	PauseVersion   string
	ReservedCPU    int // thousandths of a processor
	ReservedMemory int // KiB
}

func settingsFor(s state.Spec, node int, m host.Capacity) settings {
	c := s.Config()
	n := settings{
		Name:         config.NodeName(node),
		Cgroup:       c.NodeCgroup(node),
		EtcDir:       filepath.Join(c.NodeDir(node), "etc"),
		PKIDir:       c.PKIDir(),
		CacheDir:     c.CacheDir,
		PodCIDR:      config.PodCIDR(node),
		PodNetwork:   config.PodNetwork,
		DNS:          config.DNSServiceIP,
		Registry:     config.RegistryAddress(),
		PauseVersion: build.PauseVersion,
	}
	if s.Nodes > 1 {
		n.ReservedCPU = m.CPUs * 1000 * (s.Nodes - 1) / s.Nodes
		n.ReservedMemory = m.MemoryKiB / s.Nodes * (s.Nodes - 1)
	}
	return n
}

// Write renders a node's configuration files.
func Write(s state.Spec, node int, m host.Capacity) error {
	settings := settingsFor(s, node, m)
	files := map[string]string{
		"containerd.toml":             "containerd.toml",
		"kubelet.yaml":                "kubelet.yaml",
		"kube-proxy.yaml":             "kube-proxy.yaml",
		"audit-policy.yaml":           "audit-policy.yaml",
		"cni/10-pods.conflist":        "cni.conflist",
		"certs.d/_default/hosts.toml": "hosts.toml",
	}
	for _, target := range slices.Sorted(maps.Keys(files)) {
		content, err := templates.Render(files[target], settings)
		if err != nil {
			return err
		}
		path := filepath.Join(settings.EtcDir, target)
		if err := safefile.MakeDirs(filepath.Dir(path)); err != nil {
			return err
		}
		if err := safefile.Write(path, content, 0o600); err != nil {
			return err
		}
	}
	return nil
}
