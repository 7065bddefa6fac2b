package build

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The version table and the go.mod files have to say the same.
func TestArtifacts_PinTheVersionsOfTheModules(t *testing.T) {
	for module, pins := range map[string]map[string]string{
		"hyperkube": {
			"k8s.io/kubernetes":         KubernetesVersion,
			"go.etcd.io/etcd/server/v3": etcdVersion,
			"k8s.io/kubectl":            strings.Replace(KubernetesVersion, "v1.", "v0.", 1),
		},
		"tools": {
			"github.com/coredns/coredns": CoreDNSVersion,
			"helm.sh/helm/v4":            helmVersion,
		},
	} {
		mod, err := os.ReadFile("../" + module + "/go.mod")
		if err != nil {
			t.Fatal(err)
		}
		for dependency, version := range pins {
			pattern := regexp.MustCompile(`(?m)^(?:\t|require )` + regexp.QuoteMeta(dependency) + ` (\S+)`)
			m := pattern.FindSubmatch(mod)
			if m == nil || string(m[1]) != version {
				t.Errorf("%s/go.mod has %s %s, the version table %s", module, dependency, m, version)
			}
		}
	}
}

func TestKubernetes_SelectsTheCacheFolder(t *testing.T) {
	t.Setenv("CLUSTER_KUBERNETES", "")
	key := Key()
	t.Setenv("CLUSTER_KUBERNETES", "v1.36.3")
	if a, _ := Find(ArtifactHyperkube); a.Version != "v1.36.3" || Key() == key {
		t.Errorf("version %s, cache folder %s, that of %s is %s", a.Version, Key(), KubernetesVersion, key)
	}
}
