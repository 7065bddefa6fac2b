//go:build e2e

package e2e

import (
	"errors"
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
