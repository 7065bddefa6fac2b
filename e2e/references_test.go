//go:build e2e

package e2e

import (
	"errors"
	"strings"
	"testing"
)

// recreated waits until a deleted object exists again.
func (s blockStage) recreated(object string, remove func()) {
	s.Helper()
	uid := s.kubectl("get", object, "-o", "jsonpath={.metadata.uid}")
	remove()
	eventually(s.T, object+" to be created again", func() error {
		now, err := run(s.Context(), "", "kubectl", "-n", s.ns, "get", object, "-o", "jsonpath={.metadata.uid}")
		if err == nil && now == uid {
			err = errors.New("it is the old one")
		}
		return err
	})
}

// TestRollout_RetriesWhenMissingInputIsCreated checks that a missing ConfigMap or
// Secret does not make the revision that refers to it fail.
func TestRollout_RetriesWhenMissingInputIsCreated(t *testing.T) {
	campaign(t, "campaign-e2e")
	t.Parallel()
	s := newBlockStage(t)
	s.apply(demoApplicationKind.manifest("app", `{image: "nginx:1.27.4"}`) +
		webServerKind.manifest("web", `{image: "nginx:1.27.4", service: {type: ClusterIP}}`))
	objects := []string{"demoapp/app", "webserver/web"}
	for _, object := range objects {
		s.serves(object)
	}
	s.patch("demoapp/app", `{`+ampleDeadline+`,"envFrom":[{"configMapRef":{"name":"late-settings"}}]}`)
	s.patch("webserver/web", `{`+ampleDeadline+`,"pod":{"volumes":[{"name":"v","secret":{"secretName":"late-users"}}],"volumeMounts":[{"name":"v","mountPath":"/users"}]}}`)
	for object, missing := range map[string]string{"demoapp/app": "late-settings", "webserver/web": "late-users"} {
		eventually(t, object+" to name what is missing", func() error {
			o, err := s.look(object)
			if err != nil {
				return err
			}
			if ready := o.condition("Ready"); ready.Status != "False" || !strings.Contains(ready.Message+o.condition("Stalled").Message, missing) {
				return errors.New(ready.Message)
			}
			return nil
		})
	}
	// Beyond the deadline.
	for _, name := range []string{"app", "web"} {
		s.prints("ProgressDeadlineExceeded", "get", "deployment", name, "-o", `jsonpath={.status.conditions[?(@.type=="Progressing")].reason}`)
	}
	s.kubectl("create", "configmap", "late-settings", "--from-literal=MODE=late")
	s.kubectl("create", "secret", "generic", "late-users", "--from-literal=htpasswd=editor")
	for _, object := range objects {
		s.serves(object)
	}
}

// TestReferences_MissingConfigMapKeepsTheRestReconciled checks that an object
// without its ConfigMap is still scaled and repaired, because the content is known
// from the snapshot.
func TestReferences_MissingConfigMapKeepsTheRestReconciled(t *testing.T) {
	campaign(t, "campaign-e2e")
	t.Parallel()
	s := newBlockStage(t)
	const follows = `rollout: {restartOnConfigChange: true}`
	s.kubectl("create", "configmap", "input", "--from-literal=server.conf=location / { return 200 kept; }", "--from-literal=MODE=kept")
	s.apply(webServerKind.manifest("web", `{image: "nginx:1.27.4", service: {type: ClusterIP}, config: {configMapRef: {name: input}}}`) +
		demoApplicationKind.manifest("app", `{image: "nginx:1.27.4", envFrom: [{configMapRef: {name: input}}], `+follows+`}`))
	objects := map[string]kind{"web": webServerKind, "app": demoApplicationKind}
	for name, k := range objects {
		s.serves(k.resource + "/" + name)
	}
	s.kubectl("delete", "configmap", "input")
	for name, k := range objects {
		s.stalled(k.resource+"/"+name, "ReferenceNotFound", "input")
		s.kubectl("scale", k.resource+"/"+name, "--replicas=2")
	}
	for name, k := range objects {
		s.observed(k.resource + "/" + name)
		if got := s.kubectl("get", "deployment", name, "-o", "jsonpath={.spec.replicas}"); got != "2" {
			t.Errorf("the Deployment of %s has %s replicas, want 2", k.Kind, got)
		}
	}
	for name := range objects {
		s.recreated("deployment/"+name, func() { s.kubectl("delete", "deployment", name) })
	}
	for name, k := range objects {
		s.prints("2", "get", "deployment", name, "-o", "jsonpath={.status.readyReplicas}")
		s.stalled(k.resource+"/"+name, "ReferenceNotFound", "input")
	}
	// kubectl may choose a pod that is terminating, whose container has already ended.
	s.prints("kept", "exec", "deploy/app", "--", "sh", "-c", "echo $MODE")
	// Through the Service: a list of pods also contains those that are terminating.
	pageHas(t, "http://"+s.kubectl("get", "service", "web-service", "-o", "jsonpath={.spec.clusterIP}"), "kept")
}
