//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestImmortalContainer_Tutorial follows the tutorial of the legacy operator: the pod
// runs, is deleted, and is created again under the same name, with a count of two.
func TestImmortalContainer_Tutorial(t *testing.T) {
	t.Parallel()
	const name, pod = "example-immortalcontainer", "example-immortalcontainer-immortalpod"
	ns := namespace(t)
	in := func(args ...string) []string { return append([]string{"-n", ns}, args...) }
	kubectl(t, in("apply", "-f", "../config/samples/immortalcontainer.yaml")...)
	awaitReady(t, ns, "immortalcontainer/"+name)
	if got := kubectl(t, in("get", "pod", pod, "-o", "jsonpath={.spec.containers[*].name} {.spec.containers[*].image} {.metadata.labels.app}")...); got != "acontainer nginx:latest "+name {
		t.Errorf("the pod has %q", got)
	}
	status := func() string {
		return kubectl(t, in("get", "immortalcontainer", name, "-o", "jsonpath={.status.currentPod} {.status.startTimes}")...)
	}
	if got := status(); got != pod+" 1" {
		t.Errorf("status %q", got)
	}
	uid := func() string { return kubectl(t, in("get", "pod", pod, "-o", "jsonpath={.metadata.uid}")...) }

	first := uid()
	kubectl(t, in("delete", "pod", pod)...)
	reborn(t, ns, pod, first)
	eventuallyPrints(t, pod+" 2", in("get", "immortalcontainer", name, "-o", "jsonpath={.status.currentPod} {.status.startTimes}")...)
	awaitReady(t, ns, "immortalcontainer/"+name)

	t.Run("a changed image reaches the same pod", func(t *testing.T) {
		second := uid()
		kubectl(t, in("patch", "immortal", name, "--type=merge", "-p", `{"spec":{"image":"nginx:1.23.0"}}`)...)
		eventuallyPrints(t, "nginx:1.23.0", in("get", "immortal", name, "-o", "jsonpath={.status.image}")...)
		if now := uid(); now != second {
			t.Errorf("the pod is another: %s, was %s", now, second)
		}
		if local() {
			ip := kubectl(t, in("get", "pod", pod, "-o", "jsonpath={.status.podIP}")...)
			pageHas(t, "http://"+ip, "nginx:1.23.0")
		}
	})

	t.Run("evicted through the API it is back", func(t *testing.T) {
		before := uid()
		eviction := fmt.Sprintf(`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":%q,"namespace":%q}}`, pod, ns)
		if _, err := run(t.Context(), eviction, "kubectl", "create", "--raw", "/api/v1/namespaces/"+ns+"/pods/"+pod+"/eviction", "-f", "-"); err != nil {
			t.Fatal(err)
		}
		reborn(t, ns, pod, before)
		eventuallyPrints(t, "3", in("get", "immortal", name, "-o", "jsonpath={.status.startTimes}")...)
	})

	t.Run("failed it is back", func(t *testing.T) {
		awaitReady(t, ns, "immortal/"+name)
		before := uid()
		// The kubelet terminates a pod that has exceeded its deadline: its phase is
		// Failed, and no container is ever started in it again.
		kubectl(t, in("patch", "pod", pod, "--type=merge", "-p", `{"spec":{"activeDeadlineSeconds":1}}`)...)
		reborn(t, ns, pod, before)
	})

	t.Run("deletion cleans up", func(t *testing.T) {
		kubectl(t, in("delete", "immortalcontainer", name)...)
		eventuallyPrints(t, "", in("get", "pods", "-o", "name")...)
	})
}

// reborn waits until a pod of that name runs that is not the given one, and returns its
// UID.
func reborn(t *testing.T, ns, pod, not string) string {
	t.Helper()
	var uid string
	eventually(t, "another pod "+pod, func() error {
		out, err := run(t.Context(), "", "kubectl", "-n", ns, "get", "pod", pod, "-o", "jsonpath={.metadata.uid} {.status.phase}")
		if err != nil {
			return err
		}
		now, phase, _ := strings.Cut(out, " ")
		if now == not || phase != "Running" {
			return errors.New("there is " + out)
		}
		uid = now
		return nil
	})
	return uid
}

