package converge

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/fairqueue"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

// prioritiesOf is a queue that records the priority of each request.
type prioritiesOf struct {
	priorityqueue.PriorityQueue[reconcile.Request]
	got []int
}

func (q *prioritiesOf) AddWithOpts(o priorityqueue.AddOpts, all ...reconcile.Request) {
	for range all {
		q.got = append(q.got, *o.Priority)
	}
}

// itself finds the object that the event is about.
func itself(_ context.Context, o client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(o)}}
}

func TestControllerOf_MapsAnyVersionOfTheKind(t *testing.T) {
	owned := func(apiVersion, kind string, controller bool) client.Object {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-config", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: apiVersion, Kind: kind, Name: "web", Controller: &controller},
		}}}
	}
	// Everyone can annotate a ConfigMap with the UID of an object.
	annotated := func(namespace string) client.Object {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web-config", Annotations: map[string]string{
			naming.AnnotationOwner: "u", naming.AnnotationApplied: "h",
		}}}
	}
	scheme := runtime.NewScheme()
	if err := webserverv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	objects := fake.NewClientBuilder().WithScheme(scheme).
		WithObjects(&webserverv1.WebServer{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u"}}).
		WithIndex(&webserverv1.WebServer{}, naming.IndexUID, func(o client.Object) []string { return []string{string(o.GetUID())} }).Build()
	owner := []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: "shop", Name: "web"}}}
	for name, tc := range map[string]struct {
		child client.Object
		want  []reconcile.Request
	}{
		"the version of the kind":        {owned("my.domain/v1", "WebServer", true), owner},
		"a version that is not served":   {owned("my.domain/v9", "WebServer", true), owner},
		"an owner that does not control": {owned("my.domain/v1", "WebServer", false), nil},
		"another kind of the group":      {owned("my.domain/v1", "WebSite", true), nil},
		"a kind of another group":        {owned("other.domain/v1", "WebServer", true), nil},
		"a group that cannot be parsed":  {owned("my.domain/v1/beta", "WebServer", true), nil},
		"its UID in an annotation":       {annotated("shop"), owner},
		"its UID, from elsewhere":        {annotated("evil"), nil},
		"no owner":                       {&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-config"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := ownerOf(schema.GroupKind{Group: "my.domain", Kind: "WebServer"}, objects, &webserverv1.WebServerList{})(t.Context(), tc.child)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

func TestQueue_PrioritizesChildEvents(t *testing.T) {
	version := func(rv string) client.Object {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ResourceVersion: rv}}
	}
	f := trigger{find: itself}.handler()
	for name, tc := range map[string]struct {
		send func(q queue)
		want int
	}{
		"a child changed": {func(q queue) {
			f.Update(t.Context(), event.TypedUpdateEvent[client.Object]{ObjectOld: version("1"), ObjectNew: version("2")}, q)
		}, fairqueue.PriorityEvent},
		"a child went": {func(q queue) { f.Delete(t.Context(), event.TypedDeleteEvent[client.Object]{Object: version("1")}, q) }, fairqueue.PriorityEvent},
		"a resync": {func(q queue) {
			f.Update(t.Context(), event.TypedUpdateEvent[client.Object]{ObjectOld: version("1"), ObjectNew: version("1")}, q)
		}, handler.LowPriority},
		"the initial list": {func(q queue) {
			f.Create(t.Context(), event.TypedCreateEvent[client.Object]{Object: version("1"), IsInInitialList: true}, q)
		}, handler.LowPriority},
		"a child is created": {func(q queue) { f.Create(t.Context(), event.TypedCreateEvent[client.Object]{Object: version("1")}, q) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			q := &prioritiesOf{}
			tc.send(q)
			if len(q.got) != 1 || q.got[0] != tc.want {
				t.Errorf("priorities %v, want one of %d", q.got, tc.want)
			}
		})
	}
}

