//go:build chart

package charts_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestCertManager checks the cert-manager objects of the chart, field by field
// according to its API reference, and the remaining permissions of the operator.
func TestCertManager(t *testing.T) {
	t.Parallel()
	const enabled = "webhooks.certManager.enabled=true"
	serving := func(issuer map[string]any) map[string]any {
		return map[string]any{
			"secretName": "platform-operator-webhook-cert", "duration": "2160h", "renewBefore": "720h",
			"secretTemplate": map[string]any{
				"labels":      map[string]any{"app.kubernetes.io/managed-by": "Helm"},
				"annotations": map[string]any{"meta.helm.sh/release-name": "platform-operator", "meta.helm.sh/release-namespace": namespace},
			},
			"usages":     []any{"digital signature", "server auth"},
			"privateKey": map[string]any{"algorithm": "ECDSA", "size": float64(256), "rotationPolicy": "Always"},
			"dnsNames": []any{
				"platform-operator-webhook.platform-operator-system.svc", "platform-operator-webhook.platform-operator-system.svc.cluster.local",
				"platform-operator-metrics.platform-operator-system.svc", "platform-operator-metrics.platform-operator-system.svc.cluster.local",
			},
			"issuerRef": issuer,
		}
	}
	ref := func(name, kind string) map[string]any {
		return map[string]any{"name": name, "kind": kind, "group": "cert-manager.io"}
	}
	for name, tc := range map[string]struct {
		args []string
		want map[string]any
	}{
		"with a CA of its own": {nil, map[string]any{
			"Issuer platform-operator-selfsigned": map[string]any{"selfSigned": map[string]any{}},
			"Certificate platform-operator-ca": map[string]any{
				"isCA": true, "commonName": "platform-operator-ca", "secretName": "platform-operator-ca", "duration": "87600h", "renewBefore": "8760h",
				"privateKey": map[string]any{"algorithm": "ECDSA", "size": float64(256), "rotationPolicy": "Never"},
				"issuerRef":  ref("platform-operator-selfsigned", "Issuer"),
			},
			"Issuer platform-operator-ca":           map[string]any{"ca": map[string]any{"secretName": "platform-operator-ca"}},
			"Certificate platform-operator-webhook": serving(ref("platform-operator-ca", "Issuer")),
		}},
		"with an existing issuer": {
			[]string{"--set", "webhooks.certManager.issuerRef.name=ours", "--set", "webhooks.certManager.issuerRef.kind=ClusterIssuer"},
			map[string]any{"Certificate platform-operator-webhook": serving(ref("ours", "ClusterIssuer"))},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := map[string]any{}
			injected, verbs := 0, []any(nil)
			for _, o := range parse(t, template(t, append(tc.args, "--set", enabled)...)) {
				switch {
				case o.GetAPIVersion() == "cert-manager.io/v1":
					got[o.GetKind()+" "+o.GetName()] = o.Object["spec"]
					if o.GetNamespace() != namespace {
						t.Errorf("%s is in namespace %q", o.GetName(), o.GetNamespace())
					}
				case strings.HasSuffix(o.GetKind(), "WebhookConfiguration"):
					injected++
					if from := o.GetAnnotations()["cert-manager.io/inject-ca-from"]; from != namespace+"/platform-operator-webhook" {
						t.Errorf("%s gets its CA from %q", o.GetKind(), from)
					}
				case o.GetKind() == "Secret":
					t.Errorf("the chart makes Secret %s, which is cert-manager's", o.GetName())
				case o.GetKind() == "ClusterRole" || o.GetKind() == "Role":
					rules, _, _ := unstructured.NestedSlice(o.Object, "rules")
					for _, r := range rules {
						rule := r.(map[string]any)
						resources, _ := rule["resources"].([]any)
						if slices.Contains(resources, any("validatingwebhookconfigurations")) {
							if diff := cmp.Diff([]any{"get", "list", "watch"}, rule["verbs"]); diff != "" {
								t.Errorf("permissions on the webhook configurations (-want +got):\n%s", diff)
							}
						}
						if o.GetName() == "platform-operator" && slices.Contains(resources, any("secrets")) {
							verbs = rule["verbs"].([]any)
						}
					}
				case o.GetKind() == "Deployment":
					containers, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
					if args := containers[0].(map[string]any)["args"].([]any); !slices.Contains(args, any("--manage-certificates=false")) {
						t.Errorf("the operator would keep the certificate too: %v", args)
					}
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("for cert-manager (-want +got):\n%s", diff)
			}
			if injected != 2 {
				t.Errorf("%d webhook configurations", injected)
			}
			if diff := cmp.Diff([]any{"get", "list", "watch"}, verbs); diff != "" {
				t.Errorf("permissions on the Secret (-want +got):\n%s", diff)
			}
		})
	}
}
