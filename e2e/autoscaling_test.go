//go:build e2e

package e2e

import (
	"testing"
)

// TestAutoscaling_ReportsAnAutoscalerOfTheUser checks that an autoscaler for the
// Deployment is reported, and that it works with the WebServer as its target.
func TestAutoscaling_ReportsAnAutoscalerOfTheUser(t *testing.T) {
	campaign(t, "campaign-e2e")
	t.Parallel()
	s := newBlockStage(t)
	s.apply(webServerKind.manifest("web", `{image: "nginx:1.27.4", replicas: 1, service: {type: ClusterIP}, resources: {requests: {cpu: 5m}}}`))
	s.serves("webserver/web")
	s.apply(`
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: own}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  minReplicas: 2
  maxReplicas: 3
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}]
`)
	s.stalled("webserver/web", "Disputed", `changing spec.replicas of Deployment "web"`)
	s.kubectl("patch", "hpa", "own", "--type=merge", "-p", `{"spec":{"scaleTargetRef":{"apiVersion":"my.domain/v1","kind":"WebServer"}}}`)
	s.serves("webserver/web")
	s.prints("2 2", "get", "webserver", "web", "-o", "jsonpath={.spec.replicas} {.status.readyReplicas}")
}
