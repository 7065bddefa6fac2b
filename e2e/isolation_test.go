//go:build e2e

package e2e

import (
	"testing"
)

// TestNetworkPolicy_ExistsBeforePods checks that isolated pods never run without
// their NetworkPolicy, even if another child of the object cannot be written.
func TestNetworkPolicy_ExistsBeforePods(t *testing.T) {
	campaign(t, "campaign-e2e")
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
