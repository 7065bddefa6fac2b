package fairqueue

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// newTestQueue returns a queue of items "namespace/name".
func newTestQueue(t testing.TB, limit int) *Queue[string] {
	q := New(t.Name(), Options[string]{
		Group:       func(s string) string { ns, _, _ := strings.Cut(s, "/"); return ns },
		GroupLimit:  limit,
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Minute),
	})
	t.Cleanup(q.ShutDown)
	return q
}

func with(priority int) priorityqueue.AddOpts { return priorityqueue.AddOpts{Priority: &priority} }

// process returns the next n items, each of which is done before the next one.
func process(q *Queue[string], n int) []string {
	var all []string
	for range n {
		key, _ := q.Get()
		all = append(all, key)
		q.Done(key)
	}
	return all
}

func check[T any](t *testing.T, want, got T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestQueue_OrdersClassesAndArrivals(t *testing.T) {
	q := newTestQueue(t, 0)
	q.AddWithOpts(with(PriorityBackground), "a/background")
	q.Add("a/default")
	q.AddWithOpts(with(PriorityEvent), "a/event")
	q.AddWithOpts(with(PriorityEdit), "a/edit1", "a/edit2")
	check(t, 5, q.Len())
	check(t, []string{"a/edit1", "a/edit2", "a/event", "a/default", "a/background"}, process(q, 5))
	check(t, 0, q.Len())
	check(t, 0, len(q.groups)+len(q.items)+len(q.running))
}

func TestQueue_ReturnsThePriorityOfTheClass(t *testing.T) {
	q := newTestQueue(t, 0)
	for add, want := range map[int]int{1000: PriorityEdit, 20: PriorityEdit, 19: PriorityEvent, 9: PriorityDefault, 0: PriorityDefault, -1: PriorityBackground, -1000: PriorityBackground} {
		q.AddWithOpts(with(add), "a/a")
		_, got, _ := q.GetWithPriority()
		q.Done("a/a")
		if got != want {
			t.Errorf("%d became %d, want %d", add, got, want)
		}
	}
}

func TestQueue_RotatesBetweenGroups(t *testing.T) {
	q := newTestQueue(t, 0)
	q.AddWithOpts(with(PriorityEdit), "a/1", "a/2", "a/3", "b/1", "b/2", "c/1")
	check(t, []string{"a/1", "b/1", "c/1", "a/2", "b/2", "a/3"}, process(q, 6))
}

// TestQueue_ServesAnEditDuringTheBurstOfAnotherGroup counts the reconciles that
// go before an edit, which is what a user waits for.
func TestQueue_ServesAnEditDuringTheBurstOfAnotherGroup(t *testing.T) {
	const workers = 8
	for name, served := range map[string]int{"at its start": 0, "in the middle": 500} {
		t.Run(name, func(t *testing.T) {
			q := newTestQueue(t, workers)
			edit, event := with(PriorityEdit), with(PriorityEvent)
			for i := range 1000 {
				q.AddWithOpts(edit, fmt.Sprintf("a/%d", i))
			}
			var running []string
			next := func() string {
				key, _ := q.Get()
				if running = append(running, key); len(running) == workers {
					q.AddWithOpts(event, running[0]) // its Deployment changed
					q.Done(running[0])
					running = running[1:]
				}
				return key
			}
			for range served {
				next()
			}
			q.AddWithOpts(edit, "b/web")
			before := 0
			for next() != "b/web" {
				before++
			}
			if before > 1 {
				t.Errorf("%d reconciles went before the edit of another namespace", before)
			}
		})
	}
}

func TestQueue_StarvesNoClass(t *testing.T) {
	q := newTestQueue(t, 0)
	q.AddWithOpts(with(PriorityEvent), "a/event")
	q.Add("a/default")
	q.AddWithOpts(with(PriorityBackground), "a/background")
	place := map[string]int{}
	for i := range 100 {
		q.AddWithOpts(with(PriorityEdit), fmt.Sprintf("a/edit%d", i), fmt.Sprintf("b/edit%d", i))
		place[process(q, 1)[0]] = i
	}
	check(t, 4, place["a/event"])
	check(t, 5, place["a/default"])
	check(t, 16, place["a/background"])
}

func TestQueue_DoesNotAgeAClassWithoutItems(t *testing.T) {
	q := newTestQueue(t, 0)
	for i := range 50 {
		q.AddWithOpts(with(PriorityEdit), fmt.Sprintf("a/%d", i))
		process(q, 1)
	}
	q.AddWithOpts(with(PriorityEdit), "a/edit")
	q.AddWithOpts(with(PriorityBackground), "a/background")
	check(t, []string{"a/edit", "a/background"}, process(q, 2))
}

func TestQueue_KeepsAWorkerForOtherGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newTestQueue(t, 2)
		q.AddWithOpts(with(PriorityEdit), "a/1", "a/2", "a/3")
		q.Get()
		q.Get()
		got := make(chan string, 2)
		for range 2 {
			go func() {
				if key, down := q.Get(); !down {
					got <- key
				}
			}()
		}
		synctest.Wait()
		check(t, 0, len(got)) // a has reached its limit
		q.AddWithOpts(with(PriorityBackground), "b/1")
		check(t, "b/1", <-got)
		synctest.Wait()
		check(t, 0, len(got))
		q.Done("a/1")
		check(t, "a/3", <-got)
	})
}

