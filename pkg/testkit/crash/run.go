package crash

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/testkit"
	"github.com/platform-operator/platform-operator/pkg/testkit/wire"
)

// calm is how long there must be no request before a run continues, if the state is
// already the expected one: long enough for events to arrive.
const calm = 200 * time.Millisecond

// run is one scenario with one crash, in a namespace of its own.
type run struct {
	Campaign
	scenario Scenario
	ref      *reference // nil in the runs from which it is learned
	world    World
	parents  []schema.GroupVersionKind
	kinds    []schema.GroupVersionKind // parents and children
	operator *testkit.Operator         // the running one
	wires    []*wire.Wire              // of all operators, in the order of their starts
	armed    int                       // writes before the user's action
	result   *result

	mu    sync.Mutex
	lines []string // the requests, in the order of their responses

	watched  map[id]bool // all objects that the operator has watched
	received time.Time   // since when nothing is on its way to the operator
}

// id refers to an object of the run.
type id struct {
	gvk  schema.GroupVersionKind
	name string
}

func (c Campaign) run(ctx context.Context, s Scenario, at point, ref *reference) (*result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &run{Campaign: c, scenario: s, ref: ref, result: &result{point: at}, watched: map[id]bool{}}
	if err := r.open(ctx); err != nil {
		return nil, err
	}
	defer r.kill()
	return r.result, r.play(ctx)
}

// open creates the namespace.
func (r *run) open(ctx context.Context) error {
	for _, o := range slices.Concat(r.Parents, r.Subject.Children) {
		gvk, err := apiutil.GVKForObject(o, r.Env.Scheme)
		if err != nil {
			return err
		}
		r.kinds = append(r.kinds, gvk)
	}
	r.parents = r.kinds[:len(r.Parents)]
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "crash-"}}
	if err := r.Env.Admin.Create(ctx, ns); err != nil {
		return fmt.Errorf("making a namespace: %w", err)
	}
	r.world = World{Client: r.Env.Admin, Namespace: ns.Name}
	return nil
}

// play executes the run: prepare, act, crash, recover, and perhaps start once more.
func (r *run) play(ctx context.Context) error {
	happened, err := record(ctx, r.Env.Admin, r.kinds, r.world.Namespace)
	if err != nil {
		return err
	}
	if err := r.start(ctx); err != nil {
		return err
	}
	if r.scenario.Prepare != nil {
		if err := r.scenario.Prepare(ctx, r.world); err != nil {
			return fmt.Errorf("preparing: %w", err)
		}
	}
	if err := r.settle(ctx, pathBefore); err != nil {
		return fmt.Errorf("preparing: %w", err)
	}
	r.result.state.before = r.result.state.end
	prepared, err := r.requests(ctx)
	if err != nil {
		return err
	}

	if err := r.disturb(ctx); err != nil {
		return err
	}
	if err := r.settle(ctx, pathEnd); err != nil {
		asked := "liveness"
		if done, _ := r.scenario.Converged(ctx, r.world); done {
			asked = "end state" // users see it converged, and the state is not the expected one
		}
		r.result.find(r.scenario, asked, err.Error())
	}
	r.result.writes = r.wires[0].Sent() - r.armed
	recovered, err := r.requests(ctx)
	if err != nil {
		return err
	}
	end, err := list(ctx, r.Env.Admin, r.kinds, r.world.Namespace)
	if err != nil {
		return err
	}
	r.result.state.end = flatten(end, r.world.Namespace)

	// What a fresh operator does depends on the objects that it finds. If those are the
	// ones that a run without a crash has left, that run has shown what it does.
	all := recovered
	if r.ref == nil || r.diff(pathEnd) != "" {
		if err := r.restart(ctx); err != nil {
			return err
		}
		if err := r.until(ctx, "a fresh operator to be quiet", func(context.Context) (bool, error) { return r.wire().Quiet(r.Quiet), nil }); err != nil {
			r.result.find(r.scenario, "stability", err.Error())
		}
		if all, err = r.requests(ctx); err != nil {
			return err
		}
	}
	if err := r.seen(ctx, happened); err != nil {
		return err
	}
	return r.ask(happened, end, recovered[len(prepared):], all[len(recovered):], all)
}

