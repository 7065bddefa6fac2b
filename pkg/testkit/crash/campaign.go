// Package crash kills an operator at each of its writes, and checks
// that the next one completes what it left. It is independent of kinds.
package crash

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/pkg/testkit"
)

// A Campaign crashes the operator at every write.
//
// For each scenario it learns from runs without a crash which objects exist at the
// end, which of their fields differ between runs, and how many writes the scenario
// needs. Then it repeats the scenario, and kills the operator before the first and after
// each of those writes, starts a new one, and checks the following in every run (a crash
// before the next write finds what one after the last has left):
//
//	end state    every field of every object is the same as without the crash
//	writes       each object is created and deleted as often as without it
//	stability    one more new operator writes nothing, and reads only by lists; after a
//	             crash only if the end state is another one
//	status       at every instant, Ready is True only if the generation that it
//	             describes is serving; observedGeneration never decreases
//	ownership    at every instant, an object that the operator created has an
//	             owner; at the end, that owner exists
//	deletes      have the UID of the object as a precondition
//	liveness     all of this within a time limit
//
// The last five are checked in the runs without a crash too: a bug that occurs in
// every run is not visible in a comparison.
type Campaign struct {
	Env     *testkit.Env
	Subject testkit.Subject
	// Parents are empty objects of the types that users create. Objects of these
	// types and of Subject.Children are compared; other objects that the operator
	// writes are visible in the number of writes.
	Parents []client.Object
	// Serves returns an error if the children of a parent do not match its spec or
	// are not rolled out. It must not read the status of the parent.
	Serves    func(context.Context, client.Reader, client.Object) error
	Scenarios []Scenario

	// Quiet must be longer than the operator postpones any write; 0 means 1.2 s.
	Quiet time.Duration
	// Within is the time within which the operator must finish after its restart; 0
	// means 2 minutes, which is for a busy machine: on an idle one it takes a second
	// or two.
	Within time.Duration
	// Parallel is how many runs are executed at the same time, each in a namespace
	// of its own; 0 means 12, because runs mostly wait.
	Parallel int
}

// Scenario is one action of a user.
type Scenario struct {
	Name string
	// Prepare creates the initial objects, and returns when the running operator
	// has reconciled them. It may be nil.
	Prepare func(context.Context, World) error
	// Act is the action of the user. It must not wait for the operator, which may
	// not be running.
	Act func(context.Context, World) error
	// Converged reports whether the operator is done, as far as users can see.
	Converged func(context.Context, World) (bool, error)
	// Orphans says that children without an owner may exist at the end.
	Orphans bool
	// ReadAgain are resources of which a new operator reads each relevant object
	// once, because nothing that it stores contains their content.
	ReadAgain []string
}

// World is the environment of a scenario.
type World struct {
	// Client has all permissions.
	Client client.WithWatch
	// Namespace is the namespace of the run.
	Namespace string
}

// Create creates an object in the namespace.
func (w World) Create(ctx context.Context, o client.Object) error {
	o.SetNamespace(w.Namespace)
	return w.Client.Create(ctx, o)
}

// Get reads an object in the namespace.
func (w World) Get(ctx context.Context, name string, into client.Object) error {
	return w.Client.Get(ctx, client.ObjectKey{Namespace: w.Namespace, Name: name}, into)
}

// Edit changes an object like kubectl edit.
func (w World) Edit(ctx context.Context, name string, into client.Object, change func()) error {
	if err := w.Get(ctx, name, into); err != nil {
		return err
	}
	before := into.DeepCopyObject().(client.Object)
	change()
	return w.Client.Patch(ctx, into, client.MergeFrom(before), client.FieldOwner("kubectl-edit"))
}

// Finding is a deviation of a run from what is required.
type Finding struct {
	Scenario string
	Point    string // such as "after-2", or "clean-1" in a run without a crash
	Asked    string // which of the campaign's checks
	Detail   string
}

// String returns the finding as a paragraph.
func (f Finding) String() string {
	return fmt.Sprintf("%s/%s: %s: %s", f.Scenario, f.Point, f.Asked, f.Detail)
}

// point is when the operator crashes.
type point struct {
	kind  pointKind
	write int
}

type pointKind string

const (
	clean pointKind = "clean"      // never
	down  pointKind = "while-down" // before the user's change
	after pointKind = "after"      // when the server has executed it and before the operator knows
)

// cleanRuns is how many runs a reference is learned from.
const cleanRuns = 3

func (p point) String() string {
	if p.kind == down {
		return string(p.kind)
	}
	return fmt.Sprintf("%s-%d", p.kind, p.write)
}

