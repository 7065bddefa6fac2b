package converge

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// prioritiesOf is a queue that keeps the priority each request came with.
type prioritiesOf struct {
	priorityqueue.PriorityQueue[reconcile.Request]
	got []int
}

func (q *prioritiesOf) Add(reconcile.Request) { q.got = append(q.got, 0) }
func (q *prioritiesOf) AddWithOpts(o priorityqueue.AddOpts, _ ...reconcile.Request) {
	p := 0
	if o.Priority != nil {
		p = *o.Priority
	}
	q.got = append(q.got, p)
}

// plain adds as handlers do that know nothing of priorities.
func plain() handler.EventHandler {
	add := func(q queue) { q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: "web"}}) }
	return handler.Funcs{
		CreateFunc: func(_ context.Context, _ event.TypedCreateEvent[client.Object], q queue) { add(q) },
		UpdateFunc: func(_ context.Context, _ event.TypedUpdateEvent[client.Object], q queue) { add(q) },
		DeleteFunc: func(_ context.Context, _ event.TypedDeleteEvent[client.Object], q queue) { add(q) },
	}
}

func TestWhatSomebodyWaitsForComesFirst(t *testing.T) {
	version := func(rv string) client.Object {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ResourceVersion: rv}}
	}
	f := first{plain()}
	for name, tc := range map[string]struct {
		send func(q queue)
		want int
	}{
		"a child changed": {func(q queue) {
			f.Update(t.Context(), event.TypedUpdateEvent[client.Object]{ObjectOld: version("1"), ObjectNew: version("2")}, q)
		}, childPriority},
		"a child went": {func(q queue) { f.Delete(t.Context(), event.TypedDeleteEvent[client.Object]{Object: version("1")}, q) }, childPriority},
		"a resync": {func(q queue) {
			f.Update(t.Context(), event.TypedUpdateEvent[client.Object]{ObjectOld: version("1"), ObjectNew: version("1")}, q)
		}, handler.LowPriority},
		"the initial list": {func(q queue) {
			f.Create(t.Context(), event.TypedCreateEvent[client.Object]{Object: version("1"), IsInInitialList: true}, q)
		}, handler.LowPriority},
		"a child was made": {func(q queue) { f.Create(t.Context(), event.TypedCreateEvent[client.Object]{Object: version("1")}, q) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			q := &prioritiesOf{}
			tc.send(q)
			if len(q.got) != 1 || q.got[0] != tc.want {
				t.Errorf("priorities %v, want one of %d", q.got, tc.want)
			}
		})
	}
	t.Run("a priority of the handler's own stays", func(t *testing.T) {
		q := &prioritiesOf{}
		raised(q).(priorityqueue.PriorityQueue[reconcile.Request]).AddWithOpts(priorityqueue.AddOpts{Priority: new(-100)})
		if q.got[0] != -100 {
			t.Errorf("got %d", q.got[0])
		}
	})
	t.Run("a queue without priorities does", func(t *testing.T) {
		q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		defer q.ShutDown()
		f.Update(t.Context(), event.TypedUpdateEvent[client.Object]{ObjectOld: version("1"), ObjectNew: version("2")}, q)
		if q.Len() != 1 {
			t.Errorf("%d requests", q.Len())
		}
	})
}