func TestQueue_PrefersTheGroupWithFewerRunningItems(t *testing.T) {
	q := newTestQueue(t, 0)
	q.AddWithOpts(with(PriorityEdit), "a/1", "a/2", "a/3", "a/4", "b/1", "b/2")
	var all []string
	for range 4 { // the items of a are slow, those of b are not
		key, _ := q.Get()
		if all = append(all, key); key[0] == 'b' {
			q.Done(key)
		}
	}
	check(t, []string{"a/1", "b/1", "b/2", "a/2"}, all)
}

func TestQueue_Deduplicates(t *testing.T) {
	q := newTestQueue(t, 0)
	q.Add("a/1")
	q.Add("a/1")
	q.AddAfter("a/1", time.Hour) // it is ready already
	check(t, 1, q.Len())
	check(t, []string{"a/1"}, process(q, 1))
	check(t, 0, q.Len())
}

func TestQueue_RaisesThePriorityOfAnItemThatIsAddedAgain(t *testing.T) {
	q := newTestQueue(t, 0)
	q.AddWithOpts(with(PriorityBackground), "a/1", "a/2", "a/3")
	q.AddWithOpts(with(PriorityEdit), "a/3")
	q.AddWithOpts(with(PriorityBackground), "a/3") // does not lower it
	q.AddWithOpts(with(PriorityEdit), "a/2")
	check(t, []string{"a/3", "a/2", "a/1"}, process(q, 3))
}

func TestQueue_NeverProcessesAnItemTwiceAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newTestQueue(t, 0)
		q.Add("a/1")
		q.Get()
		q.Add("a/1")
		q.AddWithOpts(with(PriorityEdit), "a/1")
		check(t, 1, q.Len())
		got := make(chan int, 1)
		go func() {
			if _, priority, down := q.GetWithPriority(); !down {
				got <- priority
			}
		}()
		synctest.Wait()
		check(t, 0, len(got))
		q.Done("a/1")
		check(t, PriorityEdit, <-got)
		q.Done("a/1")
		q.Done("a/1") // not running: nothing to do
		check(t, 0, q.Len())
	})
}

func TestQueue_Delays(t *testing.T) {
	for name, tc := range map[string]struct {
		add  func(q *Queue[string])
		want time.Duration
	}{
		"after":                        {func(q *Queue[string]) { q.AddAfter("a/1", time.Minute) }, time.Minute},
		"no delay":                     {func(q *Queue[string]) { q.AddAfter("a/1", 0) }, 0},
		"the shorter delay comes last": {func(q *Queue[string]) { q.AddAfter("a/1", time.Minute); q.AddAfter("a/1", time.Second) }, time.Second},
		"the longer delay comes last":  {func(q *Queue[string]) { q.AddAfter("a/1", time.Second); q.AddAfter("a/1", time.Minute) }, time.Second},
		"an event comes meanwhile":     {func(q *Queue[string]) { q.AddAfter("a/1", time.Minute); q.Add("a/1") }, 0},
		"another item is sooner": {func(q *Queue[string]) {
			q.AddAfter("a/1", time.Minute)
			q.AddAfter("a/2", time.Second)
			process(q, 1)
		}, time.Minute},
		"rate limited": {func(q *Queue[string]) {
			q.AddRateLimited("a/1")
			process(q, 1)
			q.AddRateLimited("a/1")
			check(t, 2, q.NumRequeues("a/1"))
		}, 3 * time.Second},
		"forgotten": {func(q *Queue[string]) {
			q.AddRateLimited("a/1")
			process(q, 1)
			q.Forget("a/1")
			q.AddRateLimited("a/1")
		}, 2 * time.Second},
		"rate limited, but sooner": {func(q *Queue[string]) {
			q.AddWithOpts(priorityqueue.AddOpts{RateLimited: true, After: time.Millisecond}, "a/1")
		}, time.Millisecond},
		"while it is processed": {func(q *Queue[string]) {
			q.Add("a/1")
			q.Get()
			q.AddAfter("a/1", time.Second)
			time.Sleep(time.Minute)
			q.Done("a/1")
		}, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newTestQueue(t, 0)
				began := time.Now()
				tc.add(q)
				check(t, []string{"a/1"}, process(q, 1))
				check(t, tc.want, time.Since(began))
				check(t, 0, q.Len()+len(q.delayed))
			})
		})
	}
}

