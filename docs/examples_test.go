package docs

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

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
	for _, page := range append(pages, "../README.md", "tasks.md") {
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

// TestTasks_NoExampleUndoesAnother checks that no two examples of the tasks are the same object:
// who applies the second would lose what only the first states, such as its host.
func TestTasks_NoExampleUndoesAnother(t *testing.T) {
	raw, err := os.ReadFile("tasks.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, m := range fenced.FindAllStringSubmatch(string(raw), -1) {
		var o struct {
			Kind     string
			Metadata struct{ Name string }
		}
		if err := yaml.Unmarshal([]byte(m[1]), &o); err != nil {
			t.Fatalf("%v\n%s", err, m[1])
		}
		name := o.Kind + "/" + o.Metadata.Name
		if o.Kind != "" && seen[name] {
			t.Errorf("%s is in two examples", name)
		}
		seen[name] = true
	}
	if len(seen) < 2 {
		t.Errorf("%d objects", len(seen))
	}
}

// TestDefaults_ExampleIsWhatAdmissionStores reads the three examples of the section: the
// configuration, an object, and what is stored.
func TestDefaults_ExampleIsWhatAdmissionStores(t *testing.T) {
	raw, err := os.ReadFile("platform-configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(raw), "\n## Defaults of new objects\n")
	section, _, _ = strings.Cut(section, "\n## ")
	examples := fenced.FindAllStringSubmatch(section, -1)
	if len(examples) != 3 {
		t.Fatalf("%d examples", len(examples))
	}
	platform, err := config.Parse([]byte(examples[0][1]), "example")
	if err != nil {
		t.Fatal(err)
	}
	if err := webhooks.CheckDefaults(platform); err != nil {
		t.Fatal(err)
	}
	created, err := yaml.YAMLToJSON([]byte(examples[1][1]))
	if err != nil {
		t.Fatal(err)
	}
	stored, err := webhooks.NewOffline(platform).Default(t.Context(), created, "default")
	if err != nil {
		t.Fatal(err)
	}
	var got, want any
	if err := errors.Join(yaml.Unmarshal(stored, &got), yaml.Unmarshal([]byte(examples[2][1]), &want)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the page shows another object (-page +stored):\n%s", diff)
	}
}