// disturb executes the user's action and kills the operator at the run's point.
// When it returns, an operator is running that does not know what happened.
func (r *run) disturb(ctx context.Context) error {
	at, operator := r.result.point, r.wire()
	r.armed = operator.Sent()
	switch at.kind {
	case clean:
		return r.act(ctx)
	case down:
		r.kill()
		r.result.reached = true
		if err := r.act(ctx); err != nil {
			return err
		}
		return r.restart(ctx)
	}
	operator.Arm(wire.Fault{Kind: wire.CrashAfter, At: at.write})
	if err := r.act(ctx); err != nil {
		return err
	}
	// It may need fewer writes than the longest of the clean runs.
	err := r.until(ctx, "the crash", func(ctx context.Context) (bool, error) {
		if r.result.reached = operator.IsDead(); r.result.reached {
			return true, nil
		}
		return r.settled(ctx, pathEnd)
	})
	if err != nil {
		return nil //nolint:nilerr // settle, which is next, waits for the same and reports what is wrong
	}
	if r.result.reached {
		return r.restart(ctx)
	}
	return nil
}

func (r *run) act(ctx context.Context) error {
	r.received = time.Time{}
	if err := r.scenario.Act(ctx, r.world); err != nil {
		return fmt.Errorf("acting: %w", err)
	}
	return nil
}

// start starts an operator with empty caches.
func (r *run) start(ctx context.Context) error {
	w, number := wire.New(), len(r.wires)+1
	w.Observe = func(q *http.Request, outcome string) {
		path := strings.TrimPrefix(strings.TrimPrefix(q.URL.Path, "/api/"), "/apis/")
		r.mu.Lock()
		defer r.mu.Unlock()
		r.lines = append(r.lines, fmt.Sprintf("operator %d: %s %s → %s", number, q.Method, strings.Replace(path, "namespaces/"+r.world.Namespace+"/", "", 1), outcome))
	}
	o, err := r.Env.Run(ctx, r.Subject, w.Wrap, r.world.Namespace)
	if err != nil {
		return err
	}
	r.operator, r.wires = o, append(r.wires, w)
	return nil
}

// kill ends the operator like a killed process: from now on none of its requests
// reaches the server. The rest is cleanup, and its errors only report that.
func (r *run) kill() {
	if r.operator == nil {
		return // already killed
	}
	r.wire().Kill()
	_ = r.operator.Stop()
	r.operator = nil
}

// restart replaces the operator, and kills it first if it is still running.
func (r *run) restart(ctx context.Context) error {
	w := r.wire()
	r.kill()
	if err := testkit.Eventually(ctx, "the last answers to the dead operator", func(context.Context) (bool, error) { return w.Quiet(0), nil }); err != nil {
		return err
	}
	return r.start(ctx)
}

func (r *run) wire() *wire.Wire { return r.wires[len(r.wires)-1] }

// until is Eventually with the time limit of the campaign.
func (r *run) until(ctx context.Context, what string, ok func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, r.Within)
	defer cancel()
	return testkit.Eventually(ctx, what, ok)
}

// settle waits until the operator is done.
func (r *run) settle(ctx context.Context, phase string) error {
	err := r.until(ctx, "the operator to be done", func(ctx context.Context) (bool, error) { return r.settled(ctx, phase) })
	if err == nil || r.ref == nil {
		return err
	}
	return fmt.Errorf("%w; the state (-without the injected fault +now):\n%s", err, r.diff(phase))
}

// settled reports whether the operator is done: it is idle, users see that it has
// converged and, once the end state is known, that is reached.
func (r *run) settled(ctx context.Context, phase string) (bool, error) {
	long := calm
	if r.ref == nil || len(r.scenario.ReadAgain) > 0 {
		// Nothing else shows that no write is postponed, or that a new operator has
		// read what it may read once.
		long = r.Quiet
	}
	if !r.wire().Quiet(long) {
		return false, nil
	}
	if phase == pathEnd {
		if ok, err := r.scenario.Converged(ctx, r.world); !ok || err != nil {
			return false, err
		}
	}
	items, err := list(ctx, r.Env.Admin, r.kinds, r.world.Namespace)
	if err != nil {
		return false, err
	}
	r.result.state.end = flatten(items, r.world.Namespace)
	if received, err := r.hasReceived(ctx, items); !received || err != nil {
		r.received = time.Time{}
		return false, err
	}
	if r.received.IsZero() {
		r.received = time.Now()
	}
	if time.Since(r.received) < long { // the event that was received last may still be handled
		return false, nil
	}
	if child := r.uncollected(items); child != "" {
		return false, fmt.Errorf("the garbage collector has not deleted %s", child)
	}
	return r.ref == nil || r.diff(phase) == "", nil
}

