package corpus

import (
	"encoding/json"
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
			// The compiled CRDs are shared by the cases of a platform configuration.
			findings, err := offline(c).Validate(t.Context(), c.Object)
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

var validators = map[string]*webhooks.Offline{}

func offline(c Case) *webhooks.Offline {
	key := string(mustJSON(c.Platform))
	if validators[key] == nil {
		validators[key] = webhooks.NewOffline(c.Platform)
	}
	return validators[key]
}

func mustJSON(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}
