package build

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The version table and hyperkube's go.mod have to say the same.
func TestArtifacts_PinTheVersionsOfTheHyperkubeModule(t *testing.T) {
	mod, err := os.ReadFile("../hyperkube/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for module, version := range map[string]string{
		"k8s.io/kubernetes":         KubernetesVersion,
		"go.etcd.io/etcd/server/v3": etcdVersion,
		"k8s.io/kubectl":            strings.Replace(KubernetesVersion, "v1.", "v0.", 1),
	} {
		pattern := regexp.MustCompile(`(?m)^\t` + regexp.QuoteMeta(module) + ` (\S+)`)
		m := pattern.FindSubmatch(mod)
		if m == nil || string(m[1]) != version {
			t.Errorf("hyperkube/go.mod has %s %s, the version table %s", module, m, version)
		}
	}
}
