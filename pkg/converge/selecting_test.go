package converge

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
)

// namesOf is a queue that records the names of its requests.
type namesOf struct {
	priorityqueue.PriorityQueue[reconcile.Request]
	got []string
}

func (q *namesOf) AddWithOpts(_ priorityqueue.AddOpts, rs ...reconcile.Request) {
	for _, r := range rs {
		q.got = append(q.got, r.Name)
	}
}

func TestSelecting_EnqueuesObjectsWhosePodsAreSelected(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{webserverv1.AddToScheme, policyv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	// The pods of "a" and "b" have the label app with that value, those of "unknown"
	// are not known, and "edited" is about to be reconciled.
	object := func(ns, name string, observed int64) client.Object {
		w := &webserverv1.WebServer{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Generation: 2}}
		w.Status.ObservedGeneration = observed
		return w
	}
	var unreadable bool
	cache := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		object("ns", "a", 2), object("ns", "b", 2), object("ns", "c", 2), object("ns", "unknown", 2), object("ns", "edited", 1), object("elsewhere", "a", 2),
	).Build(), interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		if unreadable {
			return errors.New("unreadable")
		}
		return c.Get(ctx, key, o, opts...)
	}})
	kind := Erase(Kind[*webserverv1.WebServer, any]{
		NewList:  func() client.ObjectList { return &webserverv1.WebServerList{} },
		Selector: func(o client.Object) *metav1.LabelSelector { return o.(*policyv1.PodDisruptionBudget).Spec.Selector },
		PodLabels: func(_ context.Context, _ client.Reader, w *webserverv1.WebServer) map[string]string {
			if w.Name == "unknown" {
				return nil
			}
			return map[string]string{"app": w.Name}
		},
	})
	s := newSelecting(cache, kind, &policyv1.PodDisruptionBudget{})
	h := s.handler()

	// Events of encoded types have only metadata.
	identity := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "theirs"}}
	store := func(selector *metav1.LabelSelector) {
		t.Helper()
		if err := client.IgnoreNotFound(cache.Delete(t.Context(), identity.DeepCopy())); err != nil {
			t.Fatal(err)
		}
		if selector == nil {
			return
		}
		o := identity.DeepCopy()
		o.Spec.Selector = selector
		if err := cache.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	app := func(name string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
	}
	created := func(q queue) { h.Create(t.Context(), event.CreateEvent{Object: identity}, q) }
	listed := func(q queue) { h.Create(t.Context(), event.CreateEvent{Object: identity, IsInInitialList: true}, q) }
	updated := func(q queue) {
		h.Update(t.Context(), event.UpdateEvent{ObjectOld: identity, ObjectNew: identity}, q)
	}
	deleted := func(q queue) { h.Delete(t.Context(), event.DeleteEvent{Object: identity}, q) }

	everybody := []string{"a", "b", "c", "edited", "unknown"}
	always := []string{"edited", "unknown"} // if anything is selected that was not before
	for _, step := range []struct {
		name     string
		selector *metav1.LabelSelector
		send     func(queue)
		want     []string
	}{
		{"created", app("a"), created, append([]string{"a"}, always...)},
		{"the selector is the same", app("a"), updated, nil},
		{"other pods are selected", app("b"), updated, append([]string{"a", "b"}, always...)},
		{"no pods of the kind", app("other"), updated, append([]string{"b"}, always...)},
		{"an invalid selector", &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "?"}}}, updated, always},
		{"all pods", &metav1.LabelSelector{}, updated, everybody},
		{"all pods but one", &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"a"}}}}, updated, everybody},
		{"deleted before the event of a change", nil, updated, []string{"b", "c", "edited", "unknown"}},
		{"deleted", nil, deleted, nil},
		{"in the initial list", app("a"), listed, nil},
		{"deleted after the initial list", nil, deleted, append([]string{"a"}, always...)},
		{"the change of an unknown one", app("a"), updated, everybody},
		{"deleted again", nil, deleted, append([]string{"a"}, always...)},
		{"the deletion of an unknown one", nil, deleted, everybody},
	} {
		store(step.selector)
		q := &namesOf{}
		step.send(q)
		slices.Sort(q.got)
		if d := cmp.Diff(step.want, q.got); d != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, d)
		}
	}

	store(app("a"))
	unreadable = true
	q := &namesOf{}
	created(q)
	if len(q.got) != len(everybody) {
		t.Errorf("if it cannot be read: got %q, want %q", q.got, everybody)
	}
}
