// Package quickstart tests the script of this folder with programs that only record how they
// are called: docker does not run everywhere.
package quickstart

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestScript_InstallsIntoItsOwnCluster(t *testing.T) {
	for program, tc := range map[string]struct{ creates, loads, context string }{
		"kind":     {creates: "kind create cluster --name platform-operator", loads: "kind load docker-image platform-operator:quickstart --name platform-operator", context: "kind-platform-operator"},
		"k3d":      {creates: "k3d cluster create platform-operator --kubeconfig-switch-context=false", loads: "k3d image import platform-operator:quickstart --cluster platform-operator", context: "k3d-platform-operator"},
		"minikube": {creates: "minikube start --profile platform-operator --driver docker --keep-context", loads: "minikube image load platform-operator:quickstart --profile platform-operator", context: "platform-operator"},
	} {
		t.Run(program, func(t *testing.T) {
			calls := run(t, program)
			for _, want := range []string{
				"docker build --tag platform-operator:quickstart .", tc.creates, tc.loads,
				"kubectl config use-context mine",
				"kubectl --context " + tc.context + " apply --server-side -f - < image: platform-operator:quickstart",
				"kubectl --context " + tc.context + " wait --for=condition=Ready --timeout=5m webserver/webserver-sample",
			} {
				if !strings.Contains(calls, want+"\n") {
					t.Errorf("%q is not called, but:\n%s", want, calls)
				}
			}
			for call := range strings.Lines(calls) {
				if strings.HasPrefix(call, "kubectl ") && !strings.HasPrefix(call, "kubectl config ") && !strings.HasPrefix(call, "kubectl --context "+tc.context+" ") {
					t.Errorf("%q uses another cluster", call)
				}
			}
		})
	}
}

// run runs the script without a cluster, and returns the calls of programs.
func run(t *testing.T, program string) string {
	t.Helper()
	dir := t.TempDir()
	const fake = `#!/bin/bash
name=$(basename "$0")
input=
case "$*" in
"get clusters" | "cluster get "* | "status "*) exit 1 ;; # there is no cluster
"config current-context") echo mine ;;
*kustomize*) echo 'image: platform-operator:dev' ;;
*"-f -") input=" < $(cat)" ;;
esac
echo "$name $*$input" >>"$CALLS"
`
	for _, name := range []string{"docker", "kubectl", program} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(fake), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	calls := filepath.Join(dir, "calls")
	cmd := exec.Command("./quickstart.sh", program)
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "CALLS="+calls)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	raw, err := os.ReadFile(calls)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
