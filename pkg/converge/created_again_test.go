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

// A missing child of an object that was reconciled before may have been deleted because its
// owner was.
func TestReconciler_ReadsTheOwnerBeforeItCreatesAChildLater(t *testing.T) {
	l := newLoop(t, object())
	wanted := map[string]bool{"a": true}
	l.kind.Desired = func(w *webserverv1.WebServer, _ int) (Plan, error) {
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
		l.Reconciler = NewReconciler(l.kind.erase(), l.client, configsource.NewReader(l.client, l.client), apply.NewApplier(l.client, reads, nil), l.recorder, l.now)
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
	}
	pass("creation", 0)
	pass("nothing is missing", 0)
	wanted["b"] = true
	pass("a child that becomes wanted", 1)
	remove("b")
	pass("a deleted child", 1)
	wanted["b"] = false
	pass("pruned", 0)
	remove("a")
	restart()
	pass("deleted while no operator was running", 1)
}
