//go:build e2e

package e2e

import (
	"strings"
	"testing"
)

// TestUninstall_LeavesNoBlockedDeletion uninstalls the operator while
// objects with each deletion policy exist, and installs it again. The CRDs stay, and
// installing updates one that an older chart has written.
func TestUninstall_LeavesNoBlockedDeletion(t *testing.T) {
	ns := namespace(t)
	for name, policy := range map[string]string{"mortal": "Delete", "orphan": "Orphan", "stays": "Orphan"} {
		if err := apply(t, webServer(ns, name, `{image: nginx, deletionPolicy: `+policy+`, service: {type: ClusterIP}}`)); err != nil {
			t.Fatal(err)
		}
		awaitReady(t, ns, "webserver/"+name)
	}
	values, err := helm(t.Context(), "", "get", "values", operatorName, "-n", operatorNamespace, "-o", "yaml")
	if err != nil {
		t.Fatal(err)
	}
	restarts := func() string {
		return kubectl(t, "-n", ns, "get", "pods", "-l", "webserver_cr=stays", "-o", "jsonpath={.items[*].metadata.name}")
	}
	pods := restarts()

	if err := changePermissions(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := helm(t.Context(), "", "uninstall", operatorName, "-n", operatorNamespace, "--wait"); err != nil {
		t.Fatal(err)
	}
	if out := kubectl(t, "-n", ns, "get", "webservers", "-o", "name"); strings.Count(out, "webserver.") != 3 {
		t.Errorf("objects after the uninstallation: %q, want all three", out)
	}
	// Without an operator, objects can be deleted. Their children keep running, or
	// are deleted with them by the garbage collector of Kubernetes.
	kubectl(t, "-n", ns, "delete", "webserver", "mortal", "orphan", "--timeout="+patience.String())
	eventuallyPrints(t, "", "-n", ns, "get", "deployments", "-o", `jsonpath={.items[?(@.metadata.name=="mortal")].metadata.name}`)

	column := func() string {
		return kubectl(t, "get", "crd", "webservers.my.domain", "-o", "jsonpath={.spec.versions[0].additionalPrinterColumns[0].name}")
	}
	first := column()
	kubectl(t, "patch", "crd", "webservers.my.domain", "--type=json", "-p", `[{"op":"replace","path":"/spec/versions/0/additionalPrinterColumns/0/name","value":"Old"}]`)
	// With the same values, because later tests need the ServiceMonitor.
	if _, err := helm(t.Context(), values, "upgrade", "--install", operatorName, "../charts/platform-operator", "--force-conflicts",
		"-n", operatorNamespace, "--wait", "--timeout="+patience.String(), "--hide-notes", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	leads(t)
	if got := column(); got != first {
		t.Errorf("the first column is %q after helm upgrade, want %q", got, first)
	}
	kubectl(t, "-n", ns, "scale", "webserver", "stays", "--replicas=2")
	eventuallyPrints(t, "2", "-n", ns, "get", "deployment", "stays", "-o", "jsonpath={.status.readyReplicas}")
	if now := restarts(); !strings.Contains(now, pods) && !strings.Contains(now, strings.Fields(pods)[0]) {
		t.Errorf("pods were restarted by the reinstallation: %s, were %s", now, pods)
	}
	eventuallyPrints(t, `["platform-operator.io/teardown"]`, "-n", ns, "get", "webserver", "stays", "-o", "jsonpath={.metadata.finalizers}")
	// The next test may change the operator's permissions, which it needs for this.
	kubectl(t, "-n", ns, "delete", "webserver", "stays", "--timeout="+patience.String())
}
