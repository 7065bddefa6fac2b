//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// app returns a DemoApplication called web with these additional fields in its
// spec.
func app(fields string) string {
	return "apiVersion: paas.cmft.com/v1\nkind: DemoApplication\nmetadata: {name: web}\nspec:\n" +
		"  image: nginx:1.27.4\n  ports: [{port: 80}]\n" + fields
}

// blockStage runs kubectl in a namespace of its own.
type blockStage struct {
	*testing.T
	ns     string
	reader reader
}

func newBlockStage(t *testing.T) blockStage {
	t.Helper()
	return blockStage{t, namespace(t), newReader(t)}
}

func (s blockStage) kubectl(args ...string) string {
	s.Helper()
	return kubectl(s.T, append([]string{"-n", s.ns}, args...)...)
}

func (s blockStage) apply(yaml string) {
	s.Helper()
	if _, err := run(s.Context(), yaml, "kubectl", "-n", s.ns, "apply", "-f", "-"); err != nil {
		s.Fatal(err)
	}
}

func (s blockStage) ready() {
	s.Helper()
	awaitReady(s.T, s.ns, "demoapp/web")
}

func (s blockStage) prints(want string, args ...string) {
	s.Helper()
	eventuallyPrints(s.T, want, append([]string{"-n", s.ns}, args...)...)
}

// TestDemoApplication_Container checks that a running container has the settings in
// the spec, and that a namespace which enforces the restricted standard admits the
// profile Restricted.
func TestDemoApplication_Container(t *testing.T) {
	t.Parallel()
	s := newBlockStage(t)
	s.kubectl("label", "namespace", s.ns, "pod-security.kubernetes.io/enforce=restricted")
	s.kubectl("create", "configmap", "app", "--from-literal=LEVEL=high")
	s.apply(app(`  command: [sh, -c]
  args: ["env > /scratch/env; sleep infinity"]
  env: [{name: MODE, value: prod}, {name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
  envFrom: [{prefix: APP_, configMapRef: {name: app}}]
  resources: {requests: {cpu: 10m, memory: 16Mi}}
  probes: {readiness: {exec: {command: [test, -s, /scratch/env]}, periodSeconds: 1}}
  security: {profile: Restricted, runAsUser: 101, readOnlyRootFilesystem: true}
  pod:
    labels: {team: shop}
    volumes: [{name: scratch, emptyDir: {}}]
    volumeMounts: [{name: scratch, mountPath: /scratch}]
`))
	s.ready()
	env := s.kubectl("exec", "deploy/web", "--", "cat", "/scratch/env")
	pod := s.kubectl("get", "pods", "-l", "team=shop", "-o", "jsonpath={.items[*].metadata.name}")
	for _, want := range []string{"MODE=prod", "POD=" + pod, "APP_LEVEL=high"} {
		if !strings.Contains(env, want+"\n") && !strings.HasSuffix(env, want) {
			t.Errorf("no %s in the environment:\n%s", want, env)
		}
	}
	if got := s.kubectl("exec", "deploy/web", "--", "id", "-u"); got != "101" {
		t.Errorf("it runs as %s", got)
	}
}

// TestDemoApplication_Config checks that a changed ConfigMap replaces the pods, and
// that an earlier revision has its original content.
func TestDemoApplication_Config(t *testing.T) {
	campaign(t, "campaign-e2e")
	t.Parallel()
	s := newBlockStage(t)
	s.apply(app("  envFrom: [{configMapRef: {name: app}}]\n  rollout: {restartOnConfigChange: true}\n"))
	s.prints("ReferenceNotFound", "get", "demoapp", "web", "-o", `jsonpath={.status.conditions[?(@.type=="Stalled")].reason}`)
	s.kubectl("create", "configmap", "app", "--from-literal=MODE=one")
	s.ready()
	mode := func(want string) {
		t.Helper()
		eventually(t, "MODE="+want+" in every pod", func() error {
			pods := strings.Fields(s.kubectl("get", "pods", "-l", "demoapplication_cr=web", "--field-selector=status.phase=Running", "-o", "jsonpath={.items[*].metadata.name}"))
			if len(pods) == 0 {
				return errors.New("there are no pods")
			}
			for _, p := range pods {
				got, err := run(t.Context(), "", "kubectl", "-n", s.ns, "exec", p, "--", "sh", "-c", "echo $MODE")
				if err != nil || strings.TrimSpace(got) != want {
					return fmt.Errorf("%s has %q: %w", p, strings.TrimSpace(got), errors.Join(err, errors.New("not yet")))
				}
			}
			return nil
		})
	}
	mode("one")
	s.kubectl("patch", "configmap", "app", "--type=merge", "-p", `{"data":{"MODE":"two"}}`)
	mode("two")
	s.prints("2", "get", "demoapp", "web", "-o", "jsonpath={.status.revisions.current}")
	s.kubectl("patch", "demoapp", "web", "--type=merge", "-p", `{"spec":{"rollout":{"pinnedRevision":1}}}`)
	mode("one")
}