// TestImmortalContainer_IsReadyOnlyOnceItsImageRuns is needed because the old
// container may take its grace period to terminate, during which no container runs
// the new image.
func TestImmortalContainer_IsReadyOnlyOnceItsImageRuns(t *testing.T) {
	campaign(t, "campaign-e2e")
	t.Parallel()
	s := newBlockStage(t)
	const object = "immortal/slow"
	s.apply(immortalKind.manifest("slow", `{image: "nginx:1.27.4", command: [sh, -c, "trap '' TERM; while :; do sleep 1; done"], pod: {terminationGracePeriodSeconds: 8}}`))
	s.serves(object)
	s.patch(object, `{"image":"`+missingImage+`"}`)
	eventually(t, "the status to say that the image cannot be pulled", func() error {
		o, err := s.look(object)
		if err != nil {
			return err
		}
		ready := o.condition("Ready")
		if image := s.kubectl("get", object, "-o", "jsonpath={.status.image}"); image == missingImage {
			t.Fatalf("status.image is %s, which never ran", image)
		}
		if ready.ObservedGeneration == o.Metadata.Generation && ready.Status == "True" {
			t.Fatalf("Ready of an image that does not run: %+v", ready)
		}
		if !strings.Contains(ready.Message, "pull") {
			return fmt.Errorf("%+v", ready)
		}
		return nil
	})
	// A corrected image is pulled and runs.
	s.patch(object, `{"image":"nginx:1.27.3"}`)
	s.serves(object)
	s.prints("nginx:1.27.3", "get", object, "-o", "jsonpath={.status.image}")
}

// TestImmortalContainer_CountsOnlyPodsThatRan checks that a pod which is replaced
// before its gate is removed is not counted as a start.
func TestImmortalContainer_CountsOnlyPodsThatRan(t *testing.T) {
	campaign(t, "campaign-e2e")
	t.Parallel()
	s := newBlockStage(t)
	const object = "immortal/gated"
	policy := life(t, "gate", s.ns)
	free := func() error {
		_, err := run(context.WithoutCancel(t.Context()), policy, "kubectl", "delete", "--ignore-not-found", "-f", "-")
		return err
	}
	t.Cleanup(func() {
		if err := free(); err != nil {
			t.Error(err)
		}
	})
	s.apply(immortalKind.manifest("gated", `{image: "nginx:1.27.4"}`))
	s.serves(object)
	if err := apply(t, policy); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the policy to hold", func() error {
		if _, err := run(t.Context(), "", "kubectl", "-n", s.ns, "annotate", "--overwrite", "pod", "gated-immortalpod", "example.com/try=x"); err == nil {
			return errors.New("it admits a change")
		}
		return nil
	})
	// Each change creates another pod, and none of these is released from its gate.
	for _, value := range []string{"a", "b"} {
		uid, _ := run(t.Context(), "", "kubectl", "-n", s.ns, "get", "pod", "gated-immortalpod", "-o", "jsonpath={.metadata.uid}")
		s.patch(object, `{"env":[{"name":"TRY","value":"`+value+`"}]}`)
		eventually(t, "a gated pod with TRY="+value, func() error {
			out, err := run(t.Context(), "", "kubectl", "-n", s.ns, "get", "pod", "gated-immortalpod", "-o", "jsonpath={.metadata.uid} {.spec.containers[0].env[*].value} {.spec.schedulingGates[*].name}")
			if err != nil {
				return err
			}
			if now := strings.Fields(out); len(now) != 3 || now[0] == uid || now[1] != value {
				return errors.New(out)
			}
			return nil
		})
	}
	if err := free(); err != nil {
		t.Fatal(err)
	}
	s.serves(object)
	s.prints("2", "get", object, "-o", "jsonpath={.status.startTimes}")
}

