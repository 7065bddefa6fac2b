package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func getenv(m map[string]string) func(string) string {
	return func(key string) string { return m[key] }
}

func TestCurrentContext(t *testing.T) {
	for name, content := range map[string]string{
		"yaml": "apiVersion: v1\ncurrent-context: kind-dev\nkind: Config\n",
		"json": `{"apiVersion": "v1", "current-context": "kind-dev", "kind": "Config"}`,
	} {
		// In JSON the key need not start a line; one line per key is what
		// kubectl writes.
		content = strings.ReplaceAll(content, ", ", ",\n")
		path := filepath.Join(t.TempDir(), "config")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := currentContext(getenv(map[string]string{"KUBECONFIG": path})); got != "kind-dev" {
			t.Errorf("%s: context %q, want kind-dev", name, got)
		}
	}
	if got := currentContext(getenv(map[string]string{"HOME": t.TempDir()})); got != "(none)" {
		t.Errorf("without a kubeconfig: %q", got)
	}
}
