package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/platform-operator/platform-operator/pkg/version"
)

// execute runs the command line as main does.
func execute(t *testing.T, stdin string, args ...string) (string, error) {
	t.Helper()
	cmd := root()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetIn(strings.NewReader(stdin))
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestHelp(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want []string
	}{
		"of the program": {[]string{"--help"}, []string{"\n  preflight ", "\n  release ", "\n  render ", "\n  run ", "\n  validate ", "\n  version ", "--log-level", "render -f webserver.yaml"}},
		"of validate":    {[]string{"validate", "--help"}, []string{"-f, --filename", "Exit code", "--config"}},
		"of run": {[]string{"run", "--help"}, []string{
			"POD_NAMESPACE", "--config", "--leader-elect", "--webhooks", "--metrics-bind-address", "--health-probe-bind-address", "--log-format",
		}},
		"of preflight": {[]string{"preflight", "--help"}, []string{"--namespaces", "those of the platform configuration", "--config", "-o, --output", "Exit code", "It writes nothing", "before the upgrade", "--context", "--kubeconfig"}},
		"of render":    {[]string{"render", "--help"}, []string{"-f, --filename", "standard input", "--config", "--diff"}},
		"of release":   {[]string{"release", "--help"}, []string{"--manager-namespace", "--manager-deployment", "finalizer", "--context", "--kubeconfig"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := execute(t, "", tc.args...)
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range tc.want {
				if !strings.Contains(got, w) {
					t.Errorf("%q is not in\n%s", w, got)
				}
			}
		})
	}
}

func TestVersion(t *testing.T) {
	for arg, want := range map[string]string{"version": version.Describe(), "--version": "platform-operator version " + version.Version} {
		if got, err := execute(t, "", arg); err != nil || got != want+"\n" {
			t.Errorf("%s: %v\n%s", arg, err, got)
		}
	}
}

// An error is one line that contains the remedy, without usage and stack trace.
func TestExecute_ErrorsContainTheRemedy(t *testing.T) {
	t.Setenv("POD_NAMESPACE", "")
	file := func(name string) string { return filepath.Join(t.TempDir(), name) }
	broken, impossible, empty := file("broken.yaml"), file("impossible.yaml"), file("empty.yaml")
	for file, content := range map[string]string{broken: "webServer: {nodeport2: 1}\n", impossible: "defaults: [{spec: {probes: {}}}]\n", empty: "# Nothing.\n"} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"log level":                   {[]string{"--log-level=loud"}, `--log-level "loud" must be debug, info or error`},
		"log level of run":            {[]string{"run", "--log-level=loud"}, `--log-level "loud" must be debug, info or error`},
		"log level that hides errors": {[]string{"--log-level=fatal", "--leader-elect=false", "--webhooks=false", "--config=/nowhere"}, `--log-level "fatal" must be debug, info or error`},
		"log format":                  {[]string{"--log-format=xml"}, `--log-format "xml" must be json or console`},
		"unknown flag":                {[]string{"--nothing"}, "unknown flag: --nothing"},
		"unknown subcommand":          {[]string{"rendr"}, `unknown command "rendr"`},
		"argument to render":          {[]string{"render", "web.yaml"}, `unknown command "web.yaml"`},
		"render without a file":       {[]string{"render"}, "flag -f is required"},
		"file that is not there": {
			[]string{"render", "-f", "nowhere.yaml"}, "nowhere.yaml",
		},
		"argument to preflight":               {[]string{"preflight", "web"}, `unknown command "web"`},
		"unknown flag of preflight":           {[]string{"preflight", "--nothing"}, "unknown flag: --nothing"},
		"output of preflight":                 {[]string{"preflight", "-o", "yaml"}, `-o "yaml" must be table or json`},
		"platform configuration of preflight": {[]string{"preflight", "--config", broken}, "nodeport2"},
		"empty platform configuration":        {[]string{"preflight", "--config", empty}, "is empty: --config=/dev/null means the built-in defaults"},
		"defaults of render":                  {[]string{"render", "-f", "-", "--config", impossible}, `defaults[0] cannot be used for Memcached: unknown field "spec.probes"`},
		"platform configuration of render":    {[]string{"render", "-f", "-", "--config", broken}, "nodeport2"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := execute(t, "", tc.args...)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if out != "" {
				t.Errorf("it also printed\n%s", out)
			}
			if err != nil && strings.Contains(err.Error(), "\n") && name != "unknown subcommand" { // cobra adds suggestions
				t.Errorf("more than one line: %q", err)
			}
		})
	}
}

