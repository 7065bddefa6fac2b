package demoapplication

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
	"github.com/platform-operator/platform-operator/pkg/config"
)

// Each complete example of the documentation is accepted.
func TestValidate_AcceptsDocumentedExamples(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "docs", "api", "demoapplication.md"))
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, block := range regexp.MustCompile("(?ms)^```yaml\n(.*?)^```").FindAllStringSubmatch(string(raw), -1) {
		for doc := range strings.SplitSeq(block[1], "---\n") {
			if !strings.HasPrefix(doc, "apiVersion: paas.cmft.com/") {
				continue
			}
			seen++
			a := &demoapplicationv1.DemoApplication{}
			if err := yaml.UnmarshalStrict([]byte(doc), a); err != nil {
				t.Errorf("%v:\n%s", err, doc)
			} else if errs := Validate(a, config.Default()); len(errs) > 0 {
				t.Errorf("%v:\n%s", errs, doc)
			}
		}
	}
	if seen < 10 {
		t.Errorf("only %d examples: the test sees nothing", seen)
	}
}
