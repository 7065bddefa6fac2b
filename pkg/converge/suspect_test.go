package converge

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/configsource"
)

// ownerReads counts the uncached reads of WebServers.
type ownerReads struct {
	client.Reader
	n int
}

func (r *ownerReads) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if _, ok := o.(*webserverv1.WebServer); ok {
		r.n++
	}
	return r.Reader.Get(ctx, key, o, opts...)
}

// A child that does not exist was either never created, or it was deleted,
// perhaps because its owner was. Only the latter is worth a request.
func TestReconciler_ReadsTheOwnerOnlyIfAChildWasDeleted(t *testing.T) {
	l := newLoop(t, object())
	wanted := map[string]bool{"a": true}
	during := func() {} // happens while a reconcile is running
	l.kind.Desired = func(w *webserverv1.WebServer, _ int) (Plan, error) {
		during()
		var p Plan
		for _, name := range []string{"a", "b"} {
			live := &corev1.ConfigMap{}
			exists := l.client.Get(t.Context(), client.ObjectKey{Namespace: w.Namespace, Name: name}, live) == nil
			switch {
			case wanted[name]:
				p.Apply = append(p.Apply, apply.New(corev1ac.ConfigMap(name, w.Namespace), func() *corev1.ConfigMap { return &corev1.ConfigMap{} }))
			case exists:
				p.Prune = append(p.Prune, live)
			}
		}
		return p, nil
	}
	reads := &ownerReads{Reader: l.client}
	restart := func() {
		l.Reconciler = NewReconciler(l.kind.erase(), l.client, configsource.NewReader(l.client, l.client), apply.NewApplier(l.client, reads, apply.NoRecorder{}), l.recorder, l.now)
	}
	restart()
	pass := func(what string, want int) {
		t.Helper()
		reads.n = 0
		if _, err := l.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
			t.Fatal(err)
		}
		if reads.n != want {
			t.Errorf("%s: the owner was read %d times, want %d", what, reads.n, want)
		}
		for name, is := range wanted {
			if got := l.client.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: name}, &corev1.ConfigMap{}) == nil; got != is {
				t.Errorf("%s: %s exists: %v, want %v", what, name, got, is)
			}
		}
	}
	remove := func(name string) {
		t.Helper()
		c := &corev1.ConfigMap{}
		if err := l.client.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: name}, c); err != nil {
			t.Fatal(err)
		}
		if err := l.client.Delete(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		l.disappeared(c)
	}
	pass("creation", 0)
	wanted["b"] = true
	pass("a child that was never created", 0)
	remove("b")
	pass("a deleted child", 1)
	wanted["b"] = false
	b := &corev1.ConfigMap{}
	if err := l.client.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "b"}, b); err != nil {
		t.Fatal(err)
	}
	pass("pruned", 0)
	l.disappeared(b)
	wanted["b"] = true
	pass("wanted again", 0)
	remove("a")
	wanted["a"] = false
	pass("deleted and no longer wanted", 0)
	wanted["a"] = true
	pass("wanted again after a complete reconcile", 0)
	remove("a")
	restart()
	pass("deleted while no operator was running", 1)
	restart()
	pass("nothing is missing", 0)
	during = func() { remove("a") }
	pass("deleted while a reconcile is running", 1)
}
