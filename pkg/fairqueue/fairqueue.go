// Package fairqueue contains the work queue of the controllers. It implements
// controller-runtime's priority queue and differs from it in four ways:
//
//   - Requests have one of four classes. A class is served before the lower
//     ones, but none is starved: see patience.
//   - Within a class, namespaces take turns, so that the wait of a user does not
//     depend on how many objects another namespace changed at once.
//   - A namespace cannot occupy all workers: see Options.GroupLimit.
//   - An item that is added all the time cannot occupy a worker: see Share.
package fairqueue

import (
	"container/heap"
	"container/list"
	"maps"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

// The priorities of the classes. A priority between two of them belongs to the
// lower one.
const (
	// PriorityEdit is the priority of objects that a user changed or deleted.
	PriorityEdit = 20
	// PriorityEvent is the priority of objects whose children changed, which
	// often completes what a user is waiting for.
	PriorityEvent = 10
	// PriorityDefault is the priority of new objects, and the highest priority
	// of retries.
	PriorityDefault = 0
	// PriorityBackground is the priority of objects for which nothing changed:
	// those of the initial lists and of a resync.
	PriorityBackground = handler.LowPriority
)

const classes = 4

var priorities = [classes]int{PriorityEdit, PriorityEvent, PriorityDefault, PriorityBackground}

// patience is how many requests of other classes are served before one of a
// class that could have been served too. So at least one of five requests is an
// event, one of five is a new object, and one of 17 is of the background.
var patience = [classes]int{0, 4, 4, 16}

// classOf returns the index of the class of a priority.
func classOf(priority int) int {
	for c, p := range priorities {
		if priority >= p {
			return c
		}
	}
	return classes - 1
}

// Options configure a queue.
type Options[T comparable] struct {
	// Group returns the group of an item, such as its namespace. If it is nil,
	// all items are in one group.
	Group func(T) string
	// GroupLimit is the maximum number of items of one group that are processed
	// concurrently. If it is less than the number of workers, no group can
	// occupy all of them. 0 means no limit.
	GroupLimit int
	// Share is how much of the time of a worker one item may take.
	Share Share
	// RateLimiter returns the delays of AddRateLimited. It is required.
	RateLimiter workqueue.TypedRateLimiter[T]
}

// Share limits how much time is spent on one item. The next time an item is
// processed is delayed as long as its share is used up; additions meanwhile become
// one. The zero value means no limit.
type Share struct {
	// Fraction of the time of a worker that an item may take in the long run, less
	// than 1.
	Fraction float64
	// Burst is the processing time after which an item is delayed for the first time.
	Burst time.Duration
	// MaxDelay limits the delay, so that an item is not punished for a slow API
	// server.
	MaxDelay time.Duration
}

// Queue is a work queue. An item that is added several times before it is
// processed is processed once; an item that is added while it is processed is
// processed again afterwards, and never concurrently.
type Queue[T comparable] struct {
	options Options[T]
	metrics *queueMetrics
	now     func() time.Time

	mu       sync.Mutex
	wake     sync.Cond
	down     bool
	items    map[T]*item[T]       // all that wait, whether ready or delayed
	running  map[T]*run[T]        // those that were returned by Get, until Done
	groups   map[string]*group[T] // those with items that are ready or running
	turns    [classes]list.List   // of *lane: groups with ready items, in turn
	skipped  [classes]int         // requests of other classes served meanwhile
	delayed  delayed[T]
	spent    map[T]spent // of recent items, as long as it counts
	sweepAt  int         // the size of spent at which what no longer counts is removed
	timer    *time.Timer
	ready    int
	watching bool // whether the metrics of running items are being updated
}

// item is a key that waits to be processed.
type item[T comparable] struct {
	key   T
	class int
	// at is when a delayed item becomes ready. index is its position in the
	// heap, and -1 if it is not delayed.
	at    time.Time
	index int
	// since is when the item became ready. in and element are its place, and
	// nil while its key is being processed.
	since   time.Time
	in      *lane[T]
	element *list.Element
}

// run is a key that is being processed.
type run[T comparable] struct {
	since time.Time
	group *group[T]
	again *item[T] // the item that was added meanwhile and is ready
}

// group contains the items of one group that are ready or running.
type group[T comparable] struct {
	name    string
	running int
	lanes   [classes]lane[T]
}

// lane contains the ready items of one group and class, in order of arrival.
// turn is its place in Queue.turns, and nil if it is empty.
type lane[T comparable] struct {
	group *group[T]
	class int
	items list.List
	turn  *list.Element
}

var _ priorityqueue.PriorityQueue[string] = (*Queue[string])(nil)

// New returns a queue. Its metrics are those of controller-runtime, with the
// given name.
func New[T comparable](name string, o Options[T]) *Queue[T] {
	if o.Group == nil {
		o.Group = func(T) string { return "" }
	}
	q := &Queue[T]{
		options: o, metrics: newQueueMetrics(name), now: time.Now,
		items: map[T]*item[T]{}, running: map[T]*run[T]{}, groups: map[string]*group[T]{},
		spent: map[T]spent{}, sweepAt: minSweep,
	}
	q.wake.L = &q.mu
	return q
}

// Add adds an item with PriorityDefault.
func (q *Queue[T]) Add(key T) { q.AddWithOpts(priorityqueue.AddOpts{}, key) }

// AddAfter adds an item after a delay.
func (q *Queue[T]) AddAfter(key T, after time.Duration) {
	q.AddWithOpts(priorityqueue.AddOpts{After: after}, key)
}

// AddRateLimited adds an item after the delay that the rate limiter returns.
func (q *Queue[T]) AddRateLimited(key T) {
	q.AddWithOpts(priorityqueue.AddOpts{RateLimited: true}, key)
}

// AddWithOpts adds items. An item that waits already keeps the shorter delay
// and the higher class.
func (q *Queue[T]) AddWithOpts(o priorityqueue.AddOpts, keys ...T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, key := range keys {
		if q.down {
			return
		}
		after := o.After
		if o.RateLimited {
			if d := q.options.RateLimiter.When(key); after <= 0 || d < after {
				after = d
			}
		}
		q.add(key, classOf(ptr.Deref(o.Priority, PriorityDefault)), after)
	}
}

func (q *Queue[T]) add(key T, class int, after time.Duration) {
	if after > 0 {
		q.metrics.retry()
		// Of a retry, the first attempt was served with the priority of the
		// event. An object that fails forever must not delay users' edits.
		class = max(class, classOf(PriorityDefault))
	}
	after = max(after, q.pause(key))
	it := q.items[key]
	if it == nil {
		it = &item[T]{key: key, class: class, index: -1}
		q.items[key] = it
		if after > 0 {
			q.delay(it, after)
			return
		}
		q.makeReady(it)
		return
	}
	if it.index < 0 { // ready
		q.raise(it, class)
		return
	}
	it.class = min(it.class, class)
	if after > 0 {
		if at := q.now().Add(after); at.Before(it.at) {
			it.at = at
			heap.Fix(&q.delayed, it.index)
			q.arm()
		}
		return
	}
	heap.Remove(&q.delayed, it.index)
	q.arm()
	q.makeReady(it)
}

// delay makes an item ready later.
func (q *Queue[T]) delay(it *item[T], after time.Duration) {
	it.at = q.now().Add(after)
	heap.Push(&q.delayed, it)
	q.arm()
}

// makeReady puts an item that is not delayed into its lane, or sets it aside
// until its key is no longer being processed.
func (q *Queue[T]) makeReady(it *item[T]) {
	it.since = q.now()
	q.ready++
	q.metrics.add(it.class)
	if r := q.running[it.key]; r != nil {
		r.again = it
		return
	}
	q.place(it)
}

func (q *Queue[T]) place(it *item[T]) {
	name := q.options.Group(it.key)
	g := q.groups[name]
	if g == nil {
		g = &group[T]{name: name}
		for c := range g.lanes {
			g.lanes[c].group, g.lanes[c].class = g, c
		}
		q.groups[name] = g
	}
	it.in = &g.lanes[it.class]
	it.element = it.in.items.PushBack(it)
	if it.in.turn == nil {
		it.in.turn = q.turns[it.class].PushBack(it.in)
	}
	q.wake.Signal()
}

// raise moves a ready item to a higher class, after the items that are already
// in it.
func (q *Queue[T]) raise(it *item[T], class int) {
	if class >= it.class {
		return
	}
	q.metrics.move(it.class, class)
	if it.in == nil {
		it.class = class
		return
	}
	q.take(it)
	it.class = class
	q.place(it)
}

// take removes a ready item from its lane.
func (q *Queue[T]) take(it *item[T]) {
	l := it.in
	l.items.Remove(it.element)
	it.in, it.element = nil, nil
	if l.items.Len() == 0 {
		q.turns[l.class].Remove(l.turn)
		l.turn = nil
	}
}

// Get returns the next item, and blocks until there is one or the queue is shut
// down. Done must be called with the item after it was processed.
func (q *Queue[T]) Get() (T, bool) {
	key, _, down := q.GetWithPriority()
	return key, down
}

// GetWithPriority is Get, and returns the priority of the item's class too.
func (q *Queue[T]) GetWithPriority() (T, int, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		if q.down {
			var none T
			return none, 0, true
		}
		if l := q.next(); l != nil {
			it := q.start(l)
			return it.key, priorities[it.class], false
		}
		q.wake.Wait()
	}
}