// A pod that starts changes about five times.
func TestTrigger_CoalescesChangesOfPods(t *testing.T) {
	version := func(rv string, phase corev1.PodPhase) client.Object {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: rv}, Status: corev1.PodStatus{Phase: phase}}
	}
	f := trigger{find: itself, after: time.Hour}.handler()
	q := newQueue(1)("test", retries())
	defer q.ShutDown()
	f.Create(t.Context(), event.TypedCreateEvent[client.Object]{Object: version("1", "")}, q)
	f.Update(t.Context(), event.TypedUpdateEvent[client.Object]{ObjectOld: version("1", ""), ObjectNew: version("2", corev1.PodPending)}, q)
	f.Update(t.Context(), event.TypedUpdateEvent[client.Object]{ObjectOld: version("2", corev1.PodPending), ObjectNew: version("3", corev1.PodRunning)}, q)
	f.Delete(t.Context(), event.TypedDeleteEvent[client.Object]{Object: version("3", corev1.PodRunning)}, q)
	if q.Len() != 0 {
		t.Errorf("%d requests at once, want 0", q.Len())
	}
	f.Create(t.Context(), event.TypedCreateEvent[client.Object]{Object: version("1", ""), IsInInitialList: true}, q)
	if q.Len() != 1 {
		t.Errorf("%d requests after the initial list, want 1", q.Len())
	}
}

func TestHandleObject_PrioritizesEdits(t *testing.T) {
	object := func(change ...func(*webserverv1.WebServer)) client.Object {
		w := &webserverv1.WebServer{ObjectMeta: metav1.ObjectMeta{Name: "web", Generation: 2, ResourceVersion: "1"}}
		w.Status.ObservedGeneration = 2
		for _, c := range change {
			w.ResourceVersion = "2"
			c(w)
		}
		return w
	}
	h := handleObject()
	create := func(o client.Object, initial bool) func(q queue) {
		return func(q queue) {
			h.Create(t.Context(), event.CreateEvent{Object: o, IsInInitialList: initial}, q)
		}
	}
	update := func(change ...func(*webserverv1.WebServer)) func(q queue) {
		return func(q queue) {
			h.Update(t.Context(), event.UpdateEvent{ObjectOld: object(), ObjectNew: object(change...)}, q)
		}
	}
	terminate := func(w *webserverv1.WebServer) { w.DeletionTimestamp = new(metav1.Now()) }
	edit := func(w *webserverv1.WebServer) { w.Generation++ }
	for name, tc := range map[string]struct {
		send func(q queue)
		want int
	}{
		"the spec is changed":         {update(edit), fairqueue.PriorityEdit},
		"it is being deleted":         {update(terminate), fairqueue.PriorityEdit},
		"an annotation is changed":    {update(func(w *webserverv1.WebServer) { w.Annotations = map[string]string{"a": "b"} }), fairqueue.PriorityEdit},
		"a label is changed":          {update(func(w *webserverv1.WebServer) { w.Labels = map[string]string{"a": "b"} }), fairqueue.PriorityEdit},
		"another object":              {update(func(w *webserverv1.WebServer) { w.UID = "another" }), fairqueue.PriorityEdit},
		"the status is changed":       {update(func(w *webserverv1.WebServer) { w.Status.ReadyReplicas++ }), fairqueue.PriorityDefault},
		"a resync":                    {update(), fairqueue.PriorityBackground},
		"it is created":               {create(object(), false), fairqueue.PriorityDefault},
		"initial list":                {create(object(), true), fairqueue.PriorityBackground},
		"initial list, edited":        {create(object(edit), true), fairqueue.PriorityDefault},
		"initial list, being deleted": {create(object(terminate), true), fairqueue.PriorityDefault},
		"it is deleted":               {func(q queue) { h.Delete(t.Context(), event.DeleteEvent{Object: object()}, q) }, fairqueue.PriorityDefault},
	} {
		t.Run(name, func(t *testing.T) {
			q := &prioritiesOf{}
			tc.send(q)
			if len(q.got) != 1 || q.got[0] != tc.want {
				t.Errorf("priorities %v, want one of %d", q.got, tc.want)
			}
		})
	}
}

