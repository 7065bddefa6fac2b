//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
)

// upgradeChart changes values of the installed release.
func upgradeChart(ctx context.Context, args ...string) error {
	all := append([]string{
		"upgrade", operatorName, "../charts/platform-operator", "-n", operatorNamespace, "--reuse-values", "--wait", "--timeout=" + patience.String(), "--hide-notes",
	}, args...)
	_, err := helm(ctx, "", all...)
	return err
}

// watchNamespaces restricts the installed release to namespaces; without any, it
// watches all.
func watchNamespaces(ctx context.Context, namespaces ...string) error {
	if err := changePermissions(ctx); err != nil {
		return err
	}
	list, err := json.Marshal(append([]string{}, namespaces...))
	if err != nil {
		return fmt.Errorf("encoding the namespaces: %w", err)
	}
	return upgradeChart(ctx, "--set-json", "config.watchNamespaces="+string(list))
}

// TestOperator_StartsWithoutAWatchedNamespace deletes a watched namespace, and with
// it the RoleBinding that permits the operator to read it. Objects in the other
// namespaces are still reconciled, even by an operator that starts later. The test
// changes the configuration of the operator, so it runs alone.
func TestOperator_StartsWithoutAWatchedNamespace(t *testing.T) {
	campaign(t, "campaign-operator")
	kept := newBlockStage(t)
	lost := blockStage{t, kept.ns + "-lost", kept.reader}
	kubectl(t, "create", "namespace", lost.ns)
	kubectl(t, "label", "namespace", lost.ns, ours)
	unreadable.Store(lost.ns, true)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if _, err := run(ctx, "", "kubectl", "delete", "namespace", lost.ns, "--ignore-not-found", "--wait=false"); err != nil {
			t.Error(err)
		}
		if err := watchNamespaces(ctx); err != nil {
			t.Error(err)
		}
	})
	if err := watchNamespaces(t.Context(), kept.ns, lost.ns); err != nil {
		t.Fatal(err)
	}
	leads(t)
	web := webServerKind.manifest("web", `{image: "nginx:1.27.4", replicas: 0, service: {type: ClusterIP}}`)
	kept.apply(web)
	lost.apply(web)
	kept.serves("webserver/web")
	lost.serves("webserver/web")

	kubectl(t, "delete", "namespace", lost.ns, "--timeout="+patience.String())
	restartOperator(t)
	kept.recreated("deployment/web", func() { kept.kubectl("delete", "deployment", "web") })
	kept.patch("webserver/web", `{"service":{"port":8080}}`)
	kept.serves("webserver/web")
}