// points returns all points of a scenario with that many writes. Points after the
// last write of a run are cheap, and are counted separately.
func points(writes int) []point {
	ps := []point{{kind: down}}
	for i := 1; i <= writes; i++ {
		ps = append(ps, point{after, i})
	}
	return ps
}

// reference is what the runs of a scenario without a crash have in common.
type reference struct {
	mask   mask
	view   map[string]string
	tally  map[string]writeCounts
	loose  map[string]bool // resources that are counted together
	writes int             // the maximum of all runs
	runs   []*result
}

// result is the outcome of a run.
type result struct {
	point    point
	state    state
	tally    map[string]writeCounts
	writes   int
	reached  bool // the crash happened
	findings []Finding
	history  string // for people: where it crashed, and what was requested
}

// Test runs the campaign, with a subtest for each scenario and, below that, for
// each point, so that -run 'TestCrash/create/after-2' repeats one of them.
func (c Campaign) Test(t *testing.T) {
	t.Helper()
	p := newPool(c)
	for _, s := range c.Scenarios {
		t.Run(s.Name, func(t *testing.T) {
			// What runs before Parallel is limited by the pool, not by the number
			// of processors, because runs mostly wait.
			learnt := p.learn(t.Context(), s)
			t.Parallel()
			ref, err := learnt()
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range ref.runs {
				report(t, r)
			}
			t.Logf("%d writes; %d paths of the state vary, %d are not compared", ref.writes, len(ref.mask.varies), len(ref.mask.blind))
			for _, at := range points(ref.writes) {
				t.Run(at.String(), func(t *testing.T) {
					done := p.run(t.Context(), s, at, ref)
					t.Parallel()
					r, err := done()
					if err != nil {
						t.Fatal(err)
					}
					report(t, r)
				})
			}
		})
	}
}

func report(t *testing.T, r *result) {
	t.Helper()
	for _, f := range r.findings {
		t.Error(f)
	}
	if len(r.findings) > 0 {
		t.Log(r.history)
	}
}

// pool limits how many runs are executed at the same time.
type pool struct {
	campaign Campaign
	places   chan struct{}
}

func newPool(c Campaign) *pool {
	c.Quiet = cmp.Or(c.Quiet, 1200*time.Millisecond)
	c.Within = cmp.Or(c.Within, 2*time.Minute)
	c.Parallel = cmp.Or(c.Parallel, 12)
	return &pool{campaign: c, places: make(chan struct{}, c.Parallel)}
}

// run starts a run, and returns a function that waits for its result.
func (p *pool) run(ctx context.Context, s Scenario, at point, ref *reference) func() (*result, error) {
	type outcome struct {
		*result
		error
	}
	done := make(chan outcome, 1)
	go func() {
		select {
		case p.places <- struct{}{}:
		case <-ctx.Done():
			done <- outcome{nil, context.Cause(ctx)}
			return
		}
		defer func() { <-p.places }()
		r, err := p.campaign.run(ctx, s, at, ref)
		if err != nil {
			err = fmt.Errorf("%s/%s: %w", s.Name, at, err)
		}
		done <- outcome{r, err}
	}()
	return func() (*result, error) { o := <-done; return o.result, o.error }
}

// learn starts the runs without a crash, and returns a function that waits for the
// reference that they result in.
func (p *pool) learn(ctx context.Context, s Scenario) func() (*reference, error) {
	var runs []func() (*result, error)
	for i := range cleanRuns {
		runs = append(runs, p.run(ctx, s, point{clean, i + 1}, nil))
	}
	return func() (*reference, error) {
		ref := &reference{}
		var states []state
		var errs []error
		for _, done := range runs {
			r, err := done()
			if err != nil {
				errs = append(errs, err)
				continue
			}
			ref.runs = append(ref.runs, r)
			ref.writes = max(ref.writes, r.writes)
			states = append(states, r.state)
		}
		if len(errs) > 0 {
			return nil, errors.Join(errs...)
		}
		ref.mask = learn(states)
		ref.view = ref.mask.view(states[0])
		ref.loose = loose(ref.runs)
		ref.tally = fold(ref.runs[0].tally, ref.loose)
		for _, r := range ref.runs[1:] {
			of := fold(r.tally, ref.loose)
			for _, wrong := range compareTallies(ref.tally, of, 0) {
				r.find(s, "writes", "two runs without an injected fault differ: "+wrong)
			}
			ref.tally = most(ref.tally, of)
		}
		return ref, nil
	}
}

func (r *result) find(s Scenario, asked, detail string) {
	r.findings = append(r.findings, Finding{Scenario: s.Name, Point: r.point.String(), Asked: asked, Detail: detail})
}
