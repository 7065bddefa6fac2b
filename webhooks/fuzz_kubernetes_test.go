//go:build kubernetes

package webhooks_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/platform-operator/platform-operator/webhooks/admissiontest/generate"
)

// kubernetes runs e2e/kubevalidate, which contains the validation code of
// Kubernetes, once per process. KUBEVALIDATE is its path; make test-fuzz builds it.
type kubernetes struct {
	mu  sync.Mutex
	in  io.Writer
	out *bufio.Reader
}

var running = sync.OnceValues(func() (*kubernetes, error) {
	cmd := exec.Command(os.Getenv("KUBEVALIDATE")) //nolint:noctx // it ends when this process closes its input
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting e2e/kubevalidate, which KUBEVALIDATE has to name: %w", err)
	}
	return &kubernetes{in: in, out: bufio.NewReader(out)}, nil
})

// refuses returns the error of Kubernetes about a child, or "".
func (k *kubernetes) refuses(t *testing.T, old, child json.RawMessage) string {
	t.Helper()
	q := map[string]json.RawMessage{"new": child}
	if old != nil {
		q["old"] = old
	}
	raw, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, err := k.in.Write(append(raw, '\n')); err != nil {
		t.Fatal(err)
	}
	line, err := k.out.ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var a struct{ Error string }
	if err := json.Unmarshal(line, &a); err != nil {
		t.Fatal(err)
	}
	return a.Error
}

// FuzzWhatWeAdmitKubernetesAdmits checks that Kubernetes accepts the children of
// every accepted object, both as new objects and as updates of the children of an
// earlier object of that name.
func FuzzWhatWeAdmitKubernetesAdmits(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, bytes []byte) {
		k, err := running()
		if err != nil {
			t.Fatal(err)
		}
		d := generate.NewDice(bytes)
		first := drawObject(d, drawKind(t, d), nil)
		if !first.mend(t, nil) {
			return
		}
		old := judged(t, k, first, nil)
		if then := drawObject(d, first.known, first); then.mend(t, nil) {
			judged(t, k, then, old)
		}
	})
}

// judged returns the children of an object by kind and name, after validating
// each of them with the code of Kubernetes.
func judged(t *testing.T, k *kubernetes, o *drawn, old map[string]json.RawMessage) map[string]json.RawMessage {
	t.Helper()
	made, err := children(o.typed(t))
	if err != nil {
		t.Fatalf("%v\n%s", err, o.json())
	}
	all := map[string]json.RawMessage{}
	for _, child := range made {
		var head metav1.PartialObjectMetadata
		if err := json.Unmarshal(child, &head); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(head.APIVersion, "gateway.networking.k8s.io") || strings.Contains(head.APIVersion, "monitoring.coreos.com") {
			continue // not an API of Kubernetes
		}
		name := head.Kind + " " + head.Name
		if said := k.refuses(t, nil, child); said != "" {
			t.Errorf("%s is refused: %s\n%s\n%s", name, said, o.json(), child)
		}
		// A pod is replaced instead of updated; a revision never changes.
		if was := old[name]; was != nil && head.Kind != "Pod" && head.Kind != "ControllerRevision" {
			if said := k.refuses(t, was, child); said != "" {
				t.Errorf("%s is refused as an update: %s\n%s\nof\n%s", name, said, o.json(), o.old)
			}
		}
		all[name] = child
	}
	return all
}
