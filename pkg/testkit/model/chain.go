package model

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/platform-operator/platform-operator/pkg/testkit"
)

// pace is what happens between an operation and the next one.
type pace string

const (
	paceSettle pace = ""  // everything settles, and is compared with the model
	paceIdle   pace = "~" // the operator becomes idle, and the cluster does not move
	paceNow    pace = "!" // the next operation follows immediately
)

// step is an operation of a chain.
type step struct {
	op   string
	pace pace
}

// Chain is a list of operations on an object of one kind.
type Chain struct {
	kind  *Kind
	steps []step
}

// String returns the chain as text, which ParseChain reads: the names of the
// operations, each followed by "!" if the next one follows immediately, and by "~"
// if the operator becomes idle in between but the cluster does not move.
func (c Chain) String() string {
	words := []string{c.kind.Name + ":"}
	for _, s := range c.steps {
		words = append(words, s.op+string(s.pace))
	}
	return strings.Join(words, " ")
}

// ParseChain parses the output of String.
func ParseChain(s string) (Chain, error) {
	words := strings.Fields(s)
	if len(words) == 0 || !strings.HasSuffix(words[0], ":") {
		return Chain{}, fmt.Errorf("a chain begins with its kind and a colon: %q", s)
	}
	kind, err := kindNamed(strings.TrimSuffix(words[0], ":"))
	if err != nil {
		return Chain{}, err
	}
	c := Chain{kind: kind}
	for _, word := range words[1:] {
		name := strings.TrimRight(word, "!~")
		if o := opNamed(name); o == nil || !o.For(kind) {
			return c, fmt.Errorf("there is no operation %q for a %s", name, kind.Name)
		}
		c.steps = append(c.steps, step{name, pace(word[len(name):])})
	}
	return c, nil
}

func opNamed(name string) *Op {
	all := catalogue()
	if i := slices.IndexFunc(all, func(o Op) bool { return o.Name == name }); i >= 0 {
		return &all[i]
	}
	return nil
}

// Result is the outcome of a chain.
type Result struct {
	Chain      Chain
	Executed   []string // operations that applied
	Checks     int
	Violations []Violation
	Log        []string
	// Seed is that of the chain, and Repeated reports whether the violation happened again.
	Seed     uint64
	Repeated bool
}

// String returns everything that is needed to reproduce the violation.
func (r *Result) String() string {
	again := "it did not happen a second time"
	if r.Repeated {
		again = "it repeats"
	}
	v := r.Violations[0]
	return fmt.Sprintf("VIOLATION of %q (seed %d; %s)\n%s\nchain: MODEL_CHAIN='%s'\nlog:\n%s\n", v.Oracle, r.Seed, again, v.Detail, r.Chain, strings.Join(r.Log, "\n"))
}

// Run executes a chain in a namespace of its own, until the first violation.
func Run(ctx context.Context, env *testkit.Env, c Chain) (*Result, error) {
	w, err := newWorld(ctx, env, c.kind)
	if err != nil {
		return nil, err
	}
	defer w.close(context.WithoutCancel(ctx))
	r := &Result{Chain: c}
	err = w.play(ctx, c, r)
	r.Checks, r.Violations, r.Log = w.checks, w.found, w.log
	if err != nil {
		return r, fmt.Errorf("%w; after:\n%s", err, strings.Join(w.log, "\n"))
	}
	return r, nil
}

func (w *World) play(ctx context.Context, c Chain, r *Result) error {
	for i, s := range c.steps {
		o := opNamed(s.op)
		if !w.exists && !o.Early {
			continue
		}
		switch err := w.execute(ctx, *o); {
		case errors.Is(err, errSkip):
			w.logf("%s: does not apply", s.op)
		case err != nil:
			return fmt.Errorf("%s: %w", s.op, err)
		default:
			r.Executed = append(r.Executed, s.op)
		}
		if len(w.found) > 0 {
			return nil
		}
		pc := s.pace
		if i == len(c.steps)-1 {
			pc = paceSettle
		}
		if err := w.pause(ctx, pc); err != nil || len(w.found) > 0 {
			return err
		}
	}
	return w.compareWithFresh(ctx)
}

func (w *World) execute(ctx context.Context, o Op) error {
	w.logf("%s", o.Name)
	if o.Touches {
		w.memory.touched = true
	}
	if o.Scales {
		w.memory.floor = 0
	}
	return o.do(ctx, w)
}

// pause does what follows an operation.
func (w *World) pause(ctx context.Context, p pace) error {
	switch p {
	case paceNow:
		return nil
	case paceIdle:
		return w.idle(ctx)
	case paceSettle:
	}
	if err := w.settle(ctx); err != nil || len(w.found) > 0 {
		return err
	}
	w.wire.Disarm()
	return w.check(ctx)
}
