//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// released fails unless each of the children exists without an owner, and
// nothing deletes it.
func (s blockStage) released(children ...string) {
	s.Helper()
	for _, child := range children {
		out := s.kubectl("get", child, "--ignore-not-found", "-o", "json")
		if out == "" {
			s.Errorf("%s was deleted", child)
			continue
		}
		var o metav1.PartialObjectMetadata
		if err := json.Unmarshal([]byte(out), &o); err != nil {
			s.Fatal(err)
		}
		if len(o.OwnerReferences) > 0 || o.DeletionTimestamp != nil {
			s.Errorf("%s has owners %v and deletion timestamp %v", child, o.OwnerReferences, o.DeletionTimestamp)
		}
	}
}

// numbered returns n names.
func numbered(prefix string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s%d", prefix, i)
	}
	return names
}

// TestDeletionPolicyOrphan_ReleasesChildThatLostItsLabel: without the label the
// operator's cache does not hold the child, and while the object is paused the
// operator does not put the label back.
func TestDeletionPolicyOrphan_ReleasesChildThatLostItsLabel(t *testing.T) {
	t.Parallel()
	s := newBlockStage(t)
	s.apply(someServer("replicas: 0", "deletionPolicy: Orphan", "service: {type: ClusterIP}"))
	s.serves("webserver/web")
	s.patch("webserver/web", `{"paused":true}`)
	s.observed("webserver/web")
	s.kubectl("label", "deployment/web", "service/web-service", "--overwrite", "app.kubernetes.io/managed-by=Helm")
	s.kubectl("delete", "webserver/web", "--timeout=60s")
	s.released("deployment/web", "service/web-service")
}

// TestDeletionPolicyOrphan_RemovesEveryMark: orphans are ordinary objects, of
// which nothing tells that the operator made them.
func TestDeletionPolicyOrphan_RemovesEveryMark(t *testing.T) {
	t.Parallel()
	s := newBlockStage(t)
	s.apply(webServerKind.manifest("web", `{image: "nginx:1.27.4", deletionPolicy: Orphan, service: {type: ClusterIP}, config: {inline: "location / {}"},
  resources: {requests: {cpu: 5m}}, autoscaling: {minReplicas: 1, maxReplicas: 2, targetCPUUtilizationPercentage: 80}, networkPolicy: {preset: Isolated}}`))
	s.serves("webserver/web")
	s.kubectl("delete", "webserver/web", "--timeout=60s")
	const types = "deployments,services,configmaps,horizontalpodautoscalers,networkpolicies"
	kept := map[string]int{}
	for _, o := range listed[metav1.PartialObjectMetadata](t, s.ns, types) {
		kept[o.Kind]++
		raw, err := json.Marshal([]any{o.Labels, o.Annotations, o.OwnerReferences, o.Finalizers})
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(raw), operatorName) {
			t.Errorf("a mark of the operator is left on %s %s: %s", o.Kind, o.Name, raw)
		}
	}
	if len(kept) != 5 || kept["Deployment"] != 1 {
		t.Errorf("kept are %v, want one Deployment and objects of 5 kinds", kept)
	}
}
