package model

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/platform-operator/platform-operator/pkg/testkit"
)

// catalogue caches the result of Catalogue.
var catalogue = sync.OnceValue(Catalogue)

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
}

// Found is a violation with the shortest chain that leads to it.
type Found struct {
	Seed     uint64
	Result   *Result
	Repeated bool
}

// String returns everything that is needed to reproduce the violation.
func (f Found) String() string {
	v := f.Result.Violations[0]
	again := "it repeats"
	if !f.Repeated {
		again = "it did not happen a second time"
	}
	return fmt.Sprintf("VIOLATION of %q (seed %d; %s)\n%s\nchain: MODEL_CHAIN='%s'\nlog:\n%s\n", v.Oracle, f.Seed, again, v.Detail, f.Result.Chain, strings.Join(f.Result.Log, "\n"))
}

// Summary is the result of a campaign.
type Summary struct {
	Chains, Operations, Checks, Refused int
	Found                               []Found
	Took                                time.Duration
}

// String returns the summary as text.
func (s *Summary) String() string {
	return fmt.Sprintf("%d chains, %d operations, %d refused by admission, %d checks, %d violations in %s",
		s.Chains, s.Operations, s.Refused, s.Checks, len(s.Found), s.Took.Round(time.Second))
}

// Run runs the campaign.
func (c Campaign) Run(ctx context.Context) (*Summary, error) {
	s := &Summary{}
	began := time.Now()
	var mu sync.Mutex
	var wg sync.WaitGroup
	var broken error
	known := map[string]bool{} // the kinds, promises and last operations of violations
	seeds := make(chan uint64)
	for range c.Workers {
		wg.Go(func() {
			for seed := range seeds {
				chain := Generate(seed, c.Kinds)
				r, err := Run(ctx, c.Env, chain)
				if ctx.Err() != nil {
					return
				}
				mu.Lock()
				if err != nil {
					broken = fmt.Errorf("seed %d, %s: %w", seed, chain, err)
					_, _ = fmt.Fprintln(c.Out, broken)
				}
				if r == nil {
					mu.Unlock()
					continue
				}
				s.Chains, s.Operations, s.Checks, s.Refused = s.Chains+1, s.Operations+len(r.Executed), s.Checks+r.Checks, s.Refused+r.Refused
				if len(r.Violations) == 0 || known[r.signature()] {
					mu.Unlock()
					continue
				}
				known[r.signature()] = true
				mu.Unlock()
				f := Found{Seed: seed}
				f.Result, f.Repeated = Shrink(ctx, c.Env, truncated(r), c.Shrinking)
				mu.Lock()
				known[f.Result.signature()] = true
				s.Found = append(s.Found, f)
				_, _ = fmt.Fprintln(c.Out, f)
				mu.Unlock()
			}
		})
	}
	minute, end := time.NewTicker(time.Minute), time.After(c.Time)
	defer minute.Stop()
	for seed, ended := c.Seed, false; !ended; {
		select {
		case seeds <- seed:
			seed++
		case <-minute.C:
			mu.Lock()
			_, _ = fmt.Fprintf(c.Out, "%5s of %s: %d chains, %d operations, %d checks, %d violations\n",
				time.Since(began).Round(time.Minute), c.Time, s.Chains, s.Operations, s.Checks, len(s.Found))
			mu.Unlock()
		case <-ctx.Done():
			ended = true
		case <-end:
			ended = true
		}
	}
	close(seeds)
	wg.Wait()
	s.Took = time.Since(began)
	if len(s.Found) == 0 {
		return s, broken
	}
	return s, nil
}

// truncated returns the result of the chain up to the violation.
func truncated(r *Result) *Result {
	if n := len(r.Executed); n > 0 && r.Violations[0].Oracle != "differential" {
		lastOp := r.Executed[n-1]
		for i, step := range slices.Backward(r.Chain.steps) {
			if step.op == lastOp {
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
	return r.Chain.kind + " " + r.Violations[0].Oracle + " " + last(r.Executed)
}
