//go:build envtest

package testkit

import (
	"strings"
	"testing"
)

// The server was started with a request of the operator that the policy refuses.
func TestAudit_ReportsWhatThePolicyRefuses(t *testing.T) {
	t.Parallel()
	a, err := newAudit(env.Audit.path, env.Audit.marker)
	if err != nil {
		t.Fatal(err)
	}
	a.offset = 0
	if err := a.Refused(t.Context()); err == nil || !strings.Contains(err.Error(), "create configmaps default/unowned") {
		t.Errorf("got %v, want that request", err)
	}
}