// TestQueue_BoundsTheTimeForAnItem adds one item again and again, each time together with
// another one that must not wait.
func TestQueue_BoundsTheTimeForAnItem(t *testing.T) {
	for name, tc := range map[string]struct {
		takes time.Duration
		added time.Duration // how often
		min   int           // how many times it is processed in 100 seconds
		max   int
	}{
		"it is expensive":      {takes: 100 * time.Millisecond, added: 10 * time.Millisecond, min: 115, max: 125}, // 2 s + 10%
		"it is cheap":          {takes: time.Millisecond, added: 20 * time.Millisecond, min: 4990, max: 5000},
		"it blocks":            {takes: 10 * time.Second, added: 10 * time.Millisecond, min: 7, max: 7}, // 5 s apart
		"it is added by turns": {takes: 500 * time.Millisecond, added: 6 * time.Second, min: 16, max: 17},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newTestQueue(t, 0)
				q.options.Share = Share{Fraction: 0.1, Burst: 2 * time.Second, MaxDelay: 5 * time.Second}
				noisy := 0
				for range 2 {
					go func() {
						for key, down := q.Get(); !down; key, down = q.Get() {
							if key == "a/noisy" {
								noisy++
								time.Sleep(tc.takes)
							}
							q.Done(key)
						}
					}()
				}
				for t0, i := time.Now(), 1; time.Since(t0) < 100*time.Second; i++ {
					q.AddWithOpts(with(PriorityEdit), "a/noisy", fmt.Sprintf("b/%d", i))
					time.Sleep(tc.added)
					synctest.Wait()
					if _, waits := q.items[fmt.Sprintf("b/%d", i)]; waits {
						t.Fatal("another item waits, too")
					}
				}
				q.mu.Lock()
				if noisy < tc.min || noisy > tc.max {
					t.Errorf("processed %d times, want %d to %d", noisy, tc.min, tc.max)
				}
				if len(q.spent) >= 2*minSweep {
					t.Errorf("%d items are remembered", len(q.spent))
				}
				q.mu.Unlock()
				time.Sleep(time.Minute)
				synctest.Wait()
				check(t, 0, q.Len())
				q.mu.Lock()
				check(t, 0, len(q.items)+len(q.delayed))
				q.mu.Unlock()
			})
		})
	}
}

func TestQueue_RetriesAfterTheEditsOfUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newTestQueue(t, 0)
		edit := PriorityEdit
		q.AddWithOpts(priorityqueue.AddOpts{Priority: &edit, RateLimited: true}, "a/failing")
		time.Sleep(time.Hour)
		q.AddWithOpts(with(PriorityEdit), "a/edit")
		check(t, []string{"a/edit", "a/failing"}, process(q, 2))
	})
}

func TestQueue_ShutsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newTestQueue(t, 0)
		var ended atomic.Int32
		for range 3 {
			go func() {
				if _, down := q.Get(); down {
					ended.Add(1)
				}
			}()
		}
		q.AddAfter("a/1", time.Second)
		synctest.Wait()
		q.ShutDownWithDrain()
		synctest.Wait()
		check(t, int32(3), ended.Load())
		check(t, true, q.ShuttingDown())
		q.Add("a/2")
		time.Sleep(time.Minute)
		check(t, 0, q.Len())
		_, down := q.Get()
		check(t, true, down)
	})
}

