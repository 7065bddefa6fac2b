//go:build chart

package charts_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestThreatModel_NamesTestsThatExist checks that docs/threat-model.md and
// docs/security.md refer to tests of this repository.
func TestThreatModel_NamesTestsThatExist(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/threat-model.md")
	must(t, err)
	tenants, err := os.ReadFile("../docs/security.md")
	must(t, err)
	page = append(page, tenants...)
	missing := map[string]bool{}
	for _, name := range regexp.MustCompile("`Test[A-Za-z_]+`").FindAllString(string(page), -1) {
		missing["func "+strings.Trim(name, "`")+"("] = true
	}
	if len(missing) < 10 {
		t.Fatalf("only %d tests are named: the test sees nothing", len(missing))
	}
	must(t, filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path) //nolint:gosec // files of this repository
		for f := range missing {
			if strings.Contains(string(source), f) {
				delete(missing, f)
			}
		}
		return err
	}))
	for f := range missing {
		t.Errorf("a page refers to %s…), which does not exist", f)
	}
}
