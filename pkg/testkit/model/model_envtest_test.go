//go:build envtest

package model

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/platform-operator/platform-operator/controllers"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/rollout"
	"github.com/platform-operator/platform-operator/pkg/telemetry"
	"github.com/platform-operator/platform-operator/pkg/testkit"
)

// env is the API server of this package's tests.
var env *testkit.Env

func TestMain(m *testing.M) {
	logs := io.Discard // a campaign prints what it finds
	if os.Getenv("MODEL_CHAIN") != "" {
		logs = os.Stderr
	}
	testkit.MainWithoutNodes(m, "../../..", controllers.AddToScheme, func(e *testkit.Env) { env = e }, logs)
}

// TestCampaign runs random chains: MODEL_TIME=2h for how long, MODEL_SEED for
// which, MODEL_KINDS for which kinds, and MODEL_WORKERS for how many at a time.
func TestCampaign(t *testing.T) {
	if os.Getenv("MODEL_TIME") == "" {
		t.Skip("MODEL_TIME is not set; make test-model and make campaign-model set it")
	}
	c := &Campaign{
		Env: env, Time: duration(t, "MODEL_TIME", 0), Seed: number64(t, "MODEL_SEED", uint64(time.Now().UnixNano())),
		Workers: int(number64(t, "MODEL_WORKERS", 6)), Kinds: kinds(), Shrinking: duration(t, "MODEL_SHRINK", 2*time.Minute), Out: os.Stdout, //nolint:gosec // a few
	}
	t.Logf("MODEL_SEED=%d", c.Seed)
	interrupted, stop := signal.NotifyContext(t.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s := c.Run(interrupted)
	if s.Err != nil {
		t.Error(s.Err)
	}
	fmt.Println(s) // t.Log prints nothing if no violation was found
	for _, r := range s.Found {
		t.Error(r)
	}
}

// TestChain runs the chain in MODEL_CHAIN.
func TestChain(t *testing.T) {
	text := os.Getenv("MODEL_CHAIN")
	if text == "" {
		t.Skip("MODEL_CHAIN is not set")
	}
	c, err := ParseChain(text)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Run(t.Context(), env, c)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range r.Log {
		t.Log(line)
	}
	for _, v := range r.Violations {
		t.Error(v)
	}
}

// TestChain_Regressions runs chains that broke a promise once; all of them in a campaign.
func TestChain_Regressions(t *testing.T) {
	files := []string{"chains.txt"}
	if os.Getenv("MODEL_TIME") != "" {
		files = append(files, "more.txt")
	}
	runAll(t, regressions(t, files...))
}

// TestChain_WithARestartBetweenAnyTwoSteps starts the operator again while the cluster has
// not moved since its last write, and once more before the next step. What the operator
// remembers makes no difference: the model compares the result of each step, and the end
// state is that of a fresh object. More chains are a part of make test-model.
func TestChain_WithARestartBetweenAnyTwoSteps(t *testing.T) {
	var all []Chain
	texts := []string{
		"webserver: create image-crash rollback pin-1 unpin",
		"demoapplication: autoscale create autoscale-to-5 image-2",
	}
	if os.Getenv("MODEL_TIME") != "" {
		texts = []string{
			"webserver: create image-crash halt rollback image-2 pin-1 unpin",
			"webserver: isolate create content-cm cm-write expose delete-service drift-replicas",
			"webserver: create scale-3 pause image-2 resume",
			"demoapplication: autoscale create autoscale-to-5 image-2 delete-service autoscale-off",
			"demoapplication: create env-cm cm-write image-missing evict-pod erase-status image-2",
			"immortalcontainer: create image-2 pod-fails pause evict-pod resume suspend suspend-off",
			"memcached: create scale-3 quota image-2 quota-off recreate",
		}
	}
	for _, text := range texts {
		c, err := ParseChain(text)
		if err != nil {
			t.Fatal(err)
		}
		restarted := Chain{kind: c.kind}
		for _, s := range c.steps {
			restarted.steps = append(restarted.steps, step{s.op, paceIdle}, step{"restart-operator", paceSettle}, step{"restart-operator", paceIdle})
		}
		all = append(all, restarted)
	}
	runAll(t, all)
}

// TestChain_AVersionThatRanForAMoment runs a version whose pods are all ready at one instant.
func TestChain_AVersionThatRanForAMoment(t *testing.T) {
	rollout.HealthyAfter = time.Minute
	defer func() { rollout.HealthyAfter = 0 }()
	c, err := ParseChain("demoapplication: deadline-long create ports-none " + opBrief)
	if err != nil {
		t.Fatal(err)
	}
	runAll(t, []Chain{c})
}

// TestRun_FindsADefect runs a chain with an operator that deletes no child.
func TestRun_FindsADefect(t *testing.T) {
	if os.Getenv("MODEL_TIME") == "" {
		t.Skip("it tests the model, not the operator: make test-model runs it")
	}
	c, err := ParseChain("webserver: isolate create isolate-off")
	if err != nil {
		t.Fatal(err)
	}
	sound := c.kind.subject
	c.kind.subject = func(clock func() time.Time) testkit.Subject {
		s := sound(clock)
		setup := s.Setup
		s.Setup = func(mgr manager.Manager, _ *apply.Applier) error {
			return setup(mgr, apply.NewApplier(keeping{mgr.GetClient()}, mgr.GetAPIReader(), telemetry.New(telemetry.Options{}).Child))
		}
		return s
	}
	r, err := Run(t.Context(), env, c)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Violations) == 0 || r.Violations[0].Oracle != "differential" {
		t.Errorf("got %v, want a violation of differential", r.Violations)
	}
}

// keeping is a client that deletes nothing.
type keeping struct{ client.Client }

func (keeping) Delete(context.Context, client.Object, ...client.DeleteOption) error { return nil }

// runAll runs chains. A chain mostly waits, so more of them run at the same time than there are
// processors.
func runAll(t *testing.T, chains []Chain) {
	t.Helper()
	results, errs := make([]*Result, len(chains)), make([]error, len(chains))
	var wg sync.WaitGroup
	free := make(chan struct{}, 6)
	for i, c := range chains {
		wg.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			results[i], errs[i] = Run(t.Context(), env, c)
		})
	}
	wg.Wait()
	for i, c := range chains {
		t.Run(c.String(), func(t *testing.T) {
			if errs[i] != nil {
				t.Fatal(errs[i])
			}
			if len(results[i].Violations) > 0 {
				t.Error(results[i])
			}
		})
	}
}

func kinds() []string {
	if names := os.Getenv("MODEL_KINDS"); names != "" {
		return strings.Split(names, ",")
	}
	var all []string
	for _, k := range Kinds() {
		all = append(all, k.Name)
	}
	return all
}

func duration(t *testing.T, name string, unset time.Duration) time.Duration {
	t.Helper()
	if os.Getenv(name) == "" {
		return unset
	}
	d, err := time.ParseDuration(os.Getenv(name))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return d
}

func number64(t *testing.T, name string, unset uint64) uint64 {
	t.Helper()
	if os.Getenv(name) == "" {
		return unset
	}
	n, err := strconv.ParseUint(os.Getenv(name), 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}
