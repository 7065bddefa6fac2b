// Command scale measures the operator with many objects on a real control plane and a
// simulated node, and writes docs/benchmarks.md. make bench-scale runs it.
//
// It starts clusters of its own, one after the other, and removes them afterwards. It
// runs itself once more in the network of each, with -phase.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// clusterName keeps the clusters apart from that of make cluster-up.
const clusterName = "scale"

// options are the flags.
type options struct {
	objects int
	pairs   int
	shared  int
	edits   int
	// namespaces, if not 0, is over how many of them the growth is repeated.
	namespaces int
	cluster    string
	operator   string
	version    string
	docs       string
	enforce    bool
	profiles   string
	// neighbours selects the measurement of a noisy tenant instead of the others.
	neighbours bool
	// phase and out are set in the processes that run in the network of a cluster.
	phase, out string
}

func main() {
	var o options
	flag.IntVar(&o.objects, "objects", 1000, "how many WebServers")
	flag.IntVar(&o.pairs, "pairs", 5, "how many times a batch of WebServers and a batch of the same children without the operator are created alternately")
	flag.IntVar(&o.shared, "shared", 100, "how many WebServers refer to one ConfigMap")
	flag.IntVar(&o.edits, "edits", 1000, "how many images are changed at once, if there are as many objects")
	flag.IntVar(&o.namespaces, "namespaces", 0, "repeat the growth with the WebServers distributed over this `number` of namespaces; 0 does not")
	flag.StringVar(&o.cluster, "cluster", "bin/cluster", "the program that starts the cluster")
	flag.StringVar(&o.operator, "operator", "bin/platform-operator", "the operator")
	flag.StringVar(&o.version, "version", "unknown", "version of the operator")
	flag.StringVar(&o.docs, "docs", "docs", "folder of benchmarks.md; empty prints the report only")
	flag.BoolVar(&o.enforce, "enforce", false, "fail if a goal is missed")
	flag.StringVar(&o.profiles, "profiles", "", "folder for profiles of the operator: of its CPU during each batch, each step of the growth, each restart and the noise, and of its heap at rest")
	flag.BoolVar(&o.neighbours, "neighbours", false, "measure what a noisy tenant and a flood of the webhooks do to others, and nothing else")
	flag.StringVar(&o.phase, "phase", "", "internal: requests, load, namespaces or neighbours")
	flag.StringVar(&o.out, "out", "", "internal: file for the results")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	if o.phase != "" {
		return runPhase(ctx, o)
	}
	if os.Getenv("CLUSTER") == "current" {
		return errors.New("this needs a cluster of its own: unset CLUSTER")
	}
	if o.objects < o.pairs || o.pairs < 1 {
		return fmt.Errorf("%d objects are not enough for %d batches", o.objects, o.pairs)
	}
	began := time.Now()
	var result results
	var err error
	if result.LoadAverage, err = loadAverage(); err != nil {
		return err
	}
	// The audit log costs the API server more for the operator's requests than for
	// others, so that only requests are counted with it.
	phases := []string{phaseRequests, phaseLoad}
	if o.namespaces > 0 {
		phases = append(phases, phaseNamespaces)
	}
	if o.neighbours {
		phases = []string{phaseNeighbours}
	}
	for _, phase := range phases {
		if err := inCluster(ctx, o, phase, &result); err != nil {
			return err
		}
	}
	result.Version, result.Took = o.version, time.Since(began)
	if result.Machine, err = machine(); err != nil {
		return err
	}
	if o.docs != "" {
		if err := result.write(o.docs); err != nil {
			return err
		}
	}
	fmt.Println(result.markdown())
	missed := result.missed()
	logf("%d of %d goals are met, %s", len(result.goals())-len(missed), len(result.goals()), time.Since(began).Round(time.Second))
	if o.enforce && len(missed) > 0 {
		return fmt.Errorf("missed: %s", strings.Join(missed, "; "))
	}
	return nil
}

// inCluster starts a cluster, runs the phase in its network and removes the cluster.
func inCluster(ctx context.Context, o options, phase string, result *results) (err error) {
	dir, err := os.MkdirTemp("", "scale-")
	if err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	logf("%s: starting a cluster", phase)
	cluster := func(ctx context.Context, args ...string) error {
		cmd := exec.CommandContext(ctx, o.cluster, args...)
		cmd.Env = append(os.Environ(), "CLUSTER_NAME="+clusterName)
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		// It is interrupted, so that it can end the operator.
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
		cmd.WaitDelay = time.Minute
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s %s: %w", o.cluster, args[0], err)
		}
		return nil
	}
	// The cluster that an aborted run has left, if any.
	if err := cluster(ctx, "down"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster(context.WithoutCancel(ctx), "down")) }()
	if err := cluster(ctx, "up", "--control-plane-only", fmt.Sprintf("--audit=%v", phase == phaseRequests)); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	out := filepath.Join(dir, "results.json")
	args := []string{"exec", "--", self, "-phase", phase, "-out", out}
	flag.VisitAll(func(f *flag.Flag) {
		if f.Name != "phase" && f.Name != "out" {
			args = append(args, "-"+f.Name+"="+f.Value.String())
		}
	})
	if err := cluster(ctx, args...); err != nil {
		return err
	}
	raw, err := os.ReadFile(out)
	if err != nil {
		return fmt.Errorf("reading the results: %w", err)
	}
	if err := json.Unmarshal(raw, result); err != nil {
		return fmt.Errorf("reading the results: %w", err)
	}
	return nil
}

// runPhase measures in the network of a cluster.
func runPhase(ctx context.Context, o options) (err error) {
	interrupted := ctx
	// Canceled if the operator or the simulated node fails.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	l := newLab(o, cancel)
	// The logs of an interrupted run are of no use.
	defer func() { err = errors.Join(err, l.tearDown(err != nil && interrupted.Err() == nil)) }()
	if err := l.setUp(ctx); err != nil {
		return err
	}
	switch o.phase {
	case phaseRequests:
		err = l.measureRequests(ctx)
	case phaseLoad:
		err = l.measureLoad(ctx)
	case phaseNamespaces:
		err = l.measureNamespaces(ctx)
	case phaseNeighbours:
		err = l.measureNeighbours(ctx)
	default:
		err = fmt.Errorf("phase %q is unknown", o.phase)
	}
	if err != nil {
		return err
	}
	raw, err := json.Marshal(l.results)
	if err != nil {
		return fmt.Errorf("writing the results: %w", err)
	}
	return os.WriteFile(o.out, raw, 0o600)
}

var started = time.Now()

// logf reports progress.
func logf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%5.0fs  %s\n", time.Since(started).Seconds(), fmt.Sprintf(format, args...))
}
