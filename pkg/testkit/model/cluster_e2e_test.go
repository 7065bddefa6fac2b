//go:build e2e

package model

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/config"

	"github.com/platform-operator/platform-operator/controllers"
	"github.com/platform-operator/platform-operator/pkg/testkit"
)

// TestCluster_KeepsThePromises runs random chains on a real cluster, with the
// operator that is installed there: MODEL_CHAINS is their number, MODEL_SEED
// determines them, MODEL_KINDS are their kinds, and MODEL_WORKERS is how many run
// at the same time. With MODEL_CHAIN it runs only that chain.
func TestCluster_KeepsThePromises(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := controllers.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.GetConfig()
	if err != nil {
		t.Fatal(err)
	}
	cfg.QPS, cfg.Burst, cfg.WarningHandler = -1, -1, rest.NoWarnings{}
	admin, err := client.NewWithWatch(cfg, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	env := &testkit.Env{Admin: admin, Scheme: scheme}
	chains := clusterChains(t)
	next := make(chan Chain)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var operations, checks int
	for range setting(t, "MODEL_WORKERS", 4) {
		wg.Go(func() {
			for c := range next {
				r, err := RunOnCluster(t.Context(), env, c)
				if err != nil {
					t.Errorf("%s: %v", c, err)
					continue
				}
				mu.Lock()
				operations, checks = operations+len(r.Executed), checks+r.Checks
				mu.Unlock()
				t.Logf("%s: %d operations, %d checks, %d violations", c, len(r.Executed), r.Checks, len(r.Violations))
				for _, v := range r.Violations {
					t.Errorf("VIOLATION of %q\n%s\nchain: MODEL_CHAIN='%s'\n%s\nlog:\n%s", v.Oracle, v.Detail, c, ClusterScript(c), strings.Join(r.Log, "\n"))
				}
			}
		})
	}
	for _, c := range chains {
		next <- c
	}
	close(next)
	wg.Wait()
	t.Logf("%d chains, %d operations, %d checks", len(chains), operations, checks)
}

// clusterChains returns the chains that the environment variables specify.
func clusterChains(t *testing.T) []Chain {
	t.Helper()
	if text := os.Getenv("MODEL_CHAIN"); text != "" {
		c, err := ParseChain(text)
		if err != nil {
			t.Fatal(err)
		}
		return []Chain{c}
	}
	names := strings.FieldsFunc(os.Getenv("MODEL_KINDS"), func(r rune) bool { return r == ',' })
	if len(names) == 0 {
		for _, k := range Kinds() {
			names = append(names, k.Name)
		}
	}
	seed := setting(t, "MODEL_SEED", int(time.Now().Unix()))
	t.Logf("MODEL_SEED=%d", seed)
	pairs := NewPairs(names)
	deletions := []string{"delete-foreground", "delete", "delete-orphan"}
	var all []Chain
	for i := range setting(t, "MODEL_CHAINS", 24) {
		c := Generate(uint64(seed+i), names[i%len(names):i%len(names)+1], pairs, notForClusters()).ForCluster(10, deletions[i/len(names)%len(deletions)]) //nolint:gosec // reproducible by its seed
		var ops []string
		for _, s := range c.steps {
			ops = append(ops, s.op)
		}
		pairs.add(c, ops)
		all = append(all, c)
	}
	return all
}

func setting(t *testing.T, name string, unset int) int {
	t.Helper()
	if os.Getenv(name) == "" {
		return unset
	}
	n, err := strconv.Atoi(os.Getenv(name))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}
