package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/platform-operator/platform-operator/pkg/cli"
)

// TestCommands_SelectTheCluster checks that every command that needs a cluster uses
// the one that its flags select, and otherwise the one of the current context.
func TestCommands_SelectTheCluster(t *testing.T) {
	const manifest = "apiVersion: my.domain/v1\nkind: WebServer\nmetadata: {name: shop}\nspec: {image: nginx:1.27.3}\n"
	t.Setenv("HOME", t.TempDir())
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for name, args := range map[string][]string{
		"render":    {"render", "-f", "-", "--diff", "--config", os.DevNull},
		"preflight": {"preflight", "--config", os.DevNull},
		"release":   {"release"},
		// These read the configuration of the operator.
		"render, configured":    {"render", "-f", "-"},
		"preflight, configured": {"preflight"},
	} {
		t.Run(name, func(t *testing.T) {
			var asked [2]atomic.Int32
			var file strings.Builder
			file.WriteString("apiVersion: v1\nkind: Config\ncurrent-context: c0\nusers: [{name: u}]\n")
			var clusters, contexts []string
			for i := range asked {
				s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					asked[i].Add(1)
					http.Error(w, "not here", http.StatusForbidden)
				}))
				t.Cleanup(s.Close)
				clusters = append(clusters, fmt.Sprintf("{name: c%d, cluster: {server: %q}}", i, s.URL))
				contexts = append(contexts, fmt.Sprintf("{name: c%d, context: {cluster: c%d, user: u}}", i, i))
			}
			fmt.Fprintf(&file, "clusters: [%s]\ncontexts: [%s]\n", strings.Join(clusters, ", "), strings.Join(contexts, ", "))
			path := filepath.Join(t.TempDir(), "kubeconfig")
			if err := os.WriteFile(path, []byte(file.String()), 0o600); err != nil {
				t.Fatal(err)
			}
			check := func(what string, want int, flags ...string) {
				t.Helper()
				asked[0].Store(0)
				asked[1].Store(0)
				_, err := execute(t, manifest, append(args, flags...)...)
				if asked[want].Load() == 0 || asked[1-want].Load() > 0 {
					t.Errorf("%s: %d requests to the first cluster and %d to the second: %v", what, asked[0].Load(), asked[1].Load(), err)
				}
			}
			t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
			check("a file", 0, "--kubeconfig", path)
			check("a file and a context", 1, "--kubeconfig", path, "--context", "c1")
			t.Setenv("KUBECONFIG", path)
			check("the variable", 0)
			check("the variable and a context", 1, "--context", "c1")
		})
	}
}

// world makes a cluster with objects the one that commands connect to.
func world(t *testing.T, documents []string) {
	t.Helper()
	s, err := scheme()
	if err != nil {
		t.Fatal(err)
	}
	b := fake.NewClientBuilder().WithScheme(s)
	for _, d := range documents {
		obj, _, err := serializer.NewCodecFactory(s, serializer.EnableStrict).UniversalDeserializer().Decode([]byte(d), nil, nil)
		if err != nil {
			t.Fatalf("%v in\n%s", err, d)
		}
		b.WithObjects(obj.(client.Object))
	}
	before := connect
	t.Cleanup(func() { connect = before })
	connect = func(*cli.ClusterFlags) (cluster, error) { return cluster{namespace: "shop", client: b.Build()}, nil }
}