// TestImmortalContainer_WaitsForLostNode uses a Node without a kubelet: the test reports
// that the pod runs, and then that is all Kubernetes hears of it.
func TestImmortalContainer_WaitsForLostNode(t *testing.T) {
	campaign(t, "campaign-e2e")
	t.Parallel()
	s := newBlockStage(t)
	const object, pod = "immortal/web", "web-immortalpod"
	node := "unresponsive-" + s.ns
	t.Cleanup(func() {
		if _, err := run(context.WithoutCancel(t.Context()), "", "kubectl", "delete", "node", "--ignore-not-found", node); err != nil {
			t.Error(err)
		}
	})
	s.apply(fmt.Sprintf(`
apiVersion: v1
kind: Node
metadata: {name: %s, labels: {kubernetes.io/os: linux, platform-operator.io/e2e-node: %s}}
spec: {taints: [{key: platform-operator.io/e2e, effect: NoSchedule}]}
status: {allocatable: {cpu: "1", memory: 1Gi, pods: "10"}}
`, node, s.ns))
	heartbeat := func() {
		t.Helper()
		s.kubectl("patch", "node", node, "--subresource=status", "-p",
			`{"status":{"conditions":[{"type":"Ready","status":"True","reason":"KubeletReady","lastHeartbeatTime":"`+time.Now().UTC().Format(time.RFC3339)+`"}]}}`)
	}
	s.apply(immortalKind.manifest("web", `{image: "nginx:1.27.4", pod: {tolerations: [{operator: Exists}], nodeSelector: {platform-operator.io/e2e-node: `+s.ns+`}}}`))
	var uid, generation string
	eventually(t, "the pod to be scheduled", func() error {
		heartbeat()
		out, err := run(t.Context(), "", "kubectl", "-n", s.ns, "get", "pod", pod, "-o", "jsonpath={.metadata.uid} {.metadata.generation} {.spec.nodeName}")
		if err != nil {
			return err
		}
		f := strings.Fields(out)
		if len(f) != 3 {
			return errors.New("it has no node: " + out)
		}
		uid, generation = f[0], f[1]
		return nil
	})
	s.kubectl("patch", "pod", pod, "--subresource=status", "-p", `{"status":{"phase":"Running","observedGeneration":`+generation+`,
		"conditions":[{"type":"Ready","status":"True","observedGeneration":`+generation+`}],
		"containerStatuses":[{"name":"acontainer","image":"nginx:1.27.4","imageID":"nginx@sha256:0","ready":true,"started":true,"restartCount":0,"state":{"running":{}}}]}}`)
	eventually(t, object+" to be Ready", func() error {
		heartbeat()
		o, err := s.look(object)
		if err != nil {
			return err
		}
		if ready := o.condition("Ready"); ready.Status != "True" {
			return fmt.Errorf("%+v", ready)
		}
		return nil
	})

	eventually(t, object+" to say that the node does not respond", func() error {
		o, err := s.look(object)
		if err != nil {
			return err
		}
		if c := o.condition("Available"); c.Status != "False" || !strings.Contains(c.Message, `Node "`+node+`" does not respond`) {
			return fmt.Errorf("%+v", c)
		}
		return nil
	})
	if now := s.kubectl("get", "pod", pod, "-o", "jsonpath={.metadata.uid} {.metadata.deletionTimestamp}"); now != uid {
		t.Errorf("the pod is %s, and was %s: two may run at the same time", now, uid)
	}

	// What the message recommends. Kubernetes then deletes the pods of the node.
	s.kubectl("delete", "node", node)
	eventually(t, "another pod", func() error {
		now, err := run(t.Context(), "", "kubectl", "-n", s.ns, "get", "pod", pod, "-o", "jsonpath={.metadata.uid}")
		if err == nil && now == uid {
			err = errors.New("it is the same")
		}
		return err
	})
}
