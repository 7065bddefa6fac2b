package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/webhooks"
)

var fenced = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```")

// TestExamples_AreValid validates each complete example, of which every page has some, as
// admission does. The end-to-end tests apply them.
func TestExamples_AreValid(t *testing.T) {
	pages, err := filepath.Glob("api/*.md")
	if err != nil || len(pages) < 5 {
		t.Fatalf("%d pages, error %v", len(pages), err)
	}
	platform := config.Default()
	platform.Annotations = []string{"*"} // some examples are about annotations
	offline := webhooks.NewOffline(platform)
	for _, page := range append(pages, "../README.md") {
		raw, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		valid := 0
		for _, m := range fenced.FindAllStringSubmatch(string(raw), -1) {
			if !strings.HasPrefix(m[1], "apiVersion:") {
				continue // a part of an object, or not a Kubernetes object
			}
			var out strings.Builder
			tally, err := offline.Documents(t.Context(), strings.NewReader(m[1]), page, &out)
			if err != nil || tally.Invalid > 0 || tally.Valid == 0 {
				t.Errorf("%+v, error %v\n%s%s", tally, err, out.String(), m[1])
			}
			valid += tally.Valid
		}
		if valid == 0 {
			t.Errorf("%s has no complete example", page)
		}
	}
}