// next returns the lane that is served next, or nil if no item can be
// processed now.
func (q *Queue[T]) next() *lane[T] {
	var can [classes]*lane[T]
	var chosen *lane[T]
	overdue := false
	for c := range can {
		if q.turns[c].Len() == 0 {
			q.skipped[c] = 0
			continue
		}
		if can[c] = q.inTurn(c); can[c] == nil {
			continue
		}
		if late := c > 0 && q.skipped[c] >= patience[c]; chosen == nil || late && !overdue {
			chosen, overdue = can[c], late
		}
	}
	for c, l := range can {
		switch l {
		case nil:
		case chosen:
			q.skipped[c] = 0
		default:
			q.skipped[c]++
		}
	}
	return chosen
}

// inTurn returns the lane of a class whose group has the fewest running items;
// of several, the one that has waited for its turn longest. It returns nil if
// all groups have reached the limit. No more groups have running items than
// there are workers, so the search is short however many groups there are.
func (q *Queue[T]) inTurn(class int) *lane[T] {
	var best *lane[T]
	for e := q.turns[class].Front(); e != nil; e = e.Next() {
		l := e.Value.(*lane[T])
		if q.options.GroupLimit > 0 && l.group.running >= q.options.GroupLimit {
			continue
		}
		if best == nil || l.group.running < best.group.running {
			best = l
		}
		if best.group.running == 0 {
			break
		}
	}
	return best
}

