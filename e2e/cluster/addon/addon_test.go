package addon

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/platform-operator/platform-operator/e2e/cluster/build"
	"github.com/platform-operator/platform-operator/e2e/cluster/config"
	"github.com/platform-operator/platform-operator/e2e/cluster/templates"
)

// The table and the go.mod of each module have to say the same.
func TestAll_PinsTheVersionsOfTheModules(t *testing.T) {
	for _, tt := range []struct{ folder, module, version string }{
		{"traefik", "github.com/traefik/traefik/v3", traefikVersion},
		{"traefik", "sigs.k8s.io/gateway-api", gatewayAPIVersion},
		{"hyperkube", "sigs.k8s.io/metrics-server", metricsServerVersion},
		{"olm", "github.com/operator-framework/operator-lifecycle-manager", olmVersion},
		{"olm", "github.com/operator-framework/api", olmAPIVersion},
	} {
		mod, err := os.ReadFile("../" + tt.folder + "/go.mod")
		if err != nil {
			t.Fatal(err)
		}
		m := regexp.MustCompile(`(?m)^\t` + regexp.QuoteMeta(tt.module) + ` (\S+)`).FindSubmatch(mod)
		if m == nil || string(m[1]) != tt.version {
			t.Errorf("%s/go.mod has %s %s, the table %s", tt.folder, tt.module, m, tt.version)
		}
	}
}

func TestWithNeeds_PutsNeededAddonsFirst(t *testing.T) {
	names := func(list []Addon) []string {
		var names []string
		for _, a := range list {
			names = append(names, a.Name)
		}
		return names
	}
	for _, tt := range []struct{ in, want []string }{
		{[]string{"metrics-server"}, []string{"metrics-server"}},
		{[]string{"traefik"}, []string{"gateway-api", "traefik"}},
		{[]string{"prometheus"}, []string{"prometheus-operator-crds", "prometheus"}},
		{[]string{"traefik", "gateway-api", "traefik"}, []string{"gateway-api", "traefik"}},
	} {
		got, err := withNeeds(tt.in)
		if err != nil || !slices.Equal(names(got), tt.want) {
			t.Errorf("withNeeds(%v) = %v, %v; want %v", tt.in, names(got), err, tt.want)
		}
	}
	if _, err := withNeeds([]string{"helm"}); err == nil || !strings.Contains(err.Error(), "metrics-server, traefik") {
		t.Errorf("an unknown add-on: %v", err)
	}
}

// Another version of Kubernetes leaves the add-ons in the cache, and each
// add-on the others.
func TestCacheDir_IsSeparateForEachBuild(t *testing.T) {
	one, two := config.Config{CacheDir: "/cache/cluster/one"}, config.Config{CacheDir: "/cache/cluster/two"}
	seen := map[string]bool{}
	for _, a := range All() {
		dir := cacheDir(one, a)
		if dir != cacheDir(two, a) {
			t.Errorf("%s: the folder depends on the base", a.Name)
		}
		if filepath.Dir(dir) != "/cache/addons" || seen[dir] {
			t.Errorf("%s is kept in %s", a.Name, dir)
		}
		seen[dir] = true
		changed := a
		changed.program.LDFlags += " -X a.b=c"
		if cacheDir(one, changed) == dir {
			t.Errorf("%s: another build has the same folder", a.Name)
		}
		if _, ok := build.Find(a.Name); ok {
			t.Errorf("%s is part of the base, whose key it would change", a.Name)
		}
	}
}

func TestAll_ManifestsRender(t *testing.T) {
	for _, a := range All() {
		if !a.runs() {
			if len(a.crds.files) == 0 {
				t.Errorf("%s is nothing", a.Name)
			}
			continue
		}
		raw, err := templates.Render(a.manifest, manifestSettings{Image: "docker.io/x@sha256:0", Node: "node1", NodeIP: "10.10.10.1", Host: "h"})
		if err != nil {
			t.Fatal(err)
		}
		manifest := string(raw)
		for _, want := range []string{
			"kubernetes.io/hostname: node1",
			// What is waited for.
			"kind: Deployment\nmetadata: {name: " + a.Name + ", namespace: " + a.space + "}\n",
		} {
			if strings.Count(manifest, want) != 1 {
				t.Errorf("%s: want %q once in:\n%s", a.Name, want, manifest)
			}
		}
		if !strings.Contains(manifest, "image: docker.io/x@sha256:0\n") {
			t.Errorf("%s does not run its image:\n%s", a.Name, manifest)
		}
		if strings.Contains(manifest, "{{") {
			t.Errorf("%s is not fully rendered", a.Name)
		}
	}
}
