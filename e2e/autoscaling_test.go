//go:build e2e

package e2e

import (
	"errors"
	"strings"
	"testing"
)

// TestAutoscaling_CreatesDeploymentAtItsMinimum reads the initial number of pods
// from the events of the Deployment.
func TestAutoscaling_CreatesDeploymentAtItsMinimum(t *testing.T) {
	t.Parallel()
	s := newBlockStage(t)
	const scaled = `resources: {requests: {cpu: 5m}}, autoscaling: {minReplicas: 2, maxReplicas: 3, targetCPUUtilizationPercentage: 80}`
	s.apply(webServerKind.manifest("web", `{image: "nginx:1.27.4", service: {type: ClusterIP}, `+scaled+`}`) +
		demoApplicationKind.manifest("app", `{image: "nginx:1.27.4", `+scaled+`}`))
	objects := map[string]string{"web": "webserver/web", "app": "demoapp/app"}
	beganWith := func(name, want string) {
		t.Helper()
		uid := s.kubectl("get", "deployment", name, "-o", "jsonpath={.metadata.uid}")
		var first string
		eventually(t, "the first event of Deployment "+name, func() error {
			first, _, _ = strings.Cut(s.kubectl("get", "events", "--field-selector=reason=ScalingReplicaSet,involvedObject.uid="+uid,
				"--sort-by=.metadata.creationTimestamp", "-o", `jsonpath={range .items[*]}{.message}{"\n"}{end}`), "\n")
			if first == "" {
				return errors.New("there is none")
			}
			return nil
		})
		if !strings.HasSuffix(first, "from 0 to "+want) {
			t.Errorf("Deployment %s began with %q, want %s replicas", name, first, want)
		}
	}
	for name, object := range objects {
		s.serves(object)
		beganWith(name, "2")
	}
	for name := range objects {
		s.recreated("deployment/"+name, func() { s.kubectl("delete", "deployment", name) })
	}
	for name, object := range objects {
		beganWith(name, "2")
		s.serves(object)
	}
}

// TestAutoscaling_KeepsReplicasWhenTurnedOnWithDrift checks that the replicas are
// kept if the operator releases the field in the same reconcile in which it repairs
// the Deployment.
func TestAutoscaling_KeepsReplicasWhenTurnedOnWithDrift(t *testing.T) {
	t.Parallel()
	s := newBlockStage(t)
	s.apply(webServerKind.manifest("web", `{image: "nginx:1.27.4", replicas: 3, service: {type: ClusterIP}, resources: {requests: {cpu: 5m}}}`))
	s.serves("webserver/web")
	s.patch("webserver/web", `{"paused":true}`)
	s.kubectl("set", "env", "deployment/web", "DEBUG=1")
	s.patch("webserver/web", `{"paused":null,"replicas":null,"autoscaling":{"minReplicas":1,"maxReplicas":4,"targetCPUUtilizationPercentage":80}}`)
	s.observed("webserver/web")
	if got := s.kubectl("get", "deployment", "web", "-o", "jsonpath={.spec.replicas}"); got != "3" {
		t.Errorf("the Deployment has %s replicas, want 3", got)
	}
}

// TestAutoscaling_ReportsAnAutoscalerOfTheUser checks that an autoscaler for the
// Deployment is reported, and that it works with the WebServer as its target.
func TestAutoscaling_ReportsAnAutoscalerOfTheUser(t *testing.T) {
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
