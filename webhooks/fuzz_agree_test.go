package webhooks_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/platform-operator/platform-operator/pkg/testkit/crd"
	"github.com/platform-operator/platform-operator/pkg/testkit/draw"
	"github.com/platform-operator/platform-operator/pkg/testkit/specs"
)

// goOnly are the rules that CEL could not say, or not at a price that the API
// server pays: whatever else our Go code refuses, the schema refuses too, so
// that it is refused while the webhook is down.
var goOnly = []string{
	`set spec\.resources\.requests\.\w+ to more than 0`, // a request of 0
	`nginx cannot read it`,
	`the node ports of this cluster`,
	`the container has no TCP port of that name`,
	`take another path`,
	`(?s)^Duplicate value: "[^"]*"$`, // paths that are the same when written shortly
}

func matches(patterns []string, message string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return regexp.MustCompile(p).MatchString(message) })
}

// near tells whether two faults are about the same field, or one about what the
// other's is in.
func near(a, b specs.Fault) bool {
	return a.Field == b.Field || strings.HasPrefix(a.Field, b.Field) || strings.HasPrefix(b.Field, a.Field)
}

// FuzzSchemaAndGoAgree: what our Go code refuses, the schema refuses too, but
// for goOnly. The inverse is no rule: what CEL can say is in the schema alone.
func FuzzSchemaAndGoAgree(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, bytes []byte) {
		d := draw.NewDice(bytes)
		o := drawObject(d, drawKind(t, d), nil)
		o.mend(t, func(faults []specs.Fault) {
			var schema, code []specs.Fault
			for _, f := range faults {
				switch f.Layer {
				case specs.Schema:
					if f.Rule == nil || f.Rule.Keyword != crd.KeywordCEL {
						return // the API server asks no CEL rule then, or no more
					}
					schema = append(schema, f)
				case specs.Decode:
					return
				case specs.Policy: // which no schema knows
				default:
					code = append(code, f)
				}
			}
			for _, g := range code {
				if !matches(goOnly, g.Message) && !slices.ContainsFunc(schema, func(s specs.Fault) bool { return near(s, g) }) {
					t.Errorf("Go refuses, and the schema does not: %s\n%s", g, o.json())
				}
			}
		})
	})
}
