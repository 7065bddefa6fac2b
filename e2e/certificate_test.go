//go:build e2e

package e2e

import (
	"errors"
	"strings"
	"testing"
)

// TestOperator_RestoresTheCertificate checks that the operator restores the webhook
// certificate when it is deleted or damaged, with one that the API server already
// trusts.
func TestOperator_RestoresTheCertificate(t *testing.T) {
	campaign(t, "campaign-operator")
	const secret = operatorName + "-webhook-cert"
	served := func() string {
		t.Helper()
		return kubectl(t, "-n", operatorNamespace, "get", "secret", secret, "-o", `jsonpath={.data.tls\.crt}`)
	}
	admits := func() {
		t.Helper()
		if err := admission(t.Context()); err != nil {
			t.Errorf("admission: %v", err)
		}
	}
	args := kubectl(t, "-n", operatorNamespace, "get", "deployment", operatorName, "-o", "jsonpath={.spec.template.spec.containers[0].args}")
	if strings.Contains(args, "--manage-certificates=false") {
		t.Skip("the operator does not manage the certificate")
	}
	before := served()
	back := func(what string) {
		t.Helper()
		eventually(t, "the certificate to come back after the Secret was "+what, func() error {
			now, err := run(t.Context(), "", "kubectl", "-n", operatorNamespace, "get", "secret", secret, "-o", `jsonpath={.data.tls\.crt} {.data.tls\.key}`)
			if err == nil && len(strings.Fields(now)) != 2 {
				err = errors.New("it is empty")
			}
			return err
		})
		if served() != before {
			t.Error("it is another one")
		}
		admits()
	}
	kubectl(t, "-n", operatorNamespace, "delete", "secret", secret)
	admits()
	back("deleted")
	kubectl(t, "-n", operatorNamespace, "patch", "secret", secret, "--type=merge", "-p", `{"data":{"tls.key":"AAAA","tls.crt":"AAAA"}}`)
	admits()
	back("damaged")

	for _, kind := range []string{"mutatingwebhookconfiguration", "validatingwebhookconfiguration"} {
		const bundle = "jsonpath={.webhooks[0].clientConfig.caBundle}"
		want := kubectl(t, "get", kind, operatorName, "-o", bundle)
		kubectl(t, "patch", kind, operatorName, "--type=json", "-p", `[{"op":"remove","path":"/webhooks/0/clientConfig/caBundle"}]`)
		eventuallyPrints(t, want, "get", kind, operatorName, "-o", bundle)
	}
	leads(t) // the API servers take a moment to observe the configurations
	admits()
}
