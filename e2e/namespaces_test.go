//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// A namespace may admit less than Kubernetes does, because of a Pod Security
// Standard, a quota or a LimitRange. A rejection is reported with its reason, never
// makes a revision fail, and the object serves as soon as its pods are admitted.

func TestNamespace_EnforcesPodSecurity(t *testing.T) {
	campaign(t, "campaign-e2e")
	t.Parallel()
	s := newBlockStage(t)
	s.kubectl("label", "namespace", s.ns, "pod-security.kubernetes.io/enforce=restricted")
	s.apply(someServer("service: {type: ClusterIP}", "replicas: 1") + `
---
apiVersion: cache.example.com/v1alpha1
kind: Memcached
metadata: {name: cache}
spec: {size: 1}
---
` + strings.Replace(app("  command: [sleep, infinity]\n  probes: {readiness: {exec: {command: [\"true\"]}}}\n"), "name: web", "name: app", 1) + `
---
apiVersion: immortalcontainer.flugel.it/v1alpha1
kind: ImmortalContainer
metadata: {name: web}
spec: {image: "nginx:1.27.4", command: [sleep, infinity]}
`)
	const advice = "Set spec.security.profile to Restricted"
	s.stalled("demoapp/app", "AdmissionRefused", "violates PodSecurity", advice)
	s.stalled("immortalcontainer/web", "AdmissionRefused", "violates PodSecurity", advice)
	// The kinds that are restricted by default are admitted.
	s.serves("webserver/web")
	s.serves("memcached/cache")

	// Following the advice in the message helps, and so does a namespace that
	// enforces less.
	s.kubectl("patch", "demoapp/app", "--type=merge", "-p", `{"spec":{"security":{"profile":"Restricted","runAsUser":101}}}`)
	s.serves("demoapp/app")
	s.kubectl("label", "namespace", s.ns, "pod-security.kubernetes.io/enforce-")
	s.serves("immortalcontainer/web")
	s.neverActed("webserver/web", "demoapp/app", "memcached/cache")
}

func TestNamespace_QuotaIsUsedUp(t *testing.T) {
	campaign(t, "campaign-e2e")
	t.Parallel()
	s := newBlockStage(t)
	s.kubectl("create", "quota", "small", "--hard=pods=2")
	s.apply(someServer("service: {type: ClusterIP}", "replicas: 2"))
	s.serves("webserver/web")
	s.apply("apiVersion: immortalcontainer.flugel.it/v1alpha1\nkind: ImmortalContainer\nmetadata: {name: web}\nspec: {image: \"nginx:1.27.4\"}\n")
	s.stalled("immortalcontainer/web", "QuotaExceeded", "exceeded quota: small")

	// A rollout without quota waits beyond its deadline, and all pods keep serving.
	s.patch("webserver/web", `{`+ampleDeadline+`,"pod":{"annotations":{"example.com/a":"b"}}}`)
	s.prints("ProgressDeadlineExceeded", "get", "deployment", "web", "-o", `jsonpath={.status.conditions[?(@.type=="Progressing")].reason}`)
	s.stalled("webserver/web", "QuotaExceeded", "exceeded quota: small")
	s.prints("True 2", "get", "webserver", "web", "-o", `jsonpath={.status.conditions[?(@.type=="Available")].status} {.status.readyReplicas}`)

	s.kubectl("patch", "quota", "small", "--type=merge", "-p", `{"spec":{"hard":{"pods":"9"}}}`)
	s.serves("webserver/web")
	s.serves("immortalcontainer/web")
	s.prints("b", "get", "deployment", "web", "-o", `jsonpath={.spec.template.metadata.annotations.example\.com/a}`)
	s.neverActed("webserver/web")
}

func TestNamespace_LimitRange(t *testing.T) {
	campaign(t, "campaign-e2e")
	t.Parallel()
	s := newBlockStage(t)
	s.apply("apiVersion: v1\nkind: LimitRange\nmetadata: {name: small}\nspec: {limits: [{type: Container, max: {memory: 128Mi}}]}\n")
	s.apply("apiVersion: cache.example.com/v1alpha1\nkind: Memcached\nmetadata: {name: cache}\nspec: {size: 1, memory: {size: 256Mi}}\n---\n" +
		app("  resources: {requests: {memory: 256Mi}, limits: {memory: 256Mi}}\n  rollout: {progressDeadlineSeconds: 60}\n"))
	s.stalled("memcached/cache", "AdmissionRefused", "maximum memory usage per Container is 128Mi")
	s.prints("ProgressDeadlineExceeded", "get", "deployment", "web", "-o", `jsonpath={.status.conditions[?(@.type=="Progressing")].reason}`)
	s.stalled("demoapp/web", "AdmissionRefused", "maximum memory usage per Container is 128Mi")

	s.kubectl("delete", "limitrange", "small")
	s.serves("memcached/cache")
	s.serves("demoapp/web")
	s.neverActed("memcached/cache", "demoapp/web")
}

// someServer returns a WebServer called web with these additional fields in its
// spec.
func someServer(fields ...string) string {
	return "apiVersion: my.domain/v1\nkind: WebServer\nmetadata: {name: web}\nspec:\n  image: nginx:1.27.4\n  " + strings.Join(fields, "\n  ")
}

// stalled waits until an object is Stalled for a reason, and its message contains
// says.
func (s blockStage) stalled(object, reason string, says ...string) {
	s.Helper()
	eventually(s.T, object+" to be stalled: "+reason, func() error {
		o, err := s.look(object)
		if err != nil {
			return err
		}
		c := o.condition("Stalled")
		if c.Status != "True" || c.Reason != reason {
			return fmt.Errorf("%+v", c)
		}
		for _, part := range says {
			if !strings.Contains(c.Message, part) {
				return fmt.Errorf("%q does not say %q", c.Message, part)
			}
		}
		if ready := o.condition("Ready"); ready.Status != "False" {
			return fmt.Errorf("it is stalled, and %+v", ready)
		}
		return nil
	})
}

// serves waits until an object is Ready in its current generation, and not Stalled.
func (s blockStage) serves(object string) {
	s.Helper()
	eventually(s.T, object+" to serve", func() error {
		o, err := s.look(object)
		if err != nil {
			return err
		}
		ready, stalled := o.condition("Ready"), o.condition("Stalled")
		if ready.Status != "True" || ready.ObservedGeneration != o.Metadata.Generation || stalled.Status == "True" {
			return fmt.Errorf("generation %d is asked for: %+v %+v", o.Metadata.Generation, ready, stalled)
		}
		return nil
	})
}

// neverActed fails the test if a revision was considered failed.
func (s blockStage) neverActed(objects ...string) {
	s.Helper()
	for _, object := range objects {
		if got := s.kubectl("get", object, "-o", "jsonpath={.status.lastActions}{.status.revisions.failed}"); got != "" {
			s.Errorf("%s acted: %s", object, got)
		}
	}
}

func (s blockStage) look(object string) (objectOf, error) {
	return s.reader.get(s.Context(), s.ns, object)
}