// TestDemoApplication_Autoscaling checks that the replicas are handed over to the
// autoscaler and back without a drop.
func TestDemoApplication_Autoscaling(t *testing.T) {
	campaign(t, "campaign-e2e")
	t.Parallel()
	s := newBlockStage(t)
	s.apply(app("  replica: 3\n  resources: {requests: {cpu: 10m}}\n"))
	s.ready()
	s.prints("1", "get", "pdb", "web", "-o", "jsonpath={.spec.maxUnavailable}")
	s.kubectl("patch", "demoapp", "web", "--type=merge", "-p",
		`{"spec":{"replica":null,"autoscaling":{"minReplicas":3,"maxReplicas":4,"targetCPUUtilizationPercentage":80}}}`)
	s.prints("Deployment/web 3 4", "get", "hpa", "web", "-o", "jsonpath={.spec.scaleTargetRef.kind}/{.spec.scaleTargetRef.name} {.spec.minReplicas} {.spec.maxReplicas}")
	s.ready()
	if got := s.kubectl("get", "deployment", "web", "-o", "jsonpath={.spec.replicas}"); got != "3" && got != "4" {
		t.Errorf("%s replicas after the hand-over", got)
	}
	if out, err := run(t.Context(), "", "kubectl", "-n", s.ns, "scale", "demoapp/web", "--replicas=9"); err == nil {
		t.Errorf("kubectl scale succeeded although autoscaling is set: %s", out)
	}
	s.kubectl("patch", "demoapp", "web", "--type=merge", "-p", `{"spec":{"replica":2,"autoscaling":null}}`)
	s.prints("2", "get", "deployment", "web", "-o", "jsonpath={.spec.replicas}")
	s.prints("", "get", "hpa", "-o", "name")
}

// TestDemoApplication_AuxiliaryResources checks that auxiliary resources are created on
// request, and deleted when they are not requested any more.
func TestDemoApplication_AuxiliaryResources(t *testing.T) {
	campaign(t, "campaign-e2e")
	t.Parallel()
	s := newBlockStage(t)
	host := s.ns + ".example.com"
	s.apply(app(`  replica: 2
  expose: {type: Ingress, hosts: [` + host + `]}
  networkPolicy: {preset: Isolated, from: [{ipBlock: {cidr: 0.0.0.0/0}}]}
  podDisruptionBudget: {minAvailable: 1}
  service: {sessionAffinity: ClientIP}
`))
	s.ready()
	s.prints("http://"+host, "get", "demoapp", "web", "-o", "jsonpath={.status.addresses[0].url}")
	s.prints("ClientIP", "get", "service", "web", "-o", "jsonpath={.spec.sessionAffinity}")
	s.prints("80", "get", "networkpolicy", "web", "-o", "jsonpath={.spec.ingress[*].ports[*].port}")
	s.prints("1", "get", "pdb", "web", "-o", "jsonpath={.spec.minAvailable}")
	s.prints("web", "get", "ingress", "web", "-o", "jsonpath={.spec.rules[0].http.paths[0].backend.service.name}")
	s.kubectl("patch", "demoapp", "web", "--type=merge", "-p", `{"spec":{"expose":null,"networkPolicy":null,"podDisruptionBudget":null,"replica":1}}`)
	s.prints("", "get", "ingress,networkpolicy", "-o", "name")
	s.prints("1", "get", "pdb", "web", "-o", "jsonpath={.spec.maxUnavailable}")
	s.ready()
}