// TestNewQueue_ServesAnEditDuringTheBurstOfAnotherNamespace counts the reconciles
// that go before the edit of a user, while a thousand edits of another
// namespace, and the events that they cause, are waiting.
func TestNewQueue_ServesAnEditDuringTheBurstOfAnotherNamespace(t *testing.T) {
	const workers, burst = 8, 1000
	q := newQueue(workers)(t.Name(), retries())
	defer q.ShutDown()
	edit := func(namespace, name string) {
		before := &webserverv1.WebServer{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Generation: 1, ResourceVersion: "1"}}
		after := before.DeepCopy()
		after.Generation, after.ResourceVersion = 2, "2"
		handleObject().Update(t.Context(), event.UpdateEvent{ObjectOld: before, ObjectNew: after}, q)
	}
	child := trigger{find: itself}.handler()
	for i := range burst {
		edit("busy", fmt.Sprintf("web%d", i))
	}
	var running []reconcile.Request
	next := func() reconcile.Request {
		r, _ := q.Get()
		if running = append(running, r); len(running) == workers {
			done := running[0]
			deployment := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: done.Namespace, Name: done.Name, ResourceVersion: "1"}}
			changed := deployment.DeepCopy()
			changed.ResourceVersion = "2"
			child.Update(t.Context(), event.UpdateEvent{ObjectOld: deployment, ObjectNew: changed}, q)
			q.Done(done)
			running = running[1:]
		}
		return r
	}
	for range burst / 2 {
		next()
	}
	edit("calm", "web")
	before := 0
	for next().Namespace == "busy" {
		if before++; before > 2*burst {
			t.Fatalf("%d reconciles of another namespace went before the edit", before)
		}
	}
	if before > 1 {
		t.Errorf("%d reconciles of another namespace went before the edit", before)
	}
}

func TestConcerned_EnqueuesTheObjectsThatAreAffected(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := webserverv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	refers := func(ns, name, to string) client.Object {
		return &webserverv1.WebServer{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Spec: webserverv1.WebServerSpec{Image: to}}
	}
	objects := fake.NewClientBuilder().WithScheme(scheme).
		WithObjects(refers("ns", "a", "cfg"), refers("ns", "b", "cfg"), refers("ns", "c", "other"), refers("elsewhere", "d", "cfg")).
		WithIndex(&webserverv1.WebServer{}, naming.IndexReferences, func(o client.Object) []string {
			return []string{o.(*webserverv1.WebServer).Spec.Image}
		}).Build()
	h := concerned(objects, &webserverv1.WebServerList{}, naming.IndexReferences)
	version := func(name, rv string) client.Object {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, ResourceVersion: rv}}
	}
	for name, tc := range map[string]struct {
		send func(q queue)
		want int
	}{
		"it is created": {func(q queue) { h.Create(t.Context(), event.CreateEvent{Object: version("cfg", "1")}, q) }, 2},
		"it is deleted": {func(q queue) { h.Delete(t.Context(), event.DeleteEvent{Object: version("cfg", "1")}, q) }, 2},
		"it changed": {func(q queue) {
			h.Update(t.Context(), event.UpdateEvent{ObjectOld: version("cfg", "1"), ObjectNew: version("cfg", "2")}, q)
		}, 2},
		"the initial list": {func(q queue) {
			h.Create(t.Context(), event.CreateEvent{Object: version("cfg", "1"), IsInInitialList: true}, q)
		}, 0},
		"it is not referenced": {func(q queue) { h.Create(t.Context(), event.CreateEvent{Object: version("nobodys", "1")}, q) }, 0},
		"it matters to all": {func(q queue) {
			concerned(objects, &webserverv1.WebServerList{}, "").Create(t.Context(), event.CreateEvent{Object: version("budget", "1")}, q)
		}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			q := &prioritiesOf{}
			tc.send(q)
			if len(q.got) != tc.want {
				t.Errorf("%d requests, want %d", len(q.got), tc.want)
			}
			for _, p := range q.got {
				if p != fairqueue.PriorityEvent {
					t.Errorf("priority %d", p)
				}
			}
		})
	}
}

func TestRetries_AreAMinuteApartAtTheMost(t *testing.T) {
	limiter, last := retries(), time.Duration(0)
	for range 100 {
		next := limiter.When(reconcile.Request{})
		if next < last || next > time.Minute {
			t.Errorf("%s after %s", next, last)
		}
		last = next
	}
	if last != time.Minute {
		t.Errorf("the last comes after %s", last)
	}
}
