package corpus

import (
	"slices"
	"testing"

	"github.com/platform-operator/platform-operator/webhooks"
)

// The command line refuses exactly the objects that admission refuses when they
// are created.
func TestOffline_AgreesWithAdmission(t *testing.T) {
	count := 0
	for _, k := range Kinds() {
		for _, c := range read(t, k) {
			if c.Old != nil {
				continue
			}
			count++
			findings, err := webhooks.NewOffline(c.Platform).Validate(t.Context(), c.Object)
			if err != nil {
				t.Errorf("%s: %v", c, err)
				continue
			}
			refused := slices.ContainsFunc(findings, func(f webhooks.Finding) bool { return !f.Warning })
			if refused != (c.Refused != nil) {
				t.Errorf("%s: refused is %t: %v", c, refused, findings)
			}
		}
	}
	if count < 500 {
		t.Errorf("only %d cases", count)
	}
}
