package model

import (
	"context"
	"fmt"
	"io"
	"regexp"
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
	// Without are the names of operations that are not used, and of oracles that
	// are not checked: known defects would hide unknown ones.
	Without []string
	// Out receives each violation as soon as it is found, and a line of progress each
	// minute.
	Out io.Writer
}

// Found is a violation with the shortest chain that leads to it.
type Found struct {
	Seed     uint64
	Result   *Result
	Repeated bool
	// After and Operations are what the campaign needed to find it.
	After      time.Duration
	Operations int
}

// String returns everything that is needed to reproduce the violation.
func (f Found) String() string {
	v := f.Result.Violations[0]
	again := "it repeats"
	if !f.Repeated {
		again = "it did not happen a second time"
	}
	return fmt.Sprintf("VIOLATION of %q after %s and %d operations (seed %d; %s)\n%s\nchain: MODEL_CHAIN='%s'\nlog:\n%s\n",
		v.Oracle, f.After.Round(time.Second), f.Operations, f.Seed, again, v.Detail, f.Result.Chain, strings.Join(f.Result.Log, "\n"))
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
	known := signatures{}
	seeds := make(chan uint64)
	for range c.Workers {
		wg.Go(func() {
			for seed := range seeds {
				chain := Generate(seed, c.Kinds, c.Without)
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
				isNew := len(r.Violations) > 0 && !slices.Contains(c.Without, r.Violations[0].Oracle) && known.isNew(r)
				f := Found{Seed: seed, Result: r, After: time.Since(began), Operations: s.Operations}
				mu.Unlock()
				if !isNew {
					continue
				}
				f.Result, f.Repeated = Shrink(ctx, c.Env, truncated(r), c.Shrinking)
				mu.Lock()
				_ = known.isNew(f.Result)
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

// signatures count violations that read the same, and those with the same last
// operation.
type signatures map[string]int

// anyName matches the text that differs between two violations of the same kind.
var anyName = regexp.MustCompile(`[a-z]+:[a-z0-9.]+|[0-9]+|"[^"]*"`)

// isNew reports whether a violation differs from all that were found before. At
// most three that read the same are considered different.
func (s signatures) isNew(r *Result) bool {
	v := r.Violations[0]
	reads, ends := v.Oracle+anyName.ReplaceAllString(v.Detail, ""), r.Chain.kind+v.Oracle+last(r.Executed)
	s[reads]++
	s[ends]++
	return s[reads] <= 3 && s[ends] == 1
}
