//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// restartOperator replaces all replicas at the same time, which takes less than half as
// long as a rollout, and waits until they work.
func restartOperator(t *testing.T) {
	t.Helper()
	kubectl(t, "-n", operatorNamespace, "delete", "pods", "-l", "app.kubernetes.io/name=platform-operator", "--timeout="+patience.String())
	kubectl(t, "-n", operatorNamespace, "rollout", "status", "deployment/"+operatorName, "--timeout="+patience.String())
	leads(t)
}

// leads waits until one of the running replicas holds the Lease.
func leads(t *testing.T) {
	t.Helper()
	eventually(t, "a leader", func() error {
		holder, err := run(t.Context(), "", "kubectl", "-n", operatorNamespace, "get", "lease", operatorName, "-o", "jsonpath={.spec.holderIdentity}")
		if err != nil {
			return err
		}
		pods, err := run(t.Context(), "", "kubectl", "-n", operatorNamespace, "get", "pods", "-l", "app.kubernetes.io/name=platform-operator", "-o", "jsonpath={.items[*].metadata.name}")
		if err != nil {
			return err
		}
		name, _, _ := strings.Cut(holder, "_")
		if name == "" || !slices.Contains(strings.Fields(pods), name) {
			return fmt.Errorf("the lease is held by %q, pods are %s", holder, pods)
		}
		return nil
	})
	// A replica that was killed without being terminated leaves its endpoint behind
	// for a moment.
	eventually(t, "admission to answer", func() error { return admission(t.Context()) })
}

// admission returns the error with which a valid object is rejected, or nil if it
// is admitted.
func admission(ctx context.Context) error {
	const probe = "apiVersion: my.domain/v1\nkind: WebServer\nmetadata: {name: probe, namespace: default}\nspec: {image: nginx}\n"
	_, err := run(ctx, probe, "kubectl", "apply", "--dry-run=server", "-f", "-")
	return err
}

// TestOperator_ReplacesADeletedLeader checks that the other replica takes over when the
// leader's pod is deleted, and repairs what was changed in the meantime.
func TestOperator_ReplacesADeletedLeader(t *testing.T) {
	ns := namespace(t)
	if err := apply(t, webServer(ns, "web", `{image: nginx, service: {type: ClusterIP}}`)); err != nil {
		t.Fatal(err)
	}
	awaitReady(t, ns, "webserver/web")
	holder, _, _ := strings.Cut(kubectl(t, "-n", operatorNamespace, "get", "lease", operatorName, "-o", "jsonpath={.spec.holderIdentity}"), "_")
	kubectl(t, "-n", operatorNamespace, "delete", "pod", holder, "--grace-period=0", "--force")
	kubectl(t, "-n", ns, "delete", "service", "web-service")
	start := time.Now()
	eventually(t, "the Service to be healed by the other replica", func() error {
		_, err := run(t.Context(), "", "kubectl", "-n", ns, "get", "service", "web-service")
		return err
	})
	t.Logf("healed %s after the leader was killed", time.Since(start).Round(100*time.Millisecond))
	kubectl(t, "-n", operatorNamespace, "rollout", "status", "deployment/"+operatorName, "--timeout="+patience.String())
	leads(t)
}

// TestMetrics_ReportConditionsAndWrites reads the metrics like Prometheus.
func TestMetrics_ReportConditionsAndWrites(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	if err := apply(t, webServer(ns, "web", `{image: nginx, service: {type: ClusterIP}}`)); err != nil {
		t.Fatal(err)
	}
	awaitReady(t, ns, "webserver/web")
	m := newMonitor(t, ns)
	scrape := func() string {
		var all strings.Builder
		for _, ip := range m.pods() {
			code, body, err := m.get("https://"+ip+":8443/metrics", m.token("reader"))
			if err != nil || code != http.StatusOK {
				t.Fatalf("%d %s %v", code, body, err)
			}
			all.WriteString(body)
		}
		return all.String()
	}
	series := fmt.Sprintf(`platform_operator_object_conditions{condition="Ready",kind="WebServer",namespace="%s",status="True"} 1`, ns)
	body := scrape()
	for _, want := range []string{series, `platform_operator_child_writes_total{action="created",child="Deployment",kind="WebServer"}`, `controller_runtime_reconcile_total{`} {
		if n := strings.Count(body, want); n == 0 || (want == series && n != 1) {
			t.Errorf("the metrics of all replicas have %q %d times", want, n)
		}
	}
	kubectl(t, "-n", ns, "delete", "webserver", "web")
	eventually(t, "the series to end with the object", func() error {
		if strings.Contains(scrape(), series) {
			return errors.New("it is still there")
		}
		return nil
	})
}
