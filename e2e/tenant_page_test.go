package e2e

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the lists of docs/security.md")

// attempt is something that a tenant tries.
type attempt struct {
	Try     string         `json:"try"`
	Kind    string         `json:"kind"`
	Name    string         `json:"name"` // of the object; try-<number> unless it matters
	Spec    map[string]any `json:"spec"`
	Outcome string         `json:"outcome"`
	Says    string         `json:"says"`
	Because string         `json:"because"`
	Also    []attempt      `json:"also"`
}

// tenantTries reads testdata/tenant.yaml.
func tenantTries(t *testing.T) []attempt {
	t.Helper()
	raw, err := os.ReadFile("testdata/tenant.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var all []attempt
	if err := yaml.UnmarshalStrict(raw, &all); err != nil {
		t.Fatalf("testdata/tenant.yaml: %v", err)
	}
	for i, a := range all {
		if (a.Outcome == "Refused") != (a.Says != "") || a.Because == "" || !slices.Contains([]string{"Refused", "Harmless", "Granted"}, a.Outcome) {
			t.Fatalf("%s: what is refused says something, and everything has an outcome and a because", a.Try)
		}
		if (a.Outcome == "Granted") != (len(a.Also) == 0) {
			t.Fatalf("%s: what is not granted is spelled in another way, too", a.Try)
		}
		all[i].Name = cmp.Or(a.Name, fmt.Sprintf("try-%d", i))
		for j, also := range a.Also {
			a.Also[j] = attempt{
				Try: a.Try, Kind: cmp.Or(also.Kind, a.Kind), Name: cmp.Or(also.Name, fmt.Sprintf("try-%d-%d", i, j)), Spec: also.Spec,
				Outcome: a.Outcome, Says: cmp.Or(also.Says, a.Says),
			}
		}
	}
	return all
}

// TestTenant_AttemptsAreDocumented compares docs/security.md with
// testdata/tenant.yaml, which TestTenant_ReachesNothingElse tries.
func TestTenant_AttemptsAreDocumented(t *testing.T) {
	const page, begin, end = "../docs/security.md", "<!-- attempts: go test ./e2e -update -->\n", "<!-- end of attempts -->"
	var table strings.Builder
	for _, outcome := range []string{"Refused", "Harmless", "Granted"} {
		fmt.Fprintf(&table, "\n**%s**\n\n", outcome)
		for _, a := range tenantTries(t) {
			if a.Outcome == outcome {
				fmt.Fprintf(&table, "* %s: %s\n", a.Try, a.Because)
			}
		}
	}
	table.WriteString("\n")
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(raw), begin)
	old, after, ends := strings.Cut(rest, end)
	if !ok || !ends {
		t.Fatalf("%s has not the two marks %q and %q", page, begin, end)
	}
	if *update {
		if err := os.WriteFile(page, []byte(before+begin+table.String()+end+after), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := gocmp.Diff(table.String(), old); diff != "" {
		t.Errorf("%s is not up to date; run go test ./e2e -update (-want +got):\n%s", page, diff)
	}
}