// start takes the first item of a lane for processing.
func (q *Queue[T]) start(l *lane[T]) *item[T] {
	it := l.items.Front().Value.(*item[T])
	q.take(it)
	if l.turn != nil {
		q.turns[l.class].MoveToBack(l.turn)
	}
	l.group.running++
	delete(q.items, it.key)
	now := q.now()
	q.running[it.key] = &run[T]{since: now, group: l.group}
	q.ready--
	q.metrics.get(it.class, now.Sub(it.since))
	q.watch()
	return it
}

// Done reports that an item that Get returned was processed.
func (q *Queue[T]) Done(key T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	r := q.running[key]
	if r == nil {
		return
	}
	delete(q.running, key)
	took := q.now().Sub(r.since)
	q.metrics.done(took)
	q.charge(key, took)
	g := r.group
	g.running--
	if again := r.again; again != nil {
		if after := q.pause(key); after > 0 {
			q.ready--
			q.metrics.postpone(again.class)
			q.delay(again, after)
		} else {
			q.place(again)
		}
	}
	if g.running == 0 && g.isEmpty() {
		delete(q.groups, g.name)
	}
	q.wake.Signal() // the group may have been at its limit
}

func (g *group[T]) isEmpty() bool {
	for c := range g.lanes {
		if g.lanes[c].items.Len() > 0 {
			return false
		}
	}
	return true
}

// spent is the processing time that counts towards the share of an item, as of a
// time. It decreases with Share.Fraction.
type spent struct {
	busy time.Duration
	at   time.Time
}

func (s spent) now(now time.Time, fraction float64) time.Duration {
	return max(0, s.busy-time.Duration(float64(now.Sub(s.at))*fraction))
}

