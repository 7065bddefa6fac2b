//go:build e2e

package e2e

import (
	"fmt"
	"testing"
)

var (
	memcachedKind = kind{"Memcached", "cache.example.com/v1alpha1", "memcached", "size", ""}
	immortalKind  = kind{"ImmortalContainer", "immortalcontainer.flugel.it/v1alpha1", "immortal", "", ""}
)

const (
	// missingImage is not in the registry, so its pods never run.
	missingImage = "nginx:nosuch"
	// shortDeadline is a part of the change that must fail. The rollouts before it
	// have the default deadline, because pods may start slowly on a busy machine.
	shortDeadline = `"rollout":{"progressDeadlineSeconds":10}`
	// ampleDeadline is for a change of which more is expected than that it fails: that it
	// succeeds later, or why it fails. Pods were seen to need 26 seconds to start on a busy
	// machine.
	ampleDeadline = `"rollout":{"progressDeadlineSeconds":60}`
)

// manifest returns an object of the kind, with its spec in flow style.
func (k kind) manifest(name, spec string) string {
	return fmt.Sprintf("---\napiVersion: %s\nkind: %s\nmetadata: {name: %s}\nspec: %s\n", k.apiVersion, k.Kind, name, spec)
}

// patch merges a spec, written as JSON, into that of an object.
func (s blockStage) patch(object, spec string) {
	s.Helper()
	s.kubectl("patch", object, "--type=merge", "-p", `{"spec":`+spec+`}`)
}

// observed waits until the status describes the current generation. The children
// have been applied by then.
func (s blockStage) observed(object string) {
	s.Helper()
	eventually(s.T, "the status of "+object+" to describe its spec", func() error {
		o, err := s.look(object)
		if err != nil {
			return err
		}
		if ready := o.condition("Ready"); ready.ObservedGeneration != o.Metadata.Generation {
			return fmt.Errorf("generation %d: %+v", o.Metadata.Generation, ready)
		}
		return nil
	})
}

// rolledBack waits until an object serves an earlier revision than the one in its
// spec.
func (s blockStage) rolledBack(object string) {
	s.Helper()
	eventually(s.T, object+" to be rolled back", func() error {
		o, err := s.look(object)
		if err != nil {
			return err
		}
		ready, available := o.condition("Ready"), o.condition("Available")
		if ready.Reason != "RolledBack" || ready.ObservedGeneration != o.Metadata.Generation || available.Status != "True" {
			return fmt.Errorf("generation %d: %+v %+v", o.Metadata.Generation, ready, available)
		}
		return nil
	})
}

// TestRollout_RecordsRollbackAfterHalt checks that lastActions contains the latest
// action.
func TestRollout_RecordsRollbackAfterHalt(t *testing.T) {
	campaign(t, "campaign-e2e")
	t.Parallel()
	s := newBlockStage(t)
	const object = "webserver/web"
	s.apply(someServer("rollout: {onFailure: Halt, maxUnavailable: 0}"))
	s.serves(object)
	s.patch(object, `{`+shortDeadline+`,"image":"`+missingImage+`"}`)
	s.stalled(object, "RolloutFailed")
	s.prints("Halt", "get", object, "-o", "jsonpath={.status.lastActions[0].type}")
	s.patch(object, `{"rollout":{"onFailure":"Rollback"}}`)
	s.rolledBack(object)
	s.prints("Rollback", "get", object, "-o", "jsonpath={.status.lastActions[0].type}")
}
