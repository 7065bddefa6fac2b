//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
)

var (
	memcachedKind = kind{"Memcached", "cache.example.com/v1alpha1", "memcached", "size", ""}
	immortalKind  = kind{"ImmortalContainer", "immortalcontainer.flugel.it/v1alpha1", "immortal", "", ""}
)

const (
	healthyImage = "nginx:1.27.4"
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

func (s blockStage) deploymentImage(name string) string {
	s.Helper()
	return s.kubectl("get", "deployment", name, "-o", "jsonpath={.spec.template.spec.containers[0].image}")
}

// TestRollout_KeepsFailedRevisionOut causes rollbacks, and then makes changes that
// are not a reason to retry the failed revision.
func TestRollout_KeepsFailedRevisionOut(t *testing.T) {
	t.Parallel()
	s := newBlockStage(t)
	cases := []struct {
		name    string
		kind    kind
		disturb func(s blockStage, object string)
	}{
		{"halt", demoApplicationKind, func(s blockStage, object string) {
			s.patch(object, `{"rollout":{"onFailure":"Halt"}}`)
			s.observed(object)
		}},
		{"unpin", webServerKind, func(s blockStage, object string) {
			s.patch(object, `{"rollout":{"pinnedRevision":1}}`)
			s.serves(object)
			s.patch(object, `{"rollout":{"pinnedRevision":null}}`)
			s.observed(object)
		}},
		{"undo", demoApplicationKind, func(s blockStage, object string) {
			s.patch(object, `{"rollout":{"onFailure":"Halt"}}`)
			s.observed(object)
			s.kubectl("rollout", "undo", "deployment/undo")
			s.prints(healthyImage, "get", "deployment", "undo", "-o", "jsonpath={.spec.template.spec.containers[0].image}")
		}},
		{"history", webServerKind, func(s blockStage, object string) {
			s.kubectl("delete", "controllerrevisions", "-l", "webserver_cr=history")
			// Makes it visible in the status that the operator has reconciled
			// without history.
			s.patch(object, `{"replicas":2}`)
			s.observed(object)
			s.prints("2", "get", "deployment", "history", "-o", "jsonpath={.status.availableReplicas}")
		}},
		{"status", demoApplicationKind, func(s blockStage, object string) {
			s.kubectl("patch", object, "--subresource=status", "--type=json", "-p", `[{"op":"replace","path":"/status","value":{}}]`)
			s.rolledBack(object)
		}},
	}
	for _, tc := range cases {
		s.apply(tc.kind.manifest(tc.name, `{image: "`+healthyImage+`", rollout: {maxUnavailable: 0}}`))
	}
	for _, tc := range cases {
		s.serves(tc.kind.resource + "/" + tc.name)
	}
	for _, tc := range cases {
		s.patch(tc.kind.resource+"/"+tc.name, `{`+shortDeadline+`,"image":"`+missingImage+`"}`)
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			s := blockStage{t, s.ns, s.reader}
			object := tc.kind.resource + "/" + tc.name
			s.rolledBack(object)
			tc.disturb(s, object)
			if got := s.deploymentImage(tc.name); got != healthyImage {
				t.Errorf("the Deployment has image %s after a rollback to %s", got, healthyImage)
			}
		})
	}
}

// TestRollout_RecordsRollbackAfterHalt checks that lastActions contains the latest
// action.
func TestRollout_RecordsRollbackAfterHalt(t *testing.T) {
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

// TestRollout_KeepsHealthyRevisionWhenScaledToZero is needed because a revision
// without pods was not tested, so it must not become the revision that a failed
// rollout is rolled back to.
func TestRollout_KeepsHealthyRevisionWhenScaledToZero(t *testing.T) {
	t.Parallel()
	s := newBlockStage(t)
	kinds := []kind{webServerKind, demoApplicationKind}
	each := func(do func(k kind, object, name string)) {
		t.Helper()
		for _, k := range kinds {
			name := strings.ToLower(k.Kind)
			do(k, k.resource+"/"+name, name)
		}
	}
	each(func(k kind, _, name string) {
		s.apply(k.manifest(name, `{image: "`+healthyImage+`"}`))
	})
	each(func(_ kind, object, _ string) { s.serves(object) })
	each(func(k kind, object, _ string) { s.patch(object, `{"`+k.replicas+`":0}`) })
	each(func(_ kind, object, name string) {
		s.observed(object)
		s.prints("", "get", "deployment", name, "-o", "jsonpath={.status.replicas}")
		s.patch(object, `{`+shortDeadline+`,"image":"`+missingImage+`"}`)
	})
	each(func(_ kind, object, name string) {
		s.serves(object)
		if got := s.deploymentImage(name); got != missingImage {
			t.Errorf("the Deployment has image %s, want %s", got, missingImage)
		}
		if got := s.kubectl("get", object, "-o", "jsonpath={.status.revisions.lastHealthy}"); got != "1" {
			t.Errorf("revision %s of %s is the last healthy one, without a pod of it", got, object)
		}
	})
	each(func(k kind, object, _ string) { s.patch(object, `{"`+k.replicas+`":1}`) })
	each(func(_ kind, object, name string) {
		s.rolledBack(object)
		if got := s.deploymentImage(name); got != healthyImage {
			t.Errorf("the Deployment has image %s, want %s", got, healthyImage)
		}
	})
}