func TestRender(t *testing.T) {
	sample := filepath.Join("..", "..", "config", "samples", "webserver.yaml")
	raw, err := os.ReadFile(sample)
	if err != nil {
		t.Fatal(err)
	}
	got, err := execute(t, "", "render", "--config", os.DevNull, "-f", sample)
	if err != nil {
		t.Fatal(err)
	}
	// The golden file is what the operator applies. The object here has no UID, and
	// therefore another hash.
	applied, err := os.ReadFile(filepath.Join("..", "..", "controllers", "webserver", "testdata", "seed", "want.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	want := regexp.MustCompile(`uid: \S+`).ReplaceAllString(string(applied), `uid: ""`)
	hash := regexp.MustCompile(`(/applied: )\S+`)
	if diff := cmp.Diff(hash.ReplaceAllString(want, "$1"), hash.ReplaceAllString(got, "$1")); diff != "" {
		t.Errorf("render prints what the operator does not apply (-want +got):\n%s", diff)
	}

	platform := filepath.Join(t.TempDir(), "platform.yaml")
	if err := os.WriteFile(platform, []byte("defaults: [{spec: {networkPolicy: {preset: Isolated}}}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	if with, err := execute(t, "", "render", "--config", platform, "-f", sample); err != nil || !strings.Contains(with, "kind: NetworkPolicy") || strings.Contains(got, "kind: NetworkPolicy") {
		t.Errorf("the default is not rendered, error %v:\n%s", err, with)
	}

	piped, err := execute(t, string(raw), "render", "--config", os.DevNull, "-f", "-")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got, piped); diff != "" {
		t.Errorf("standard input renders another (-file +stdin):\n%s", diff)
	}
}

const installed = `apiVersion: apps/v1
kind: Deployment
metadata: {namespace: ops, name: operator, labels: {app.kubernetes.io/part-of: platform-operator, app.kubernetes.io/component: manager}}
spec:
  template:
    spec:
      containers: [{name: manager, args: [run, --config=/etc/o/platform.yaml], volumeMounts: [{name: c, mountPath: /etc/o}]}]
      volumes: [{name: c, configMap: {name: operator-config}}]
`

func configMap(platform string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: ops, name: operator-config}\ndata: {platform.yaml: '" + platform + "'}\n"
}

func TestRender_UsesThePlatformConfiguration(t *testing.T) {
	platform := filepath.Join(t.TempDir(), "platform.yaml")
	if err := os.WriteFile(platform, []byte("webServer: {nodePort: 31111}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		cluster []string // objects; nil if no cluster is configured
		args    []string
		want    string
		err     string
	}{
		"file":                     {args: []string{"--config", platform}, want: "nodePort: 31111"},
		"installed":                {cluster: []string{installed, configMap("webServer: {nodePort: 31112}")}, want: "nodePort: 31112"},
		"defaults":                 {cluster: []string{installed, configMap("webServer: {nodePort: 31112}")}, args: []string{"--config", os.DevNull}, want: "nodePort: 30010"},
		"not readable":             {cluster: []string{installed}, err: `"operator-config" not found: select the platform configuration with --config`},
		"not valid":                {cluster: []string{installed, configMap("workers: 0")}, err: "ConfigMap ops/operator-config: workers is 0"},
		"not installed":            {cluster: []string{configMap("{}")}, err: "no operator is installed"},
		"no cluster":               {want: "No cluster is configured: the built-in platform configuration is used."},
		"no cluster to compare to": {args: []string{"--diff"}, err: "no cluster is configured"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.cluster != nil {
				world(t, tc.cluster)
			} else {
				t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
				t.Setenv("KUBERNETES_SERVICE_HOST", "")
			}
			got, err := execute(t, "", append([]string{"render", "-f", filepath.Join("..", "..", "config", "samples", "webserver.yaml")}, tc.args...)...)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("got %v, want %q", err, tc.err)
				}
				return
			}
			if err != nil || !strings.Contains(got, tc.want) {
				t.Errorf("got %v, want %q in\n%s", err, tc.want, got)
			}
		})
	}
}

// A shell gives a command the output of another one as a pipe.
func TestRender_ReadsThePlatformConfigurationFromAPipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	if _, err := w.WriteString("defaults: [{spec: {networkPolicy: {preset: Isolated}}}]"); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := execute(t, "", "render", "--config", fmt.Sprintf("/dev/fd/%d", r.Fd()), "-f", filepath.Join("..", "..", "config", "samples", "webserver.yaml"))
	if err != nil || !strings.Contains(got, "kind: NetworkPolicy") {
		t.Errorf("error %v:\n%s", err, got)
	}
}

func TestRender_RefusesWhatAdmissionRefuses(t *testing.T) {
	for name, tc := range map[string]struct{ spec, want string }{
		"an empty spec":   {spec: "null", want: "spec: Required value"},
		"a schema":        {spec: "{image: nginx:1.27.4, replicas: -3}", want: "spec.replicas: Invalid value"},
		"a rule":          {spec: "{image: nginx:1.27.4, paused: true, pod: {initContainers: [{name: a, image: a:1}]}}", want: "pods.initContainers is false"},
		"nothing, though": {spec: "{image: nginx}"}, // which has a warning
	} {
		t.Run(name, func(t *testing.T) {
			got, err := execute(t, "apiVersion: my.domain/v1\nkind: WebServer\nmetadata: {name: a}\nspec: "+tc.spec+"\n", "render", "--config", os.DevNull, "-f", "-")
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want) || got != "") {
				t.Errorf("got %v, want %q:\n%s", err, tc.want, got)
			}
		})
	}
}

func TestRender_NamesTheSourceOfAnUnknownField(t *testing.T) {
	_, err := execute(t, "apiVersion: my.domain/v1\nkind: WebServer\nspec: {imago: x}\n", "render", "--config", os.DevNull, "-f", "-")
	if err == nil || !strings.Contains(err.Error(), "standard input") || !strings.Contains(err.Error(), "spec.imago") {
		t.Errorf("got %v", err)
	}
}
