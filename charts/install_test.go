//go:build chart

package charts_test

import (
	"context"
	"encoding/base64"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/pkg/testkit"
)

// production are the values for production, for an API server without the CRDs of
// PrometheusRules and cert-manager.
var production = []string{
	"-f", filepath.Join(chart, "values-production.yaml"), "--set", "metrics.prometheusRule.enabled=false,metrics.serviceMonitor.enabled=false", "--set", "webhooks.certManager.enabled=false",
}

// TestInstall installs, upgrades and uninstalls on a real API server without nodes.
// It tests what the server accepts, and which fields Helm leaves unchanged.
func TestInstall(t *testing.T) {
	t.Parallel()
	cfg, c, kubeconfig := startServer(t)

	// config/ first, as a dry run. It creates only the namespace, which the dry run
	// of the other objects needs.
	kubectl := tool(t, "KUBECTL", "kubectl")
	for _, args := range [][]string{
		{"apply", "-f", "../config/default/namespace.yaml"},
		{"apply", "--server-side", "--dry-run=server", "--validate=strict", "-k", "../config/default"},
		{"apply", "--dry-run=server", "--validate=strict", "-k", "../config/default"},
	} {
		if _, stderr, err := run(kubectl, append([]string{"--kubeconfig", kubeconfig}, args...)...); err != nil {
			t.Fatalf("kubectl %v: %v\n%s", args, err, stderr)
		}
	}

	install := slices.Concat([]string{"upgrade", "--install", "platform-operator", chart, "--kubeconfig", kubeconfig, "--namespace", namespace}, image)

	// Version 0.1 of the chart could issue the certificate. The webhooks must trust it
	// after an upgrade, until the operator has issued the next one.
	before := slices.Clone(install)
	before[3] = issuingChart(t, cfg.CAData)
	helm(t, before...)
	issued := get(t, c, "admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "platform-operator")
	helm(t, install...)
	kept := get(t, c, "admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "platform-operator")
	if diff := cmp.Diff(issued.Object["webhooks"], kept.Object["webhooks"]); diff != "" {
		t.Errorf("helm upgrade changed the webhooks of a certificate that Helm had issued (-before +after):\n%s", diff)
	}

	// Write the certificate as the operator does.
	secret := get(t, c, "v1", "Secret", "platform-operator-webhook-cert")
	secret.Object["data"] = map[string]any{"ca.crt": "Y2E=", "tls.crt": "Y3J0", "tls.key": "a2V5"}
	must(t, c.Update(t.Context(), secret))
	configuration := get(t, c, "admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "platform-operator")
	setCABundle(t, configuration, cfg.CAData)
	must(t, c.Update(t.Context(), configuration))

	// An upgrade with a change, so that Helm writes.
	helm(t, slices.Concat(install, production, []string{"--set", "log.level=debug", "--set", "nodeSelector.disk=ssd"})...)
	if diff := cmp.Diff(secret.Object["data"], get(t, c, "v1", "Secret", "platform-operator-webhook-cert").Object["data"]); diff != "" {
		t.Errorf("helm upgrade changed the certificate (-before +after):\n%s", diff)
	}
	after := get(t, c, "admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "platform-operator")
	if diff := cmp.Diff(configuration.Object["webhooks"], after.Object["webhooks"]); diff != "" {
		t.Errorf("helm upgrade changed the webhooks (-before +after):\n%s", diff)
	}

	// The namespace enforces the Pod Security Standard restricted, so all pods of the
	// chart must comply with it.
	for _, o := range parse(t, template(t)) {
		spec, found, _ := unstructured.NestedMap(o.Object, "spec", "template", "spec")
		if !found {
			continue
		}
		pod := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "spec": spec}}
		pod.SetNamespace(namespace)
		pod.SetName(o.GetName())
		if err := c.Create(t.Context(), pod, client.DryRunAll); err != nil {
			t.Errorf("the pod of %s %s: %v", o.GetKind(), o.GetName(), err)
		}
	}

	// Without controllers the Job of the hook never completes, so it is skipped.
	helm(t, "uninstall", "platform-operator", "--kubeconfig", kubeconfig, "--namespace", namespace, "--no-hooks")
	get(t, c, "apiextensions.k8s.io/v1", "CustomResourceDefinition", "webservers.my.domain")
	gone := &unstructured.Unstructured{}
	gone.SetAPIVersion("admissionregistration.k8s.io/v1")
	gone.SetKind("ValidatingWebhookConfiguration")
	if err := c.Get(t.Context(), client.ObjectKey{Name: "platform-operator"}, gone); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("after helm uninstall the webhook configuration is still there, or cannot be read: %v", err)
	}

	// Install again, with the CRDs that were kept.
	helm(t, install...)
	changeMode(t, cfg, c, install)
}

// changeMode changes to cert-manager and back: the Secret passes to cert-manager and to
// Helm again, and the CA bundles remain, also when the change is rolled back.
func changeMode(t *testing.T, cfg *rest.Config, c client.Client, install []string) {
	t.Helper()
	for _, kind := range []string{"Issuer", "Certificate"} {
		crd := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
			"metadata": map[string]any{"name": strings.ToLower(kind) + "s.cert-manager.io"},
			"spec": map[string]any{
				"group": "cert-manager.io", "scope": "Namespaced", "names": map[string]any{"kind": kind, "plural": strings.ToLower(kind) + "s"},
				"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": map[string]any{
					"type": "object", "x-kubernetes-preserve-unknown-fields": true,
				}}}},
			},
		}}
		must(t, c.Create(t.Context(), crd))
		must(t, testkit.Eventually(t.Context(), "the CRD to be served", func(context.Context) (bool, error) {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(schema.FromAPIVersionAndKind("cert-manager.io/v1", kind+"List"))
			err := c.List(t.Context(), list)
			return err == nil, err
		}))
	}
	const admission = "admissionregistration.k8s.io/v1"
	helm(t, slices.Concat(install, []string{"--set", "webhooks.certManager.enabled=true"})...)
	certificate := get(t, c, "cert-manager.io/v1", "Certificate", "platform-operator-webhook")
	labels, _, err := unstructured.NestedStringMap(certificate.Object, "spec", "secretTemplate", "labels")
	must(t, err)
	annotations, _, err := unstructured.NestedStringMap(certificate.Object, "spec", "secretTemplate", "annotations")
	must(t, err)
	secret := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "data": map[string]any{"ca.crt": "Y2E=", "tls.crt": "Y3J0", "tls.key": "a2V5"},
	}}
	secret.SetName("platform-operator-webhook-cert")
	secret.SetNamespace(namespace)
	secret.SetLabels(labels)
	secret.SetAnnotations(annotations)
	must(t, c.Create(t.Context(), secret, client.FieldOwner("cert-manager-certificates-issuing"))) // Helm has deleted its own
	injected := get(t, c, admission, "ValidatingWebhookConfiguration", "platform-operator")
	setCABundle(t, injected, slices.Concat(cfg.CAData, cfg.CAData))
	must(t, c.Update(t.Context(), injected, client.FieldOwner("cert-manager-cainjector")))

	ways := [][]string{{"rollback", "platform-operator", "--kubeconfig", install[5], "--namespace", namespace}, install}
	if isHelm3(t) { // as documented
		ways = ways[1:]
	}
	for _, back := range ways {
		helm(t, back...)
		after := get(t, c, admission, "ValidatingWebhookConfiguration", "platform-operator")
		if diff := cmp.Diff(injected.Object["webhooks"], after.Object["webhooks"]); diff != "" {
			t.Errorf("helm %s changed the webhooks (-before +after):\n%s", back[0], diff)
		}
		if len(after.GetAnnotations()) > 2 {
			t.Errorf("helm %s keeps the annotations %v", back[0], after.GetAnnotations())
		}
		if diff := cmp.Diff(secret.Object["data"], get(t, c, "v1", "Secret", "platform-operator-webhook-cert").Object["data"]); diff != "" {
			t.Errorf("helm %s changed the certificate (-before +after):\n%s", back[0], diff)
		}
	}
}

