//go:build e2e

package e2e

import (
	"errors"
	"strings"
	"testing"
)

// TestOperator_RestoresTheCertificate checks that the operator issues another webhook
// certificate when it is deleted or damaged, and that admission works meanwhile.
func TestOperator_RestoresTheCertificate(t *testing.T) {
	campaign(t, "campaign-operator")
	const secret = operatorName + "-webhook-cert"
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
	back := func(what string) {
		t.Helper()
		eventually(t, "the certificate to come back after the Secret was "+what, func() error {
			now, err := run(t.Context(), "", "kubectl", "-n", operatorNamespace, "get", "secret", secret, "-o", `jsonpath={.data.tls\.crt} {.data.tls\.key}`)
			if f := strings.Fields(now); err == nil && (len(f) != 2 || len(f[0]) < 100) {
				err = errors.New("there is none")
			}
			return err
		})
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
