//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// around contains the objects that exist in addition to those of the tested
// scenario.
const around = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: public}
spec: {gatewayClassName: traefik, listeners: [{name: http, port: 80, protocol: HTTP}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: pages}
data: {index.html: hello}
`

// life returns a file of e2e/testdata/life for that namespace.
func life(t *testing.T, name, ns string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "life", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(raw), "NAMESPACE", ns)
}

const podMonitors = "podmonitors.monitoring.coreos.com"

func needsPodMonitors(t *testing.T) {
	t.Helper()
	if _, err := run(t.Context(), "", "kubectl", "get", "crd", podMonitors); err != nil {
		t.Skip("this cluster does not serve PodMonitors: run bin/cluster addon prometheus-operator-crds")
	}
}

// TestOperator_FindsUnlabelledAndDeletedChildren removes the label by which the operator finds its
// children from a child of each type, deletes others, reduces the spec, and deletes
// the objects. Every type of child is created, read, changed and deleted.
func TestOperator_FindsUnlabelledAndDeletedChildren(t *testing.T) {
	campaign(t, "campaign-e2e")
	needsTraefik(t)
	needsPodMonitors(t)
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
		awaitReady(t, ns, "webserver/web", "demoapplication/app", "memcached/cache")
	}
	put("apply", around)
	put("apply", life(t, "everything", ns))
	ready()
	awaitReady(t, ns, "immortalcontainer/immortal")

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
			// The cache contains the PodDisruptionBudgets of all clients. One is
			// read if an older operator seems to have created it.
			in("patch", kind, name, "--type=json", "-p", `[{"op": "replace", "path": "/metadata/managedFields", "value": [{}]}]`)
		}
		out, err := run(t.Context(), "", "kubectl", "-n", ns, "label", kind, name, label+"-")
		if err != nil && strings.Contains(err.Error(), "ValidatingAdmissionPolicy 'platform-operator-revisions'") {
			continue // the admission policies are installed, and only the operator can
		}
		if err != nil {
			t.Fatal(out, err)
		}
		eventuallyPrints(t, "platform-operator", "-n", ns, "get", kind, name, "-o", `jsonpath={.metadata.labels.app\.kubernetes\.io/managed-by}`)
	}
	in("label", "pod", "immortal-immortalpod", label+"-")
	eventuallyPrints(t, "platform-operator", "-n", ns, "get", "pod", "immortal-immortalpod", "--ignore-not-found", "-o", `jsonpath={.metadata.labels.app\.kubernetes\.io/managed-by}`)
	ready()

	for _, child := range []string{"service/web-service", "service/app", "networkpolicy/cache", "networkpolicy/immortal-immortalpod"} {
		uid := in("get", child, "-o", "jsonpath={.metadata.uid}")
		in("delete", child)
		eventually(t, child+" to be created again", func() error {
			now, err := run(t.Context(), "", "kubectl", "-n", ns, "get", child, "-o", "jsonpath={.metadata.uid}")
			if err == nil && now == uid {
				err = errors.New("it is the old one")
			}
			return err
		})
	}

	put("replace", life(t, "little", ns))
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
	// The revision that can no longer be rolled back to, and its snapshot of the
	// pages.
	eventually(t, "the copy of the pages to go", func() error {
		out, err := run(t.Context(), "", "kubectl", "-n", ns, "get", "configmap,controllerrevision", "-l", label+"=platform-operator", "-o", "name")
		if n := len(strings.Fields(out)); err == nil && n > 5 {
			err = fmt.Errorf("there are %s", out)
		}
		return err
	})

	put("delete", life(t, "little", ns))
	in("get", "deployment", "web", "app", "cache")
}

// TestOperator_CRDInstalledLater deletes the CRD of PodMonitor, and with it every
// PodMonitor: so it runs alone, and not on a cluster that others use.
func TestOperator_CRDInstalledLater(t *testing.T) {
	campaign(t, "campaign-operator")
	if !local() {
		t.Skip("it would delete all PodMonitors of the cluster")
	}
	needsPodMonitors(t)
	definition := kubectl(t, "get", "crd", podMonitors, "-o", "json", "--show-managed-fields=false")
	ns := namespace(t)
	back := func() {
		if out, err := run(t.Context(), definition, "kubectl", "create", "-f", "-"); err != nil && !strings.Contains(err.Error(), "AlreadyExists") {
			t.Errorf("%s %v", out, err)
		}
	}
	kubectl(t, "delete", "crd", podMonitors, "--timeout="+patience.String())
	defer back()
	restartOperator(t)
	if err := apply(t, webServer(ns, "web", `{image: "nginx:1.27.4", service: {type: ClusterIP}, monitoring: {enabled: true}}`)); err != nil {
		t.Fatal(err)
	}
	awaitReady(t, ns, "webserver/web") // a missing kind is not an error
	back()
	eventually(t, "the PodMonitor", func() error {
		_, err := run(t.Context(), "", "kubectl", "-n", ns, "get", "podmonitor", "web")
		return err
	})
	awaitReady(t, ns, "webserver/web")
}

// TestOperator_RecreatesTheLease deletes the Lease by which the replicas elect the
// leader.
func TestOperator_RecreatesTheLease(t *testing.T) {
	campaign(t, "campaign-operator")
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