// issuingChart returns a copy of the chart that contains the certificate and the CA
// bundles.
func issuingChart(t *testing.T, ca []byte) string {
	t.Helper()
	folder := t.TempDir()
	must(t, os.CopyFS(folder, os.DirFS(chart)))
	path := filepath.Join(folder, "templates", "webhooks.yaml")
	raw, err := os.ReadFile(path)
	must(t, err)
	bundle := base64.StdEncoding.EncodeToString(ca)
	issuing := strings.NewReplacer(
		"{{- end }}\n{{- /*\nGenerated", "data: {tls.crt: Y3J0, tls.key: a2V5, ca.crt: "+bundle+"}\n{{- end }}\n{{- /*\nGenerated",
		`$caBundle := ""`, `$caBundle := "`+bundle+`"`,
	).Replace(string(raw))
	if n := strings.Count(issuing, bundle); n != 2 {
		t.Fatalf("the certificate is in %d places of the template, want 2", n)
	}
	must(t, os.WriteFile(path, []byte(issuing), 0o600))
	return folder
}

func get(t *testing.T, c client.Client, apiVersion, kind, name string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(schema.FromAPIVersionAndKind(apiVersion, kind))
	key := client.ObjectKey{Name: name}
	if kind == "Secret" || kind == "Certificate" {
		key.Namespace = namespace
	}
	must(t, c.Get(t.Context(), key, o))
	return o
}

func setCABundle(t *testing.T, configuration *unstructured.Unstructured, ca []byte) {
	t.Helper()
	bundle := base64.StdEncoding.EncodeToString(ca)
	webhooks, _, err := unstructured.NestedSlice(configuration.Object, "webhooks")
	must(t, err)
	for _, w := range webhooks {
		must(t, unstructured.SetNestedField(w.(map[string]any), bundle, "clientConfig", "caBundle"))
	}
	must(t, unstructured.SetNestedSlice(configuration.Object, webhooks, "webhooks"))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
