package main

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"text/template"
)

//go:embed templates
var templateFiles embed.FS

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
	CoreDNSVersion string
	LeaseSeconds   int
	ReservedCPU    int // thousandths of a processor
	ReservedMemory int // KiB
}

// machine is what all nodes share.
type machine struct {
	cpus      int
	memoryKiB int
}

func thisMachine() (machine, error) {
	raw, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return machine{}, fmt.Errorf("reading the machine's memory size: %w", err)
	}
	for line := range strings.Lines(string(raw)) {
		if fields := strings.Fields(line); len(fields) >= 2 && fields[0] == "MemTotal:" {
			kib, err := strconv.Atoi(fields[1])
			if err != nil {
				return machine{}, fmt.Errorf("reading the machine's memory size: %w", err)
			}
			return machine{cpus: runtime.NumCPU(), memoryKiB: kib}, nil
		}
	}
	return machine{}, errors.New("reading the machine's memory size: no MemTotal in /proc/meminfo")
}

func settingsFor(s spec, node int, m machine) nodeSettings {
	c := s.config()
	n := nodeSettings{
		Name:           nodeName(node),
		Cgroup:         c.nodeCgroup(node),
		EtcDir:         filepath.Join(c.nodeDir(node), "etc"),
		PKIDir:         c.pkiDir(),
		CacheDir:       c.CacheDir,
		PodCIDR:        podCIDR(node),
		PodNetwork:     podNetwork,
		DNS:            dnsServiceIP,
		Registry:       registryAddress(),
		PauseVersion:   pauseVersion,
		CoreDNSVersion: strings.TrimPrefix(coreDNSVersion, "v"),
		LeaseSeconds:   40, // kubelet's default
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
	for _, target := range sortedKeys(files) {
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

func render(name string, settings any) ([]byte, error) {
	t, err := template.New(name).Option("missingkey=error").ParseFS(templateFiles, "templates/"+name)
	if err != nil {
		return nil, fmt.Errorf("parsing template %s: %w", name, err)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, settings); err != nil {
		return nil, fmt.Errorf("rendering %s: %w", name, err)
	}
	return b.Bytes(), nil
}
