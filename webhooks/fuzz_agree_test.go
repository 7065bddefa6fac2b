package webhooks_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/platform-operator/platform-operator/webhooks/admissiontest/corpus"
	"github.com/platform-operator/platform-operator/webhooks/admissiontest/generate"
)

// goOnly matches the errors of rules that CEL cannot express, or only beyond the
// cost limit of the API server. The schema enforces all other rules of the Go
// code too, so that they apply while the webhook is down.
var goOnly = []string{
	`has the other scheme`,                              // depends on tls
	`set spec\.resources\.requests\.\w+ to more than 0`, // a request of 0
	`nginx cannot read it`,
	`": line \d+: `, // a configuration for nginx that conflicts with the rest of the spec
	`the node ports of this cluster`,
	`the container has no TCP port of that name`,
	`take another path`,
	`objects of another kind select their pods by this label`, // the schema of pods is the same for all kinds
	`^Duplicate value: "(?:[^"\\]|\\.)*"$`,                    // paths that are equal after path.Clean
	`is a file of this volume and cannot be a folder`,         // compares each path with all others
	`is mounted below this path`,                              // the same
	`can meet all requirements on this label`,                 // combines all requirements with the same key
	`no node can have the labels of spec\.pod\.nodeSelector`,  // the same
	`nginx writes to this folder when it starts`,              // depends on the paths of the image
	`the volume replaces nginx\.conf of the image`,            // the same
}

func matches(patterns []string, message string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return regexp.MustCompile(p).MatchString(message) })
}

// near reports whether two errors are about the same field, or about a field and
// one of its parents.
func near(a, b corpus.Failure) bool {
	return a.Field == b.Field || strings.HasPrefix(a.Field, b.Field) || strings.HasPrefix(b.Field, a.Field)
}

// FuzzSchemaAndGoAgree checks that the schema rejects whatever the Go code
// rejects, except for goOnly. The inverse does not hold: rules that CEL can
// express are in the schema only.
func FuzzSchemaAndGoAgree(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, bytes []byte) {
		d := generate.NewDice(bytes)
		o := drawObject(d, drawKind(t, d), nil)
		o.mend(t, func(faults []corpus.Failure) {
			var cel, code []corpus.Failure
			for _, f := range faults {
				switch f.Layer {
				case corpus.Schema:
					if f.Rule == nil {
						return // the API server does not evaluate CEL rules then
					}
					cel = append(cel, f)
				case corpus.Decode:
					return
				case corpus.Policy: // not a part of the schema
				default:
					code = append(code, f)
				}
			}
			for _, g := range code {
				if !matches(goOnly, g.Message) && !slices.ContainsFunc(cel, func(s corpus.Failure) bool { return near(s, g) }) {
					t.Errorf("Go refuses, and the schema does not: %s\n%s", g, o.json())
				}
			}
		})
	})
}
