//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/platform-operator/platform-operator/pkg/testkit/commands"
)

// fenced matches the YAML blocks of a page.
var fenced = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```")

// TestDocumentation_ExamplesAreAccepted applies every complete YAML example in the documentation:
// the API server must accept it, and the children that the operator creates for it.
func TestDocumentation_ExamplesAreAccepted(t *testing.T) {
	pages, err := filepath.Glob("../docs/api/*.md")
	if err != nil || len(pages) < 4 {
		t.Fatalf("%d pages, error %v", len(pages), err)
	}
	for _, page := range append(pages, "../README.md") {
		raw, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		examples := 0
		for i, m := range fenced.FindAllStringSubmatch(string(raw), -1) {
			if !strings.HasPrefix(m[1], "apiVersion:") {
				continue // a part of an object, or not a Kubernetes object
			}
			examples++
			t.Run(fmt.Sprintf("%s/%d", strings.TrimSuffix(filepath.Base(page), ".md"), i+1), func(t *testing.T) {
				t.Parallel()
				tryExample(t, m[1])
			})
		}
		if examples == 0 {
			t.Errorf("%s has no complete example", page)
		}
	}
}

// TestDocumentation_CommandsRun runs the commands of the README, the tasks and the runbooks, for
// objects with the names of the examples.
func TestDocumentation_CommandsRun(t *testing.T) {
	campaign(t, "campaign-operator")
	t.Parallel()
	all, err := commands.All("..")
	if err != nil {
		t.Fatal(err)
	}
	ns := map[bool]string{true: namespace(t), false: namespace(t)} // of runbooks, and of other pages
	for isRunbook, objects := range map[bool]string{
		true:  webServerKind.manifest("shop", `{image: "nginx:1.27.3", service: {type: ClusterIP}}`) + immortalKind.manifest("worker", `{image: "nginx:1.27.3"}`),
		false: webServerKind.manifest("webserver-sample", `{image: "nginx:1.27.3", service: {type: ClusterIP}}`) + demoApplicationKind.manifest("shop", `{image: "nginx:1.27.3", ports: [{port: 80}]}`),
	} {
		if _, err := run(t.Context(), objects, "kubectl", "-n", ns[isRunbook], "apply", "-f", "-"); err != nil {
			t.Fatal(err)
		}
		awaitReady(t, ns[isRunbook], "--all", "webservers,immortalcontainers,demoapplications")
	}
	// The commands of the other pages state no namespace.
	config := filepath.Join(t.TempDir(), "kubeconfig")
	if _, err := shellCommand(t.Context(), fmt.Sprintf(`cp "$KUBECONFIG" %[1]s && kubectl --kubeconfig %[1]s config set-context --current --namespace=%[2]s`, config, ns[false])); err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		if commands.Except(c.Line) != nil {
			continue
		}
		line := strings.NewReplacer("team-a", ns[true], "registry.example.com/shop:1.5.0", "nginx:1.27.4").Replace(c.Line)
		if out, err := shellCommand(t.Context(), "export KUBECONFIG="+config+"; "+line); err != nil && !mayFail(line) {
			t.Errorf("%s: %s\n%s%v", c.Page, line, out, err)
		}
	}
}

func tryExample(t *testing.T, yaml string) {
	ns := namespace(t)
	if out, err := run(t.Context(), yaml, "kubectl", "-n", ns, "apply", "-f", "-"); err != nil {
		t.Fatalf("%v %s\n%s", err, out, yaml)
	}
	eventually(t, "the operator to have made its children", func() error {
		out, err := run(t.Context(), "", "kubectl", "-n", ns, "get", "platform", "-o", "json")
		if err != nil {
			return err
		}
		var list struct{ Items []example }
		if err := json.Unmarshal([]byte(out), &list); err != nil {
			return err
		}
		for _, o := range list.Items {
			if o.Status.ObservedGeneration != o.Metadata.Generation {
				return fmt.Errorf("%s has not been seen", o.Metadata.Name)
			}
			for _, c := range o.Status.Conditions {
				if slices.Contains([]string{"Invalid", "Forbidden", "AdmissionRefused", "Error"}, c.Reason) {
					return fmt.Errorf("%s: %s: %s\n%s", o.Metadata.Name, c.Reason, c.Message, yaml)
				}
			}
		}
		return nil
	})
}

// example contains the fields of an object that are checked.
type example struct {
	Metadata struct {
		Name       string
		Generation int64
	}
	Status struct {
		ObservedGeneration int64
		Conditions         []struct{ Type, Status, Reason, Message string }
	}
}
