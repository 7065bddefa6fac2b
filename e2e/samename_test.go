//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestOperator_ThreeKindsWithTheSameName creates a WebServer, a DemoApplication and a Memcached
// that need a Deployment of the same name. One owns it, the others report Conflict
// and wait, and when that one is deleted, another takes over.
func TestOperator_ThreeKindsWithTheSameName(t *testing.T) {
	campaign(t, "campaign-e2e")
	t.Parallel()
	ns := namespace(t)
	kinds := []string{"webserver", "demoapplication", "memcached"}
	for _, yaml := range []string{
		"apiVersion: my.domain/v1\nkind: WebServer\nmetadata: {name: same, namespace: %s}\nspec: {image: nginx, service: {type: ClusterIP}}\n",
		"apiVersion: paas.cmft.com/v1\nkind: DemoApplication\nmetadata: {name: same, namespace: %s}\nspec: {image: nginx, ports: [{port: 80}]}\n",
		"apiVersion: cache.example.com/v1alpha1\nkind: Memcached\nmetadata: {name: same, namespace: %s}\nspec: {size: 1}\n",
	} {
		if err := apply(t, fmt.Sprintf(yaml, ns)); err != nil {
			t.Fatal(err)
		}
	}
	holder := func() string {
		out, err := run(t.Context(), "", "kubectl", "-n", ns, "get", "deployment", "same", "-o", "jsonpath={.metadata.ownerReferences[0].kind}")
		if err != nil {
			return ""
		}
		return strings.ToLower(out)
	}
	// settled waits until one of the kinds owns the Deployment and is Ready, and
	// all others report Conflict; it returns that kind.
	settled := func(among []string) string {
		t.Helper()
		var one string
		eventually(t, "one to be Ready and the others to say Conflict", func() error {
			one = holder()
			if !slices.Contains(among, one) {
				return fmt.Errorf("the Deployment is %q's", one)
			}
			for _, k := range among {
				want, path := "Conflict", `jsonpath={.status.conditions[?(@.type=="Stalled")].reason}`
				if k == one {
					want, path = "True", `jsonpath={.status.conditions[?(@.type=="Ready")].status}`
				}
				out, err := run(t.Context(), "", "kubectl", "-n", ns, "get", k, "same", "-o", path)
				if err != nil || out != want {
					return errors.Join(err, fmt.Errorf("%s says %q, want %q", k, out, want))
				}
			}
			return nil
		})
		return one
	}
	first := settled(kinds)
	uid := kubectl(t, "-n", ns, "get", "deployment", "same", "-o", "jsonpath={.metadata.uid}")
	// Nothing changes if all kinds are reconciled again.
	for n := range 5 {
		for _, k := range kinds {
			kubectl(t, "-n", ns, "annotate", "--overwrite", k, "same", fmt.Sprintf("example.com/try=%d", n))
		}
		if h := holder(); h != first {
			t.Fatalf("the Deployment was %s's and is %q's", first, h)
		}
	}
	if now := kubectl(t, "-n", ns, "get", "deployment", "same", "-o", "jsonpath={.metadata.uid}"); now != uid {
		t.Errorf("the Deployment was replaced: got UID %s, want %s", now, uid)
	}

	kubectl(t, "-n", ns, "delete", first, "same")
	start := time.Now()
	left := slices.DeleteFunc(slices.Clone(kinds), func(k string) bool { return k == first })
	second := settled(left)
	t.Logf("%s had it; %s took over after %s", first, second, time.Since(start).Round(time.Second))
}
