package corpus

import (
	"sync"
	"testing"
)

const folder = "../../../e2e/testdata/specs"

// definitions returns the CRDs of all versions of all kinds. They are loaded once,
// because compiling their rules is slow.
var definitions = sync.OnceValues(func() (map[string]*Definition, error) {
	all := map[string]*Definition{}
	for _, k := range Kinds() {
		for _, v := range k.Versions {
			d, err := k.Definition(v)
			if err != nil {
				return nil, err
			}
			all[k.Folder+"/"+v] = d
		}
	}
	return all, nil
})

func definition(t *testing.T, k Kind, version string) *Definition {
	t.Helper()
	all, err := definitions()
	if err != nil {
		t.Fatal(err)
	}
	return all[k.Folder+"/"+version]
}

func read(t *testing.T, k Kind) []Case {
	t.Helper()
	cases, err := Read(folder, k)
	if err != nil {
		t.Fatal(err)
	}
	return cases
}

// TestCorpus requires exactly the expected verdict of every layer: if a rule is
// removed anywhere, the verdict on at least one case changes.
func TestCorpus(t *testing.T) {
	for _, k := range Kinds() {
		t.Run(k.Folder, func(t *testing.T) {
			t.Parallel()
			for _, c := range read(t, k) {
				faults, err := Judge(t.Context(), k, definition(t, k, c.Version(k)), c)
				if err != nil {
					t.Errorf("%s: %v", c, err)
					continue
				}
				if wrong := Wrong(c, faults); wrong != "" {
					t.Errorf("%s\n  %s", c, wrong)
					for _, f := range faults {
						t.Errorf("  %s", f)
					}
				}
			}
		})
	}
}
