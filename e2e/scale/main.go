// Command scale measures the operator with many objects on a real control plane and a
// simulated node, and writes docs/contributing/benchmarks.md: how much CPU and memory it
// uses. It compares two programs of the operator if it is given two. make bench-scale runs
// it. How many requests the operator sends is a matter of tests (Env.Budget of testkit).
//
// It starts a cluster of its own, and removes it afterwards. It runs itself once more in the
// network of that, with -out.
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

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/platform-operator/platform-operator/e2e/benchmark"
)

// clusterName keeps the cluster apart from that of make cluster-up.
const clusterName = "scale"

// options are the flags.
type options struct {
	objects, rounds int
	cluster         string
	before          string
	operator        string
	docs            string
	enforce         bool
	// out is set in the process that runs in the network of the cluster.
	out string
}

func main() {
	var o options
	flag.IntVar(&o.objects, "objects", 1000, "how many WebServers")
	flag.IntVar(&o.rounds, "rounds", 5, "in how many rounds they are created, and how often each operator is restarted with all of them")
	flag.StringVar(&o.cluster, "cluster", "bin/cluster", "the program that starts the cluster")
	flag.StringVar(&o.operator, "operator", "bin/platform-operator", "the operator")
	flag.StringVar(&o.before, "before", "", "another operator, which is compared with it")
	flag.StringVar(&o.docs, "docs", "docs/contributing", "folder of benchmarks.md; empty prints the report only")
	flag.BoolVar(&o.enforce, "enforce", false, "fail if a goal is missed")
	flag.StringVar(&o.out, "out", "", "internal: file for the results")
	flag.Parse()
	ctrl.SetLogger(logr.Discard())
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	programs := []string{o.operator}
	if o.before != "" {
		programs = []string{o.before, o.operator}
	}
	if o.objects < o.rounds*len(programs) || o.rounds < 1 {
		return fmt.Errorf("%d objects are not enough for %d rounds", o.objects, o.rounds)
	}
	if o.out != "" {
		return runInside(ctx, o, programs)
	}
	if os.Getenv("CLUSTER") == "current" {
		return errors.New("this needs a cluster of its own: unset CLUSTER")
	}
	r := results{Objects: o.objects, Began: time.Now(), Operators: make([]measured, len(programs))}
	for i, p := range programs {
		version, err := exec.CommandContext(ctx, p, "version").Output()
		if err != nil {
			return fmt.Errorf("%s version: %w", p, err)
		}
		r.Operators[i].Version = strings.TrimSpace(string(version))
	}
	if err := inCluster(ctx, o, &r); err != nil {
		return err
	}
	page, err := r.markdown()
	if err != nil {
		return err
	}
	fmt.Println(page)
	if o.docs != "" {
		if err := benchmark.WriteSection(filepath.Join(o.docs, "benchmarks.md"), "# Benchmarks", begin, end, page); err != nil {
			return err
		}
	}
	if missed := r.missed(); o.enforce && len(missed) > 0 {
		return fmt.Errorf("missed: %s", strings.Join(missed, "; "))
	}
	return nil
}

// inCluster starts a cluster, measures in its network and removes the cluster.
func inCluster(ctx context.Context, o options, r *results) (err error) {
	dir, err := os.MkdirTemp("", "scale-")
	if err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	logf("starting a cluster")
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
	if err := cluster(ctx, "up", "--control-plane-only"); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	out := filepath.Join(dir, "results.json")
	args := []string{"exec", "--", self, "-out", out}
	flag.VisitAll(func(f *flag.Flag) {
		if f.Name != "out" {
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
	if err := json.Unmarshal(raw, r); err != nil {
		return fmt.Errorf("reading the results: %w", err)
	}
	return nil
}

// runInside measures in the network of the cluster.
func runInside(ctx context.Context, o options, programs []string) (err error) {
	interrupted := ctx
	// Canceled if the operator or the simulated node fails.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	l := &lab{options: o, programs: programs, cancel: cancel, results: make([]measured, len(programs))}
	// The logs of an interrupted run are of no use.
	defer func() { err = errors.Join(err, l.tearDown(err != nil && interrupted.Err() == nil)) }()
	if err := l.setUp(ctx); err != nil {
		return err
	}
	if err := l.measureLoad(ctx); err != nil {
		return err
	}
	raw, err := json.Marshal(map[string]any{"Operators": l.results})
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