// minSweep avoids that a small map is searched often.
const minSweep = 64

// charge adds processing time to what an item has spent of its share.
func (q *Queue[T]) charge(key T, took time.Duration) {
	s := q.options.Share
	if s.Fraction <= 0 {
		return
	}
	now := q.now()
	most := s.Burst + time.Duration(float64(s.MaxDelay)*s.Fraction)
	q.spent[key] = spent{min(most, q.spent[key].now(now, s.Fraction)+took), now}
	if len(q.spent) < q.sweepAt {
		return
	}
	maps.DeleteFunc(q.spent, func(_ T, v spent) bool { return v.now(now, s.Fraction) == 0 })
	q.sweepAt = max(minSweep, 2*len(q.spent))
}

// pause returns how long an item has to wait because its share is used up.
func (q *Queue[T]) pause(key T) time.Duration {
	spent, ok := q.spent[key]
	if !ok {
		return 0
	}
	s := q.options.Share
	over := spent.now(q.now(), s.Fraction) - s.Burst
	return max(0, time.Duration(float64(over)/s.Fraction))
}

// arm sets the timer to the time at which the next delayed item becomes ready.
func (q *Queue[T]) arm() {
	if len(q.delayed) == 0 {
		if q.timer != nil {
			q.timer.Stop()
		}
		return
	}
	after := q.delayed[0].at.Sub(q.now())
	if q.timer == nil {
		q.timer = time.AfterFunc(after, q.release)
		return
	}
	q.timer.Reset(after)
}

// release makes the delayed items ready whose time has come.
func (q *Queue[T]) release() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.down {
		return
	}
	now := q.now()
	for len(q.delayed) > 0 && !q.delayed[0].at.After(now) {
		q.makeReady(heap.Pop(&q.delayed).(*item[T]))
	}
	q.arm()
}

// Forget resets the delay of AddRateLimited for an item.
func (q *Queue[T]) Forget(key T) { q.options.RateLimiter.Forget(key) }

// NumRequeues returns how often an item was added with AddRateLimited since it
// was forgotten.
func (q *Queue[T]) NumRequeues(key T) int { return q.options.RateLimiter.NumRequeues(key) }

// Len returns the number of items that are ready.
func (q *Queue[T]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ready
}

// ShutDown makes all calls of Get return, even if items are waiting, and
// ignores items that are added later: another replica reconciles them.
func (q *Queue[T]) ShutDown() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.down = true
	if q.timer != nil {
		q.timer.Stop()
	}
	q.wake.Broadcast()
}

// ShutDownWithDrain is ShutDown; the controller waits for its workers itself.
func (q *Queue[T]) ShutDownWithDrain() { q.ShutDown() }

// ShuttingDown reports whether ShutDown was called.
func (q *Queue[T]) ShuttingDown() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.down
}

// updates is how often the metrics of running items are updated.
const updates = 500 * time.Millisecond

// watch updates the metrics of running items as long as there are any.
func (q *Queue[T]) watch() {
	if !q.watching {
		q.watching = true
		time.AfterFunc(updates, q.updateRunning)
	}
}

func (q *Queue[T]) updateRunning() {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	var total, longest time.Duration
	for _, r := range q.running {
		d := now.Sub(r.since)
		total += d
		longest = max(longest, d)
	}
	q.metrics.running(total, longest)
	q.watching = false
	if len(q.running) > 0 {
		q.watch()
	}
}

// delayed is a heap of items by the time at which they become ready.
type delayed[T comparable] []*item[T]

func (d delayed[T]) Len() int           { return len(d) }
func (d delayed[T]) Less(i, j int) bool { return d[i].at.Before(d[j].at) }
func (d delayed[T]) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].index, d[j].index = i, j
}

// Push appends an item; it is called by package heap.
func (d *delayed[T]) Push(x any) {
	it := x.(*item[T])
	it.index = len(*d)
	*d = append(*d, it)
}

// Pop removes the last item; it is called by package heap.
func (d *delayed[T]) Pop() any {
	old := *d
	it := old[len(old)-1]
	old[len(old)-1] = nil
	*d = old[:len(old)-1]
	it.index = -1
	return it
}
