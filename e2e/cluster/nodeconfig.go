package main

import (
	"maps"
	"path/filepath"
	"slices"
)

// nodeSettings fill the configuration templates.
type nodeSettings struct {
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
	LeaseSeconds   int
	ReservedCPU    int // thousandths of a processor
	ReservedMemory int // KiB
}

func settingsFor(s spec, node int, m machine) nodeSettings {
	c := s.config()
	n := nodeSettings{
		Name:         nodeName(node),
		Cgroup:       c.nodeCgroup(node),
		EtcDir:       filepath.Join(c.nodeDir(node), "etc"),
		PKIDir:       c.pkiDir(),
		CacheDir:     c.CacheDir,
		PodCIDR:      podCIDR(node),
		PodNetwork:   podNetwork,
		DNS:          dnsServiceIP,
		Registry:     registryAddress(),
		PauseVersion: pauseVersion,
		LeaseSeconds: 40, // kubelet's default
	}
	if s.FastFailover {
		n.LeaseSeconds = 4
	}
	if s.Nodes > 1 {
		n.ReservedCPU = m.cpus * 1000 * (s.Nodes - 1) / s.Nodes
		n.ReservedMemory = m.memoryKiB / s.Nodes * (s.Nodes - 1)
	}
	return n
}

// writeNodeConfig renders a node's configuration files.
func writeNodeConfig(s spec, node int, m machine) error {
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
		content, err := render(files[target], settings)
		if err != nil {
			return err
		}
		path := filepath.Join(settings.EtcDir, target)
		if err := makeDirs(filepath.Dir(path)); err != nil {
			return err
		}
		if err := writeFileAtomic(path, content, 0o600); err != nil {
			return err
		}
	}
	return nil
}
