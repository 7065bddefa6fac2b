//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// everything is one object of each kind with every block that makes a child.
const everything = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: public}
spec: {gatewayClassName: traefik, listeners: [{name: http, port: 80, protocol: HTTP}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: pages}
data: {index.html: hello}
---
apiVersion: my.domain/v1
kind: WebServer
metadata: {name: web}
spec:
  image: nginx:1.27.4
  deletionPolicy: Orphan
  content: {configMapRef: {name: pages}}
  autoscaling: {minReplicas: 2, maxReplicas: 3, targetCPUUtilizationPercentage: 80}
  resources: {requests: {cpu: 10m}}
  networkPolicy: {preset: Isolated}
  expose: {type: Gateway, hosts: [%[1]s.example.com], gateway: {parentRef: {name: public}}}
  monitoring: {enabled: true}
  service: {type: ClusterIP}
  rollout: {revisionHistoryLimit: 0}
---
apiVersion: paas.cmft.com/v1
kind: DemoApplication
metadata: {name: app}
spec:
  image: nginx:1.27.4
  deletionPolicy: Orphan
  ports: [{port: 80}]
  replica: 2
  expose: {type: Ingress, hosts: [app-%[1]s.example.com], ingress: {ingressClassName: traefik}}
---
apiVersion: cache.example.com/v1alpha1
kind: Memcached
metadata: {name: cache}
spec: {size: 2, deletionPolicy: Orphan, networkPolicy: {preset: Isolated}}
---
apiVersion: immortalcontainer.flugel.it/v1alpha1
kind: ImmortalContainer
metadata: {name: immortal}
spec: {image: nginx, deletionPolicy: Orphan, networkPolicy: {preset: Isolated}}
`

// little is the same with as few children as can be.
const little = `
apiVersion: my.domain/v1
kind: WebServer
metadata: {name: web}
spec: {image: "nginx:1.27.4", deletionPolicy: Orphan, replicas: 1, service: {type: ClusterIP}, rollout: {revisionHistoryLimit: 0}}
---
apiVersion: paas.cmft.com/v1
kind: DemoApplication
metadata: {name: app}
spec: {image: "nginx:1.27.4", deletionPolicy: Orphan}
---
apiVersion: cache.example.com/v1alpha1
kind: Memcached
metadata: {name: cache}
spec: {size: 1, deletionPolicy: Orphan}
---
apiVersion: immortalcontainer.flugel.it/v1alpha1
kind: ImmortalContainer
metadata: {name: immortal}
spec: {image: nginx, deletionPolicy: Orphan, suspend: true}
`

// TestWhatIsLostIsFoundAgain takes the label from a child of each type, by
// which the operator sees it, deletes others, asks for less, and deletes the
// objects: a whole life, in which every type of child is made, read, changed
// and deleted.
func TestWhatIsLostIsFoundAgain(t *testing.T) {
	needsTraefik(t)
	t.Parallel()
	ns := namespace(t)
	in := func(args ...string) string {
		t.Helper()
		return kubectl(t, append([]string{"-n", ns}, args...)...)
	}
	put := func(verb, yaml string) {
		t.Helper()
		if _, err := run(t.Context(), yaml, "kubectl", "-n", ns, verb, "-f", "-"); err != nil {
			t.Fatal(err)
		}
	}
	ready := func() {
		t.Helper()
		for _, o := range []string{"webserver/web", "demoapplication/app", "memcached/cache"} {
			in("wait", "--for=condition=Ready", o, "--timeout=2m")
		}
	}
	put("apply", fmt.Sprintf(everything, ns))
	ready()
	in("wait", "--for=condition=Ready", "immortalcontainer/immortal", "--timeout=2m")

	const label = "app.kubernetes.io/managed-by"
	for _, kind := range []string{
		"deployment", "controllerrevision", "service", "configmap", "horizontalpodautoscaler", "poddisruptionbudget",
		"networkpolicy", "ingress", "httproute", "podmonitor",
	} {
		name, _, _ := strings.Cut(in("get", kind, "-l", label+"=platform-operator", "-o", "jsonpath={.items[*].metadata.name}"), " ")
		if name == "" {
			t.Fatalf("there is no %s", kind)
		}
		if kind == "poddisruptionbudget" {
			// Of these the cache holds everybody's; one is read that seems to be
			// made by an older operator.
			in("patch", kind, name, "--type=json", "-p", `[{"op": "replace", "path": "/metadata/managedFields", "value": [{}]}]`)
		}
		in("label", kind, name, label+"-")
		eventuallyPrints(t, "platform-operator", "-n", ns, "get", kind, name, "-o", `jsonpath={.metadata.labels.app\.kubernetes\.io/managed-by}`)
	}
	in("label", "pod", "immortal-immortalpod", label+"-")
	eventuallyPrints(t, "platform-operator", "-n", ns, "get", "pod", "immortal-immortalpod", "--ignore-not-found", "-o", `jsonpath={.metadata.labels.app\.kubernetes\.io/managed-by}`)
	ready()

	for _, child := range []string{"service/web-service", "service/app", "networkpolicy/cache", "networkpolicy/immortal-immortalpod"} {
		uid := in("get", child, "-o", "jsonpath={.metadata.uid}")
		in("delete", child)
		eventually(t, child+" to be made anew", func() error {
			now, err := run(t.Context(), "", "kubectl", "-n", ns, "get", child, "-o", "jsonpath={.metadata.uid}")
			if err == nil && now == uid {
				err = errors.New("it is the old one")
			}
			return err
		})
	}

	put("replace", little)
	ready()
	for kind, want := range map[string]string{
		"ingress,httproute,podmonitor,horizontalpodautoscaler,networkpolicy,poddisruptionbudget": "",
		"service": "service/cache service/web-service",
		"pod":     "",
	} {
		selector := label + "=platform-operator"
		if kind == "pod" {
			selector += ",immortalcontainer_cr=immortal"
		}
		eventually(t, kind+" to be "+want, func() error {
			out, err := run(t.Context(), "", "kubectl", "-n", ns, "get", kind, "-l", selector, "-o", "name")
			if got := strings.Join(strings.Fields(out), " "); err == nil && got != want {
				err = fmt.Errorf("it is %q", got)
			}
			return err
		})
	}
	// The revision that nobody goes back to, and its copy of the pages.
	eventually(t, "the copy of the pages to go", func() error {
		out, err := run(t.Context(), "", "kubectl", "-n", ns, "get", "configmap,controllerrevision", "-l", label+"=platform-operator", "-o", "name")
		if n := len(strings.Fields(out)); err == nil && n > 5 {
			err = fmt.Errorf("there are %s", out)
		}
		return err
	})

	put("delete", little)
	in("get", "deployment", "web", "app", "cache")
}

// TestDefinitionsThatArriveLater takes the definition of PodMonitor away, and
// with it every PodMonitor: so it runs alone.
func TestDefinitionsThatArriveLater(t *testing.T) {
	const crd = "podmonitors.monitoring.coreos.com"
	if _, err := run(t.Context(), "", "kubectl", "get", "crd", crd); err != nil {
		t.Skip("this cluster does not know PodMonitors: bin/cluster addon prometheus-operator-crds")
	}
	definition := kubectl(t, "get", "crd", crd, "-o", "json", "--show-managed-fields=false")
	ns := namespace(t)
	restart := func() {
		t.Helper()
		kubectl(t, "-n", operatorNamespace, "rollout", "restart", "deployment/"+operatorName)
		kubectl(t, "-n", operatorNamespace, "rollout", "status", "deployment/"+operatorName, "--timeout=2m")
		leads(t)
	}
	back := func() {
		if out, err := run(t.Context(), definition, "kubectl", "create", "-f", "-"); err != nil && !strings.Contains(err.Error(), "AlreadyExists") {
			t.Errorf("%s %v", out, err)
		}
	}
	kubectl(t, "delete", "crd", crd, "--timeout=60s")
	defer back()
	restart()
	if err := apply(t, fmt.Sprintf("apiVersion: my.domain/v1\nkind: WebServer\nmetadata: {name: web, namespace: %s}\nspec: {image: \"nginx:1.27.4\", service: {type: ClusterIP}, monitoring: {enabled: true}}\n", ns)); err != nil {
		t.Fatal(err)
	}
	kubectl(t, "-n", ns, "wait", "--for=condition=Ready", "webserver/web", "--timeout=2m") // a type that is absent is no error
	back()
	eventually(t, "the PodMonitor", func() error {
		_, err := run(t.Context(), "", "kubectl", "-n", ns, "get", "podmonitor", "web")
		return err
	})
	kubectl(t, "-n", ns, "wait", "--for=condition=Ready", "webserver/web", "--timeout=2m")
}

// TestALostLeaseIsMadeAnew deletes what the replicas agree by.
func TestALostLeaseIsMadeAnew(t *testing.T) {
	uid := func() (string, error) {
		return run(t.Context(), "", "kubectl", "-n", operatorNamespace, "get", "lease", operatorName, "-o", "jsonpath={.metadata.uid}")
	}
	before, err := uid()
	if err != nil {
		t.Fatal(err)
	}
	kubectl(t, "-n", operatorNamespace, "delete", "lease", operatorName)
	eventually(t, "another lease", func() error {
		now, err := uid()
		if err == nil && now == before {
			err = errors.New("it is the old one")
		}
		return err
	})
	leads(t)
}
