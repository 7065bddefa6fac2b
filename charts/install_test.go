//go:build chart

package charts_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// production are the values for production, for an API server without the CRD of
// PrometheusRules.
var production = []string{"-f", filepath.Join(chart, "values-production.yaml"), "--set", "metrics.prometheusRule.enabled=false"}

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
	helm(t, install...)

	// Write the certificate as the operator does.
	secret := get(t, c, "v1", "Secret", "platform-operator-webhook-cert")
	secret.Object["data"] = map[string]any{"ca.crt": "Y2E=", "tls.crt": "Y3J0", "tls.key": "a2V5"}
	must(t, c.Update(t.Context(), secret))
	configuration := get(t, c, "admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "platform-operator")
	setCABundle(t, configuration, cfg.CAData)
	must(t, c.Update(t.Context(), configuration))

	// An upgrade with a change, so that Helm writes.
	helm(t, slices.Concat(install, production, []string{"--set", "log.level=debug", "--set", "nodeSelector.disk=ssd", "--set", "webhooks.certificates.issuer=Operator"})...)
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
}

// TestInstall_HelmIssuesCertificate checks the certificate that Helm issues: both webhook
// configurations trust it, upgrades keep it for a year and then replace it with an
// overlap, and a release whose operator has issued its certificate can be converted.
func TestInstall_HelmIssuesCertificate(t *testing.T) {
	t.Parallel()
	cfg, c, kubeconfig := startServer(t)
	must(t, c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	install := slices.Concat([]string{"upgrade", "--install", "platform-operator", chart, "--kubeconfig", kubeconfig, "--namespace", namespace}, image)
	helm(t, install...)

	// As the operator writes it.
	secret := get(t, c, "v1", "Secret", "platform-operator-webhook-cert")
	ca := base64.StdEncoding.EncodeToString(cfg.CAData)
	secret.Object["data"] = map[string]any{"ca.crt": ca, "ca.key": "a2V5", "tls.crt": "Y3J0", "tls.key": "a2V5"}
	must(t, c.Update(t.Context(), secret, client.FieldOwner("platform-operator")))
	for _, kind := range []string{"Mutating", "Validating"} {
		configuration := get(t, c, "admissionregistration.k8s.io/v1", kind+"WebhookConfiguration", "platform-operator")
		setCABundle(t, configuration, cfg.CAData)
		must(t, c.Update(t.Context(), configuration, client.FieldOwner("platform-operator")))
	}

	install = append(slices.Concat(install, production), "--force-conflicts")
	helm(t, install...)
	first := issued(t, c)
	if len(first.cas) != 2 || !bytes.Equal(first.cas[1], pemBlocks(t, cfg.CAData)[0]) {
		t.Errorf("%d CAs are trusted after the conversion, want the new one and that of the operator", len(first.cas))
	}
	if first.caKey != "" {
		t.Error("the key of the operator's CA is still in the Secret")
	}

	helm(t, append(install, "--set", "log.level=debug")...)
	if diff := cmp.Diff(first, issued(t, c), cmp.AllowUnexported(certificate{})); diff != "" {
		t.Errorf("an upgrade changed the certificate (-before +after):\n%s", diff)
	}

	secret = get(t, c, "v1", "Secret", "platform-operator-webhook-cert")
	secret.SetAnnotations(map[string]string{
		"platform-operator.io/issued":    strconv.FormatInt(time.Now().AddDate(-1, 0, -2).Unix(), 10),
		"platform-operator.io/dns-names": secret.GetAnnotations()["platform-operator.io/dns-names"],
		"meta.helm.sh/release-name":      "platform-operator", "meta.helm.sh/release-namespace": namespace,
	})
	must(t, c.Update(t.Context(), secret))
	helm(t, install...)
	second := issued(t, c)
	if bytes.Equal(first.serving, second.serving) {
		t.Error("an upgrade a year later did not renew the certificate")
	}
	if len(second.cas) != 2 || !bytes.Equal(second.cas[1], first.cas[0]) {
		t.Errorf("%d CAs are trusted after the renewal, want the new one and the one before", len(second.cas))
	}
}

// certificate is what Helm has issued.
type certificate struct {
	serving []byte
	cas     [][]byte
	caKey   string
}

// issued returns the certificate in the Secret, after checking that it serves the names
// of both Services, and that both webhook configurations trust it.
func issued(t *testing.T, c client.Client) certificate {
	t.Helper()
	var secret corev1.Secret
	must(t, c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "platform-operator-webhook-cert"}, &secret))
	pair, err := tls.X509KeyPair(secret.Data["tls.crt"], secret.Data["tls.key"])
	must(t, err)
	for _, kind := range []string{"Mutating", "Validating"} {
		configuration := get(t, c, "admissionregistration.k8s.io/v1", kind+"WebhookConfiguration", "platform-operator")
		webhooks, _, err := unstructured.NestedSlice(configuration.Object, "webhooks")
		must(t, err)
		if len(webhooks) < 4 {
			t.Fatalf("%d webhooks", len(webhooks))
		}
		for _, w := range webhooks {
			bundle, _, _ := unstructured.NestedString(w.(map[string]any), "clientConfig", "caBundle")
			raw, err := base64.StdEncoding.DecodeString(bundle)
			must(t, err)
			if !bytes.Equal(raw, secret.Data["ca.crt"]) {
				t.Errorf("%s: the CA of a webhook is not that of the Secret", kind)
			}
		}
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(secret.Data["ca.crt"])
	for _, service := range []string{"webhook", "metrics"} {
		host := "platform-operator-" + service + "." + namespace + ".svc"
		for _, name := range []string{host, host + ".cluster.local"} {
			if _, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots}); err != nil {
				t.Errorf("the certificate does not serve %s: %v", name, err)
			}
		}
	}
	if left := time.Until(pair.Leaf.NotAfter); left < 4*365*24*time.Hour {
		t.Errorf("the certificate is valid for %s only", left)
	}
	return certificate{pair.Leaf.Raw, pemBlocks(t, secret.Data["ca.crt"]), string(secret.Data["ca.key"])}
}

// pemBlocks returns the contents of all blocks.
func pemBlocks(t *testing.T, data []byte) [][]byte {
	t.Helper()
	var all [][]byte
	for {
		block, rest := pem.Decode(data)
		if block == nil {
			if len(bytes.TrimSpace(rest)) > 0 {
				t.Errorf("%q is not PEM", rest)
			}
			return all
		}
		all, data = append(all, block.Bytes), rest
	}
}

func get(t *testing.T, c client.Client, apiVersion, kind, name string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(schema.FromAPIVersionAndKind(apiVersion, kind))
	key := client.ObjectKey{Name: name}
	if kind == "Secret" {
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
