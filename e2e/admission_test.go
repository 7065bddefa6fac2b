//go:build e2e

package e2e

import (
	"strings"
	"testing"
)

// TestWebServer_RejectsInvalidSpecs checks that specs which Kubernetes would reject later are
// rejected immediately, with a message that names the field.
func TestWebServer_RejectsInvalidSpecs(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	tests := map[string]struct{ name, spec, want string }{
		"a name of 56 characters": {strings.Repeat("a", 56), `{image: nginx}`, "metadata.name must be no more than 55 characters"},
		"a typo":                  {"web", `{imag: nginx}`, `unknown field "spec.imag"`},
	}
	for what, tc := range tests {
		t.Run(what, func(t *testing.T) {
			err := apply(t, webServer(ns, tc.name, tc.spec))
			if err == nil {
				t.Fatal("admitted")
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("refused with %v, which does not say %q", err, tc.want)
			}
		})
	}
	t.Run("a name of 55 characters is admitted and serves", func(t *testing.T) {
		name := strings.Repeat("a", 55)
		if err := apply(t, webServer(ns, name, `{image: nginx, service: {type: ClusterIP}}`)); err != nil {
			t.Fatal(err)
		}
		awaitReady(t, ns, "webserver/"+name)
	})
}

// TestWebServer_ExplainDescribesEveryField checks that kubectl explain documents every field of the spec.
func TestWebServer_ExplainDescribesEveryField(t *testing.T) {
	t.Parallel()
	for _, field := range []string{"webserver", "webserver.spec", "webserver.spec.image", "webserver.spec.replicas", "webserver.spec.service.nodePort", "webserver.spec.deletionPolicy", "webserver.status.conditions", "webserver.status.addresses"} {
		out := kubectl(t, "explain", field)
		_, description, ok := strings.Cut(out, "DESCRIPTION:")
		if !ok || strings.Contains(description, "<empty>") || len(strings.Fields(description)) < 4 {
			t.Errorf("kubectl explain %s says:\n%s", field, out)
		}
	}
}
