package model

import (
	"context"
	"slices"
	"time"

	"github.com/platform-operator/platform-operator/pkg/testkit"
)

// attempts is how often the chain of a violation is repeated until the violation
// happens again.
const attempts = 3

// Shrink returns the shortest chain that it finds within a time limit and that
// violates the same oracle as r. It removes smaller and smaller parts (ddmin), and
// then lets the operator settle between operations. A chain is a list of names, so
// there is nothing else to shrink. It runs r's chain several times until the violation
// happens again, because some depend on the timing.
func Shrink(ctx context.Context, env *testkit.Env, r *Result, limit time.Duration) *Result {
	oracle, end := r.Violations[0].Oracle, time.Now().Add(limit)
	shortest := r
	fails := func(steps []step) bool {
		if time.Now().After(end) || ctx.Err() != nil {
			return false
		}
		got, err := Run(ctx, env, Chain{kind: r.Chain.kind, steps: steps})
		if err != nil || !slices.ContainsFunc(got.Violations, func(v Violation) bool { return v.Oracle == oracle }) {
			return false
		}
		shortest, shortest.Repeated = got, true
		return true
	}
	steps := r.Chain.steps
	for attempt := 1; !fails(steps); attempt++ {
		if attempt == attempts {
			return r
		}
	}
	for size := (len(steps) + 1) / 2; size >= 1; size /= 2 {
		for at := 0; at < len(steps); {
			without := slices.Concat(steps[:at], steps[min(len(steps), at+size):])
			if len(without) > 0 && fails(without) {
				steps = without
			} else {
				at += size
			}
		}
	}
	for i, s := range steps {
		if s.pace == paceSettle || opNamed(s.op).Fault {
			continue
		}
		calm := slices.Clone(steps)
		calm[i].pace = paceSettle
		if fails(calm) {
			steps = calm
		}
	}
	return shortest
}
