package model

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/platform-operator/platform-operator/pkg/testkit"
)

// catalogue is Catalogue, made once.
var catalogue = sync.OnceValue(Catalogue)

// Campaign is many random chains.
type Campaign struct {
	Env *testkit.Env
	// Time is how long chains are started.
	Time time.Duration
	// Seed makes the same chains again, as far as they are not chosen by which
	// pairs are still missing.
	Seed uint64
	// Workers is how many chains run at the same time.
	Workers int
	// Kinds are the kinds of the chains' objects.
	Kinds []string
	// Shrinking is how long the shortest chain of a violation is searched for.
	Shrinking time.Duration
	// Until stops the campaign at the first violation.
	Until bool
	// Out receives a line for each violation as soon as it is found.
	Out io.Writer
}

// Found is a violation with the shortest chain that leads to it.
type Found struct {
	Seed     uint64
	Result   *Result
	Repeated bool
	After    time.Duration
}

// String is what somebody needs who wants to see it.
func (f Found) String() string {
	v := f.Result.Violations[0]
	again := "it repeats"
	if !f.Repeated {
		again = "it did not happen a second time"
	}
	return fmt.Sprintf("VIOLATION of %q after %s (seed %d; %s)\n%s\nchain: MODEL_CHAIN='%s'\n%s\nlog:\n%s\n",
		v.Oracle, f.After.Round(time.Second), f.Seed, again, v.Detail, f.Result.Chain, Script(f.Result.Chain), strings.Join(f.Result.Log, "\n"))
}

// Summary is what a campaign did.
type Summary struct {
	Chains, Operations, Checks, Refused int
	Found                               []Found
	Pairs                               *Pairs
	Took                                time.Duration
}

// String is the summary as text.
func (s *Summary) String() string {
	return fmt.Sprintf("%d chains, %d operations, %d refused by admission, %d checks, %d violations in %s\n%s",
		s.Chains, s.Operations, s.Refused, s.Checks, len(s.Found), s.Took.Round(time.Second), s.Pairs)
}

// Run runs the campaign.
func (c Campaign) Run(ctx context.Context) (*Summary, error) {
	s := &Summary{Pairs: NewPairs(c.Kinds)}
	began := time.Now()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var mu sync.Mutex
	var wg sync.WaitGroup
	var broken error
	known := map[string]bool{}
	seeds := make(chan uint64)
	for range c.Workers {
		wg.Go(func() {
			for seed := range seeds {
				chain := Generate(rand.New(rand.NewPCG(seed, 0)), c.Kinds, s.Pairs) //nolint:gosec // not a secret
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
				s.Pairs.add(chain.kind, r.Executed)
				isNew := len(r.Violations) > 0 && !known[signature(r)]
				if isNew {
					known[signature(r)] = true
				}
				mu.Unlock()
				if !isNew {
					continue
				}
				f := Found{Seed: seed, Result: r, After: time.Since(began)}
				f.Result, f.Repeated = Shrink(ctx, c.Env, truncated(r), c.Shrinking)
				mu.Lock()
				known[signature(f.Result)] = true
				s.Found = append(s.Found, f)
				_, _ = fmt.Fprintln(c.Out, f)
				mu.Unlock()
				if c.Until {
					stop()
				}
			}
		})
	}
	for seed := c.Seed; time.Since(began) < c.Time && ctx.Err() == nil; seed++ {
		select {
		case seeds <- seed:
		case <-ctx.Done():
		case <-time.After(time.Until(began.Add(c.Time))):
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

// truncated is a result whose chain ends where the violation was found.
func truncated(r *Result) *Result {
	if n := len(r.Executed); n > 0 && r.Violations[0].Oracle != "differential" {
		lastOp := r.Executed[n-1]
		for i := len(r.Chain.steps) - 1; i >= 0; i-- {
			if r.Chain.steps[i].op == lastOp {
				t := *r
				t.Chain.steps = slices.Clone(r.Chain.steps[:i+1])
				return &t
			}
		}
	}
	return r
}

// signature is what tells violations apart before their chains are shrunk.
func signature(r *Result) string {
	return r.Chain.kind + " " + r.Violations[0].Oracle + " " + last(r.Executed)
}
