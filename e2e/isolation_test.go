//go:build e2e

package e2e

import (
	"slices"
	"strings"
	"testing"
)

// TestNetworkPolicy_ExistsBeforePods checks that isolated pods never run without
// their NetworkPolicy, even if another child of the object cannot be written.
func TestNetworkPolicy_ExistsBeforePods(t *testing.T) {
	t.Parallel()
	s := newBlockStage(t)
	s.kubectl("create", "service", "clusterip", "web-service", "--tcp=5432")
	s.kubectl("create", "service", "clusterip", "app", "--tcp=5432")
	const isolated = `networkPolicy: {preset: Isolated}`
	s.apply(webServerKind.manifest("web", `{image: nginx, replicas: 0, service: {type: ClusterIP}, `+isolated+`}`) +
		demoApplicationKind.manifest("app", `{image: nginx, replica: 0, ports: [{port: 80}], `+isolated+`}`))
	for object, name := range map[string]string{"webserver/web": "web", "demoapp/app": "app"} {
		s.stalled(object, "Conflict")
		if got := s.kubectl("get", "networkpolicy", name, "--ignore-not-found", "-o", "name"); got == "" {
			t.Errorf("%s has pods and no NetworkPolicy", object)
		}
	}
}

// TestNetworkPolicy_IsWrittenBeforePods checks the order of the operator's
// requests.
func TestNetworkPolicy_IsWrittenBeforePods(t *testing.T) {
	if !local() {
		t.Skip("needs the audit log of the local cluster")
	}
	t.Parallel()
	const isolated = `networkPolicy: {preset: Isolated}`
	for resource, manifest := range map[string]string{
		"webserver":         webServerKind.manifest("x", `{image: nginx, replicas: 0, service: {type: ClusterIP}, `+isolated+`}`),
		"demoapplication":   demoApplicationKind.manifest("x", `{image: nginx, replica: 0, `+isolated+`}`),
		"memcached":         memcachedKind.manifest("x", `{size: 1, `+isolated+`}`),
		"immortalcontainer": immortalKind.manifest("x", `{image: nginx, `+isolated+`}`),
	} {
		t.Run(resource, func(t *testing.T) {
			s := newBlockStage(t)
			s.apply(manifest)
			s.serves(resource + "/x")
			rs := requests(t, s.ns)
			policy := slices.Index(rs, "patch networkpolicies 201")
			pods := slices.IndexFunc(rs, func(r string) bool { return r == "patch deployments 201" || r == "patch pods 201" })
			if policy < 0 || pods < 0 || policy > pods {
				t.Errorf("the NetworkPolicy is not written before the pods: %s", strings.Join(rs, ", "))
			}
		})
	}
}
