package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/platform-operator/platform-operator/pkg/cli"
	"github.com/platform-operator/platform-operator/pkg/testkit/golden"
)

func TestValidate_PrintsALineForEachProblem(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("testdata", "validate", "manifests.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := execute(t, string(raw), "validate", "-f", "-")
	if cli.ExitCode(err) != 1 || err.Error() != "" {
		t.Errorf("exit code %d: %v", cli.ExitCode(err), err)
	}
	golden.File(t, filepath.Join("testdata", "validate", "validate.txt"), []byte(got))
}

func TestValidate_ExitCodes(t *testing.T) {
	const valid = "apiVersion: my.domain/v1\nkind: WebServer\nmetadata: {name: web}\nspec: {image: 'nginx:1.27.4'}\n"
	write := func(name, content string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	platform := write("platform.yaml", "maxReplicas: 3\n")
	defaults := write("defaults.yaml", "defaults: [{spec: {resources: {requests: {cpu: 1m}}}}]")
	memcached, unknown := write("memcached.yaml", "kinds: [Memcached]\n"), write("unknown.yaml", "kinds: [memcached]\n")
	for name, tc := range map[string]struct {
		stdin string
		args  []string
		code  int
		want  string
	}{
		"valid":                  {valid, []string{"-f", "-"}, 0, `WebServer "web": valid`},
		"list":                   {`{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "my.domain/v1", "kind": "WebServer", "metadata": {"name": "web"}, "spec": {}}]}`, []string{"-f", "-"}, 1, "spec.image: Required value"},
		"name":                   {strings.Replace(valid, "name: web", "name: 1web", 1), []string{"-f", "-"}, 1, "metadata.name"},
		"platform configuration": {strings.Replace(valid, "spec: {", "spec: {replicas: 5, ", 1), []string{"-f", "-", "--config", platform}, 1, "spec.replicas"},
		"defaults":               {strings.Replace(valid, "4'}", "4', autoscaling: {maxReplicas: 2, targetCPUUtilizationPercentage: 80}}", 1), []string{"-f", "-", "--config", defaults}, 0, "valid"},
		"disabled kind":          {valid, []string{"-f", "-", "--config", memcached}, 1, "kind: Forbidden: the platform configuration disables WebServer (kinds)"},
		"unknown kind":           {valid, []string{"-f", "-", "--config", unknown}, 2, `kinds[0] is "memcached", must be one of DemoApplication, ImmortalContainer, Memcached, WebServer`},
		"version":                {strings.Replace(valid, "/v1", "/v2", 1), []string{"-f", "-"}, 1, `apiVersion: Unsupported value: "my.domain/v2"`},
		"other kinds only":       {"apiVersion: v1\nkind: Pod\n", []string{"-f", "-"}, 0, "skipped"},
		"without a kind":         {"apiVersion: v1\n", []string{"-f", "-"}, 1, "kind: Required value"},
		"nothing":                {"# nothing\n", []string{"-f", "-"}, 2, "contains no object"},
		"missing file":           {"", []string{"-f", "nowhere.yaml"}, 2, "nowhere.yaml"},
		"without a file":         {"", nil, 2, "flag -f is required"},
		"unknown flag":           {"", []string{"--nothing"}, 2, "unknown flag"},
		"argument":               {"", []string{"web.yaml"}, 2, `unknown command "web.yaml"`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := execute(t, tc.stdin, append([]string{"validate"}, tc.args...)...)
			if err != nil {
				got += err.Error()
			}
			if cli.ExitCode(err) != tc.code || !strings.Contains(got, tc.want) {
				t.Errorf("exit code %d, want %d; want %q in\n%s", cli.ExitCode(err), tc.code, tc.want, got)
			}
		})
	}
}
