//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

// mutatePods makes the API server change the new pods of the namespace by a patch, as
// the admission webhooks of many clusters do, and returns a function that ends that.
func (s blockStage) mutatePods(patch string) (end func()) {
	s.Helper()
	s.apply(`
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: ` + s.ns + `}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: ` + s.ns + `}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  mutations: [{patchType: JSONPatch, jsonPatch: {expression: '` + patch + `'}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: ` + s.ns + `}
spec: {policyName: ` + s.ns + `}
`)
	remove := func() {
		for _, kind := range []string{"mutatingadmissionpolicybinding", "mutatingadmissionpolicy"} {
			if _, err := run(context.WithoutCancel(s.Context()), "", "kubectl", "delete", "--ignore-not-found", kind, s.ns); err != nil {
				s.Error(err)
			}
		}
	}
	s.Cleanup(remove)
	// The API server observes its policies with a delay.
	until := func(changed bool) {
		probe := "apiVersion: v1\nkind: Pod\nmetadata: {name: probe}\nspec: {containers: [{name: a, image: nginx:1.27.3}]}"
		eventually(s.T, fmt.Sprintf("new pods to be changed: %v", changed), func() error {
			out, err := run(s.Context(), probe, "kubectl", "-n", s.ns, "create", "--dry-run=server", "-f", "-", "-o", "jsonpath={.spec.containers[*].name} {.spec.containers[0].image}")
			if err == nil && (out != "a nginx:1.27.3") != changed {
				err = errors.New("a new pod has " + out)
			}
			return err
		})
	}
	until(true)
	return func() {
		remove()
		until(false)
	}
}

// TestMutation_InjectedContainerIsNotBlamedOnTheRevision checks that a container that
// admission adds to pods, and that does not start, is reported and causes no rollback.
func TestMutation_InjectedContainerIsNotBlamedOnTheRevision(t *testing.T) {
	campaign(t, "campaign-e2e")
	t.Parallel()
	s := newBlockStage(t)
	const object = "webserver/web"
	s.apply(someServer("rollout: {maxUnavailable: 0}"))
	s.serves(object)
	end := s.mutatePods(`[JSONPatch{op: "add", path: "/spec/containers/-", value: Object.spec.containers{name: "injected", image: "` + missingImage + `"}}]`)
	s.patch(object, `{`+ampleDeadline+`,"image":"nginx:1.27.3"}`)
	s.stalled(object, "InjectedContainer", "The image "+missingImage+" cannot be pulled", "not in the pod template")
	s.prints("True", "get", object, "-o", `jsonpath={.status.conditions[?(@.type=="Available")].status}`)
	end()
	s.kubectl("delete", "pods", "--field-selector=status.phase=Pending")
	s.serves(object)
	s.neverActed(object)
}

// TestMutation_RewrittenImageOfAnImmortalContainer checks that an image that admission
// rewrites, for example to that of a mirror, stays, and that the object is Ready.
func TestMutation_RewrittenImageOfAnImmortalContainer(t *testing.T) {
	campaign(t, "campaign-e2e")
	t.Parallel()
	s := newBlockStage(t)
	const object = "immortal/mirrored"
	s.mutatePods(`[JSONPatch{op: "replace", path: "/spec/containers/0/image", value: "nginx:1.27.4"}]`)
	s.apply(immortalKind.manifest("mirrored", `{image: "nginx:1.27.3"}`))
	s.serves(object)
	pod := []string{"get", "pod", "mirrored-immortalpod", "-o", "jsonpath={.metadata.uid} {.spec.containers[0].image} {.status.containerStatuses[0].restartCount}"}
	before := s.kubectl(pod...)
	s.prints("nginx:1.27.4 1", "get", object, "-o", "jsonpath={.status.image} {.status.startTimes}")
	// Makes the operator reconcile the pod.
	s.patch(object, `{"networkPolicy":{"preset":"Isolated"}}`)
	s.observed(object)
	s.serves(object)
	if after := s.kubectl(pod...); after != before {
		t.Errorf("the pod is %q, and was %q", after, before)
	}
}