// TestQueue_ProcessesEverythingConcurrently is also a test for the race
// detector.
func TestQueue_ProcessesEverythingConcurrently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const namespaces, names, limit, workers = 7, 40, 3, 8
		q := newTestQueue(t, limit)
		var mu sync.Mutex
		running, processed := map[string]bool{}, map[string]int{}
		for range workers {
			go func() {
				for {
					key, down := q.Get()
					if down {
						return
					}
					ns, _, _ := strings.Cut(key, "/")
					mu.Lock()
					same := 0
					for other := range running {
						if strings.HasPrefix(other, ns+"/") {
							same++
						}
					}
					if running[key] || same >= limit {
						t.Errorf("%s is processed while %d of its namespace are", key, same)
					}
					running[key] = true
					processed[key]++
					again := processed[key]
					mu.Unlock()
					time.Sleep(time.Millisecond)
					switch again {
					case 1:
						q.AddRateLimited(key)
					case 2:
						q.AddWithOpts(with(PriorityEvent), key)
					default:
						q.Forget(key)
					}
					mu.Lock()
					delete(running, key)
					mu.Unlock()
					q.Done(key)
				}
			}()
		}
		for i := range names {
			for ns := range namespaces {
				go q.AddWithOpts(with(priorities[i%classes]), fmt.Sprintf("%d/%d", ns, i))
			}
		}
		time.Sleep(time.Hour)
		mu.Lock()
		defer mu.Unlock()
		check(t, namespaces*names, len(processed))
		for key, n := range processed {
			if n < 3 {
				t.Errorf("%s was processed %d times", key, n)
			}
		}
		q.mu.Lock()
		defer q.mu.Unlock()
		check(t, 0, len(q.groups)+len(q.items)+len(q.running)+len(q.delayed)+q.ready)
	})
}

func TestMetrics_AreThoseOfControllerRuntime(t *testing.T) {
	t.Cleanup(func() { // so that the test can be repeated in one process
		for _, vec := range []interface{ DeletePartialMatch(prometheus.Labels) int }{depth, adds, latency, duration, unfinished, longestRunning, retries} {
			vec.DeletePartialMatch(prometheus.Labels{"name": t.Name()})
		}
	})
	synctest.Test(t, func(t *testing.T) {
		q := newTestQueue(t, 0)
		q.AddWithOpts(with(PriorityBackground), "a/1", "a/2", "a/3")
		q.AddWithOpts(with(PriorityEdit), "a/1")
		q.AddAfter("a/4", time.Hour)
		time.Sleep(10 * time.Second)
		q.Get()
		time.Sleep(20*time.Second + updates/2)
		check(t, map[string]float64{
			"workqueue_adds_total": 3, "workqueue_retries_total": 1,
			"workqueue_depth 20": 0, "workqueue_depth 10": 0, "workqueue_depth 0": 0, "workqueue_depth -100": 2,
			"workqueue_queue_duration_seconds": 10, "workqueue_work_duration_seconds": 0,
			"workqueue_unfinished_work_seconds": 20, "workqueue_longest_running_processor_seconds": 20,
		}, exposed(t, t.Name()))
		q.Done("a/1")
		time.Sleep(time.Second)
		after := exposed(t, t.Name())
		check(t, 20.25, after["workqueue_work_duration_seconds"])
		check(t, 0, after["workqueue_unfinished_work_seconds"])
	})
}

// exposed returns the values of the metrics of a queue; of histograms, the
// sums.
func exposed(t *testing.T, queue string) map[string]float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["name"] != queue || labels["controller"] != queue {
				continue
			}
			name := strings.TrimSpace(f.GetName() + " " + labels["priority"])
			switch f.GetType() {
			case dto.MetricType_HISTOGRAM:
				all[name] = m.GetHistogram().GetSampleSum()
			case dto.MetricType_COUNTER:
				all[name] = m.GetCounter().GetValue()
			default:
				all[name] = m.GetGauge().GetValue()
			}
		}
	}
	return all
}

func BenchmarkQueue(b *testing.B) {
	for _, namespaces := range []int{1, 500} {
		b.Run(fmt.Sprintf("%d namespaces with 10000 waiting items", namespaces), func(b *testing.B) {
			q := newTestQueue(b, 8)
			var keys []string
			for i := range 10000 {
				keys = append(keys, fmt.Sprintf("%d/%d", i%namespaces, i))
			}
			edit := with(PriorityEdit)
			q.AddWithOpts(with(PriorityBackground), keys...)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				q.AddWithOpts(edit, keys[i%len(keys)])
				key, _ := q.Get()
				q.Done(key)
			}
		})
	}
}
