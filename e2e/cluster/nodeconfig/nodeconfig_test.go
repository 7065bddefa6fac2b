package nodeconfig

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/platform-operator/platform-operator/e2e/cluster/host"
	"github.com/platform-operator/platform-operator/e2e/cluster/state"
)

func TestWrite(t *testing.T) {
	big := host.Capacity{CPUs: 4, MemoryKiB: 16 << 20}
	read := func(t *testing.T, s state.Spec, node int) map[string]string {
		t.Helper()
		if err := Write(s, node, big); err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(s.Config().NodeDir(node), "etc")
		files := map[string]string{}
		err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			raw, err := os.ReadFile(path) //nolint:gosec // G122: a test's own folder
			rel, _ := filepath.Rel(dir, path)
			files[rel] = string(raw)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return files
	}

	t.Run("one node has the machine to itself", func(t *testing.T) {
		files := read(t, state.Spec{Nodes: 1, Prefix: "pop", StateDir: t.TempDir(), CacheDir: "/cache"}, 1)
		if strings.Contains(files["kubelet.yaml"], "systemReserved") {
			t.Error("a single node sets something aside")
		}
		for _, want := range []string{"cgroupRoot: /pop-node1\n", "failCgroupV1: false\n"} {
			if !strings.Contains(files["kubelet.yaml"], want) {
				t.Errorf("%q is missing from kubelet's configuration", want)
			}
		}
	})
	t.Run("two nodes have half each", func(t *testing.T) {
		files := read(t, state.Spec{Nodes: 2, Prefix: "pop", StateDir: t.TempDir(), CacheDir: "/cache"}, 2)
		for _, want := range []string{
			"systemReserved: {cpu: 2000m, memory: 8388608Ki}\n", "node2-serving.crt",
		} {
			if !strings.Contains(files["kubelet.yaml"], want) {
				t.Errorf("%q is missing from:\n%s", want, files["kubelet.yaml"])
			}
		}
		var cni struct {
			Plugins []struct {
				Type string
				IPAM struct{ Ranges [][]struct{ Subnet string } }
			}
		}
		if err := json.Unmarshal([]byte(files["cni/10-pods.conflist"]), &cni); err != nil {
			t.Fatalf("the network configuration is not JSON: %v", err)
		}
		if got := cni.Plugins[0].IPAM.Ranges[0][0].Subnet; got != "10.244.1.0/24" {
			t.Errorf("pods of node2 are in %s", got)
		}
		if !strings.Contains(files["containerd.toml"], "restrict_oom_score_adj = true") {
			t.Error("containerd would adjust OOM scores")
		}
		if !strings.Contains(files["certs.d/_default/hosts.toml"], "http://10.10.10.1:5000") {
			t.Error("images do not come from the cluster's registry")
		}
		for name, content := range files {
			if strings.Contains(content, "{{") || strings.Contains(content, "<no value>") {
				t.Errorf("%s is not fully rendered", name)
			}
		}
	})
}
