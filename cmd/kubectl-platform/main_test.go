package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/platform-operator/platform-operator/controllers"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/inspect"
	"github.com/platform-operator/platform-operator/pkg/testkit/golden"
)

// execute runs the command line as main does.
func execute(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := command([]string{"kubectl-platform"})
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// kubeconfig writes a kubeconfig for an API server, with the namespaces shop and other.
func kubeconfig(t *testing.T, server string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	content := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, users: [{name: u}], clusters: [{name: s, cluster: {server: %q}}],
contexts: [{name: c, context: {cluster: s, user: u, namespace: shop}}, {name: d, context: {cluster: s, user: u, namespace: other}}]}`, server)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// The program is small because it contains only what users need.
func TestImports_AreNotThoseOfTheOperator(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for p := range strings.FieldsSeq(string(out)) {
		own, isOwn := strings.CutPrefix(p, "github.com/platform-operator/platform-operator/")
		if strings.HasPrefix(p, "sigs.k8s.io/controller-runtime/pkg/manager") || strings.HasPrefix(p, "github.com/google/cel-go") ||
			isOwn && slices.ContainsFunc([]string{"apis/", "controllers", "webhooks", "pkg/apply", "pkg/converge", "pkg/operator"}, func(not string) bool { return strings.HasPrefix(own, not) && own != "apis/common" }) {
			t.Errorf("kubectl-platform imports %s", p)
		}
	}
}

// The types of children that status shows are those that the operator creates.
func TestStatus_KnowsAllTypesOfChildren(t *testing.T) {
	var known []string
	for _, c := range inspect.Children() {
		known = append(known, c.GetObjectKind().GroupVersionKind().Kind+reflect.TypeOf(c).Elem().Name())
	}
	for _, k := range controllers.Kinds(config.Default()) {
		for _, c := range slices.Concat(k.Children, k.Optional) {
			name := reflect.TypeOf(c).Elem().Name()
			if !slices.Contains(known, name) && !slices.Contains(known, name+"PartialObjectMetadata") {
				t.Errorf("status does not show %s, a child of %s", name, k.Name())
			}
		}
	}
}

func TestCommands_SelectTheClusterLikeKubectl(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	var asked *http.Request
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r
		http.Error(w, "{}", http.StatusForbidden)
	}))
	t.Cleanup(s.Close)
	file := kubeconfig(t, s.URL)
	for name, tc := range map[string]struct {
		env  string
		args []string
		want string
		as   string
	}{
		"variable":    {env: file, want: "shop"},
		"file":        {env: "none", args: []string{"--kubeconfig", file}, want: "shop"},
		"context":     {env: file, args: []string{"--context", "d"}, want: "other"},
		"namespace":   {env: file, args: []string{"-n", "third"}, want: "third"},
		"impersonate": {env: file, args: []string{"--as", "jane", "--request-timeout", "5s"}, want: "shop", as: "jane"},
		"no file":     {env: "none", args: []string{"--server", s.URL, "-n", "x"}, want: "x"},
	} {
		t.Run(name, func(t *testing.T) {
			asked = nil
			t.Setenv("KUBECONFIG", tc.env)
			_, err := execute(t, append([]string{"status", "ws/shop"}, tc.args...)...)
			if asked == nil || asked.Header.Get("Impersonate-User") != tc.as {
				t.Errorf("request %v, want one as %q", asked, tc.as)
			}
			if want := fmt.Sprintf("in namespace %q", tc.want); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
}

func TestHelp(t *testing.T) {
	for name, tc := range map[string]struct{ args, want, not []string }{
		"of the program": {[]string{"--help"}, []string{"kubectl platform [command]", "\n  status ", "\n  version ", "kubectl platform status webserver/shop", "--kubeconfig"}, []string{"platform-operator status", "--client-certificate"}},
		"of status":      {[]string{"status", "--help"}, []string{"kubectl platform status [KIND/NAME]", "--watch", "-A, --all-namespaces", "--kubeconfig", "jq"}, []string{"platform-operator status"}},
		"of history":     {[]string{"history", "--help"}, []string{"--diff", "-n, --namespace"}, nil},
		"version":        {[]string{"version"}, []string{"v"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := execute(t, tc.args...)
			if err != nil {
				t.Fatal(err)
			}
			check(t, got, tc.want, tc.not)
		})
	}
}

func check(t *testing.T, got string, want, not []string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("%q is not in\n%s", w, got)
		}
	}
	for _, n := range not {
		if strings.Contains(got, n) {
			t.Errorf("%q is in\n%s", n, got)
		}
	}
}

// kubectl runs kubectl_complete-platform with the words of the command line.
func TestCompletion(t *testing.T) {
	for name, tc := range map[string]struct{ args, want, not []string }{
		"kinds":       {[]string{"status", "w"}, []string{"webserver/\n"}, []string{"memcached"}},
		"short names": {[]string{"status", "ws"}, []string{"ws/\n"}, nil},
		"objects":     {[]string{"status", "-n", "shop", "ws/"}, []string{"ws/shop\n"}, nil},
		"revisions":   {[]string{"history", "ws/shop", "--diff", ""}, []string{"2\tserving, last healthy\n"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			world(t, golden.Cases(t)["rolled-back"])
			cmd := command(append([]string{"/usr/bin/kubectl_complete-platform"}, tc.args...))
			var out bytes.Buffer
			cmd.SetOut(&out)
			cmd.SetErr(&out)
			if err := cmd.ExecuteContext(t.Context()); err != nil {
				t.Fatal(err)
			}
			check(t, out.String(), tc.want, tc.not)
		})
	}
}
