package enter

import (
	"slices"
	"strings"
	"testing"

	"github.com/platform-operator/platform-operator/e2e/cluster/config"
)

func TestEnv_AddsCluster(t *testing.T) {
	c := config.Config{CacheDir: "/cache", StateDir: "/state"}
	got := Env(c, []string{"PATH=/usr/bin", "KUBECONFIG=/theirs", "HOME=/root", "no_proxy=example.com"})
	for _, want := range []string{"PATH=/cache/bin:/usr/bin", "KUBECONFIG=/state/kubeconfig", "HOME=/root", "KUBECACHEDIR=/state/kubectl"} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is missing from %q", want, got)
		}
	}
	if slices.Contains(got, "KUBECONFIG=/theirs") {
		t.Errorf("the caller's KUBECONFIG is still in %q", got)
	}
	if !slices.ContainsFunc(got, func(kv string) bool { return strings.HasPrefix(kv, "no_proxy=example.com,") }) {
		t.Errorf("the caller's proxy exceptions are not kept in %q", got)
	}
}
