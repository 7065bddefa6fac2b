// Command scale measures the operator with many objects on a real control plane and a
// simulated node, and writes docs/contributing/benchmarks.md: how much CPU and memory it
// uses. It compares two programs of the operator if it is given two. make bench-scale runs
// it. How many requests the operator sends is a matter of tests (Env.Budget of testkit).
//
// It runs in the network of a cluster of its own.
package main

import (
	"context"
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

// clusterName is CLUSTER_NAME of the cluster.
const clusterName = "scale"

// options are the flags.
type options struct {
	objects, rounds int
	before          string
	operator        string
	docs            string
	enforce         bool
}

func main() {
	var o options
	flag.IntVar(&o.objects, "objects", 1000, "how many WebServers")
	flag.IntVar(&o.rounds, "rounds", 5, "in how many rounds they are created, and how often each operator is restarted with all of them")
	flag.StringVar(&o.operator, "operator", "bin/platform-operator", "the operator")
	flag.StringVar(&o.before, "before", "", "another operator, which is compared with it")
	flag.StringVar(&o.docs, "docs", "docs/contributing", "folder of benchmarks.md; empty prints the report only")
	flag.BoolVar(&o.enforce, "enforce", false, "fail if a goal is missed")
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
	if os.Getenv("CLUSTER_NAME") != clusterName || os.Getenv("CLUSTER") == "current" {
		return errors.New("this changes its cluster and its network: make bench-scale starts one for it")
	}
	r := results{Objects: o.objects, Began: time.Now(), Operators: make([]measured, len(programs))}
	for i, p := range programs {
		version, err := exec.CommandContext(ctx, p, "version").Output()
		if err != nil {
			return fmt.Errorf("%s version: %w", p, err)
		}
		r.Operators[i].Version = strings.TrimSpace(string(version))
	}
	var err error
	if r.Operators, err = measure(ctx, o, programs, r.Operators); err != nil {
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

// measure adds what is measured to the results of each program.
func measure(ctx context.Context, o options, programs []string, results []measured) (_ []measured, err error) {
	interrupted := ctx
	// Canceled if the operator or the simulated node fails.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	l := &lab{options: o, programs: programs, cancel: cancel, results: results}
	// The logs of an interrupted run are of no use.
	defer func() { err = errors.Join(err, l.tearDown(err != nil && interrupted.Err() == nil)) }()
	if err := l.setUp(ctx); err != nil {
		return nil, err
	}
	return l.results, l.measureLoad(ctx)
}

var started = time.Now()

// logf reports progress.
func logf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%5.0fs  %s\n", time.Since(started).Seconds(), fmt.Sprintf(format, args...))
}
