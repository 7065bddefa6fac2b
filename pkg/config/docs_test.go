package config

import (
	"encoding/json"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// The page lists every field and every feature gate, and its examples can be
// loaded.
func TestPlatform_IsDocumented(t *testing.T) {
	raw, err := os.ReadFile("../../docs/platform-configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(raw)
	defaults, err := json.Marshal(Default())
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(defaults, &fields); err != nil {
		t.Fatal(err)
	}
	for field, value := range fields {
		names := []string{field}
		if parts, ok := value.(map[string]any); ok {
			names = nil
			for part := range parts {
				names = append(names, field+"."+part)
			}
		}
		for _, n := range names {
			if !strings.Contains(page, "\n| `"+n+"` |") {
				t.Errorf("%s is not in the table", n)
			}
		}
	}
	for gate := range features() {
		if !strings.Contains(page, "\n| `"+string(gate)+"` |") {
			t.Errorf("gate %s is not in the table", gate)
		}
	}
	files := 0
	for _, m := range regexp.MustCompile("(?ms)^```yaml\n(.*?)^```").FindAllStringSubmatch(page, -1) {
		if !strings.HasPrefix(m[1], "apiVersion: "+Version) {
			continue
		}
		files++
		p := Default()
		err := yaml.UnmarshalStrict([]byte(m[1]), &p)
		if err = errors.Join(err, p.Validate()); err != nil {
			t.Errorf("%v\n%s", err, m[1])
		}
	}
	if files < 2 {
		t.Errorf("%d files are shown", files)
	}
}
