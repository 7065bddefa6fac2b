//go:build e2e

package e2e

import (
	"errors"
	"strings"
	"testing"
)

// recreated waits until something that is deleted exists again.
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

// TestReferences_PinnedRevisionThatIsNotKeptAllowsScaling: the revision that
// serves is known, whatever the spec pins.
func TestReferences_PinnedRevisionThatIsNotKeptAllowsScaling(t *testing.T) {
	t.Parallel()
	s := newBlockStage(t)
	s.apply(someServer("service: {type: ClusterIP}"))
	s.serves("webserver/web")
	s.patch("webserver/web", `{"replicas":2,"rollout":{"pinnedRevision":9}}`)
	s.stalled("webserver/web", "RevisionNotFound")
	s.prints("2", "get", "deployment", "web", "-o", "jsonpath={.status.readyReplicas}")
	s.recreated("service/web-service", func() { s.kubectl("delete", "service", "web-service") })
}

// TestRollout_RetriesWhenMissingInputIsCreated: a ConfigMap or Secret that the
// pods wait for is no failure of the spec that names it.
func TestRollout_RetriesWhenMissingInputIsCreated(t *testing.T) {
	t.Parallel()
	s := newBlockStage(t)
	const rollout = `rollout: {progressDeadlineSeconds: 10}`
	s.apply(demoApplicationKind.manifest("app", `{image: "nginx:1.27.4", `+rollout+`}`) +
		webServerKind.manifest("web", `{image: "nginx:1.27.4", service: {type: ClusterIP}, `+rollout+`}`))
	objects := []string{"demoapp/app", "webserver/web"}
	for _, object := range objects {
		s.serves(object)
	}
	s.patch("demoapp/app", `{"envFrom":[{"configMapRef":{"name":"late-settings"}}]}`)
	s.patch("webserver/web", `{"pod":{"volumes":[{"name":"v","secret":{"secretName":"late-users"}}],"volumeMounts":[{"name":"v","mountPath":"/users"}]}}`)
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