// hasReceived reports whether the operator has received the latest events of its
// objects.
func (r *run) hasReceived(ctx context.Context, items []unstructured.Unstructured) (bool, error) {
	live := map[id]client.Object{}
	for _, u := range items {
		is := id{u.GroupVersionKind(), u.GetName()}
		live[is] = &u
		if naming.IsLabelled(&u) || slices.Contains(r.parents, is.gvk) {
			r.watched[is] = true
		}
	}
	for is := range r.watched {
		o := live[is]
		if o == nil {
			o = &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: r.world.Namespace, Name: is.name}}
		}
		if ok, err := r.operator.Received(ctx, is.gvk, o); !ok || err != nil {
			return false, err
		}
	}
	return true, nil
}

// uncollected returns the name of a child whose owner does not exist, or "".
func (r *run) uncollected(items []unstructured.Unstructured) string {
	isParent := func(kind string) bool {
		return slices.ContainsFunc(r.parents, func(p schema.GroupVersionKind) bool { return p.Kind == kind })
	}
	for _, u := range items {
		owner := metav1.GetControllerOf(&u)
		if owner != nil && isParent(owner.Kind) && !slices.ContainsFunc(items, func(o unstructured.Unstructured) bool { return o.GetUID() == owner.UID }) {
			return u.GetKind() + " " + u.GetName()
		}
	}
	return ""
}

// diff compares a phase of the state with that of the reference.
func (r *run) diff(phase string) string {
	s := r.result.state
	if phase == pathBefore {
		s = state{before: s.end}
	}
	return cmp.Diff(under(r.ref.view, phase), under(r.ref.mask.view(s), phase))
}

// requests returns all requests of the operators from the audit log. The server
// logs a request after it has responded, so that the response may arrive before it
// is logged.
func (r *run) requests(ctx context.Context) ([]testkit.Request, error) {
	answered := 0
	for _, w := range r.wires {
		answered += len(w.Done())
	}
	var rs []testkit.Request
	err := testkit.Eventually(ctx, "the audit log to be complete", func(ctx context.Context) (bool, error) {
		var err error
		if rs, err = r.Env.Audit.Requests(ctx, r.world.Namespace); err != nil {
			return false, err
		}
		n := 0
		for _, q := range rs {
			if q.IsWrite() {
				n++
			}
		}
		if n < answered {
			return false, fmt.Errorf("%d of %d writes are logged", n, answered)
		}
		return true, nil
	})
	return rs, err
}

// seen waits until the watches have caught up with the objects. These may still change:
// an operator need not be done at the end of its run.
func (r *run) seen(ctx context.Context, h *history) error {
	return testkit.Eventually(ctx, "the watches to have seen everything", func(ctx context.Context) (bool, error) {
		items, err := list(ctx, r.Env.Admin, r.kinds, r.world.Namespace)
		if err != nil {
			return false, err
		}
		return h.shows(items)
	})
}

// ask runs the checks of the campaign on a run that has ended.
func (r *run) ask(h *history, end []unstructured.Unstructured, recovery, restart, all []testkit.Request) error {
	r.result.tally = tallies(recovery)
	find := func(asked string, details []string) {
		for _, d := range details {
			r.result.find(r.scenario, asked, d)
		}
	}
	if r.ref != nil {
		find("writes", compareTallies(r.ref.tally, fold(r.result.tally, r.ref.loose), spareUpdates))
	}
	if d := r.result.state.end; r.ref != nil && len(r.result.findings) == 0 && d != nil {
		if diff := r.diff(pathEnd); diff != "" {
			find("end state", []string{"(-without the injected fault +now):\n" + diff})
		}
	}
	find("stability", needless(restart, r.scenario.ReadAgain))
	find("deletes", unfenced(all))
	owners, err := r.unowned(end, all)
	if err != nil {
		return err
	}
	find("ownership", owners)
	find("status", r.checkStatus(h))
	find("ownership", checkOwners(h, r.Env.Scheme))
	if len(r.result.findings) > 0 {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.result.history = fmt.Sprintf("%s/%s: crashed %v; requests:\n%s", r.scenario.Name, r.result.point, r.result.reached, strings.Join(r.lines, "\n"))
	}
	return nil
}

// created reports whether a request created an object, by POST or by applying an
// object that did not exist.
func created(q testkit.Request) bool { return q.Code == http.StatusCreated }
