package model

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/platform-operator/platform-operator/pkg/testkit"
)

// Campaign executes many random chains.
type Campaign struct {
	Env *testkit.Env
	// Time is how long new chains are started.
	Time time.Duration
	// Seed determines the chains.
	Seed uint64
	// Workers is how many chains run at the same time.
	Workers int
	// Kinds are the kinds of the chains' objects.
	Kinds []string
	// Shrinking is the time limit for finding the shortest chain of a violation.
	Shrinking time.Duration
	// Out receives each violation as soon as it is found, and a line of progress each
	// minute.
	Out io.Writer

	mu      sync.Mutex
	summary Summary
	known   map[string]bool // the kinds, promises and last operations of violations
}

// Summary is the result of a campaign.
type Summary struct {
	Chains, Operations, Checks int
	Found                      []*Result
	Err                        error
}

// String returns the summary as text.
func (s *Summary) String() string {
	return fmt.Sprintf("%d chains, %d operations, %d checks, %d violations", s.Chains, s.Operations, s.Checks, len(s.Found))
}

// Run runs the campaign.
func (c *Campaign) Run(ctx context.Context) *Summary {
	c.known = map[string]bool{}
	var workers errgroup.Group
	workers.SetLimit(c.Workers)
	began := time.Now()
	reported := began
	for seed := c.Seed; time.Since(began) < c.Time && ctx.Err() == nil; seed++ {
		workers.Go(func() error { // which waits for a worker
			c.try(ctx, seed)
			return nil
		})
		if time.Since(reported) >= time.Minute {
			reported = time.Now()
			c.mu.Lock()
			_, _ = fmt.Fprintf(c.Out, "%5s of %s: %s\n", time.Since(began).Round(time.Minute), c.Time, &c.summary)
			c.mu.Unlock()
		}
	}
	_ = workers.Wait() // errors are in the summary
	return &c.summary
}

// try runs the chain of a seed, and shrinks it if it violates an oracle in a new way.
func (c *Campaign) try(ctx context.Context, seed uint64) {
	chain := Generate(seed, c.Kinds)
	r, err := Run(ctx, c.Env, chain)
	if ctx.Err() != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.summary.Err = errors.Join(c.summary.Err, fmt.Errorf("seed %d, %s: %w", seed, chain, err))
	}
	if r == nil {
		return
	}
	s := &c.summary
	s.Chains, s.Operations, s.Checks = s.Chains+1, s.Operations+len(r.Executed), s.Checks+r.Checks
	if len(r.Violations) == 0 || c.known[r.signature()] {
		return
	}
	c.known[r.signature()] = true
	c.mu.Unlock()
	shortest := Shrink(ctx, c.Env, truncated(r), c.Shrinking)
	c.mu.Lock()
	shortest.Seed = seed
	c.known[shortest.signature()] = true
	s.Found = append(s.Found, shortest)
	_, _ = fmt.Fprintln(c.Out, shortest)
}

// truncated returns the result of the chain up to the violation.
func truncated(r *Result) *Result {
	if n := len(r.Executed); n > 0 && r.Violations[0].Oracle != "differential" {
		for i, step := range slices.Backward(r.Chain.steps) {
			if step.op == r.Executed[n-1] {
				t := *r
				t.Chain.steps = slices.Clone(r.Chain.steps[:i+1])
				return &t
			}
		}
	}
	return r
}

// signature is the same for violations that probably have the same cause.
func (r *Result) signature() string {
	return r.Chain.kind.Name + " " + r.Violations[0].Oracle + " " + r.Executed[len(r.Executed)-1]
}
