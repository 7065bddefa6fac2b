//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
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

// TestOperator_TwoReleases checks that two releases with disjoint namespaces leave each
// other's objects alone: in admission, while revisions are created, and when one of them is
// uninstalled. It changes the configuration of the operator, so it runs alone.
func TestOperator_TwoReleases(t *testing.T) {
	campaign(t, "campaign-operator")
	first, second, home := newBlockStage(t), newBlockStage(t), newBlockStage(t).ns
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := watchNamespaces(ctx); err != nil {
			t.Error(err)
		}
	})
	if err := watchNamespaces(t.Context(), first.ns); err != nil {
		t.Fatal(err)
	}
	values, err := helm(t.Context(), "", "get", "values", operatorName, "-n", operatorNamespace, "-o", "yaml")
	if err == nil {
		_, err = helm(t.Context(), values, "install", "second", "../charts/platform-operator", "-n", home, "-f", "-", "--wait", "--timeout="+patience.String(),
			"--set", "fullnameOverride=second,crds.enabled=false,config.maxReplicas=2,config.watchNamespaces={"+second.ns+"}")
	}
	if err != nil {
		t.Fatal(err)
	}
	web := func(replicas int, content string) string {
		return webServerKind.manifest("web", fmt.Sprintf(`{image: "nginx:1.27.4", replicas: %d, deletionPolicy: Orphan, service: {type: ClusterIP}, content: {files: {index.html: %q}}}`, replicas, content))
	}
	for _, content := range []string{"one", "two"} { // each is a revision, which only the operator of the namespace may write
		first.apply(web(3, content))
		second.apply(web(2, content))
		first.serves("webserver/web")
		second.serves("webserver/web")
	}
	if _, err := run(t.Context(), web(3, "two"), "kubectl", "-n", second.ns, "apply", "-f", "-"); err == nil || !strings.Contains(err.Error(), "spec.replicas") {
		t.Errorf("three replicas in the second namespace: %v", err)
	}
	if _, err := helm(t.Context(), "", "uninstall", "second", "-n", home, "--wait"); err != nil {
		t.Fatal(err)
	}
	first.prints(`["platform-operator.io/teardown"]`, "get", "webserver", "web", "-o", "jsonpath={.metadata.finalizers}")
	second.prints("", "get", "webserver", "web", "-o", "jsonpath={.metadata.finalizers}")
	second.prints("2", "get", "deployment", "web", "-o", "jsonpath={.status.readyReplicas}")
	first.apply(web(1, "three"))
	first.serves("webserver/web")
}
