package converge

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

// estranged is a loop whose kind has one child, which may be unwanted.
type estranged struct {
	*loop
	paused, unwanted, serves bool
}

func newEstranged(t *testing.T) *estranged {
	t.Helper()
	e := &estranged{loop: newLoop(t, object())}
	var observed *corev1.ConfigMap
	e.kind.Paused = func(*webserverv1.WebServer) bool { return e.paused }
	e.kind.Observe = func(ctx context.Context, r Reader, w *webserverv1.WebServer) (int, error) {
		var err error
		observed, err = GetOwned(ctx, r, w, "web-child", &corev1.ConfigMap{})
		return 7, err
	}
	e.kind.Desired = func(w *webserverv1.WebServer, _ int) (Plan, error) {
		var plan Plan
		ApplyOrPrune(&plan, !e.unwanted, func() apply.Intent { return child(w, "") }, observed)
		return plan, nil
	}
	report := e.kind.Report
	e.kind.Report = func(w *webserverv1.WebServer, n int, out Outcome) {
		e.serves = ChildOrObserved(out, "ConfigMap", "ns", "web-child", observed) != nil
		report(w, n, out)
	}
	e.restart()
	e.pass("apply", "Report", "status")
	return e
}

// byHand changes the child manually.
func (e *estranged) byHand(change func(*corev1.ConfigMap)) {
	e.t.Helper()
	c := e.child()
	change(c)
	if err := e.client.Update(e.t.Context(), c, client.FieldOwner("kubectl-edit")); err != nil {
		e.t.Fatal(err)
	}
}

func (e *estranged) existsStill() bool {
	return e.client.Get(e.t.Context(), client.ObjectKey{Namespace: "ns", Name: "web-child"}, &corev1.ConfigMap{}) == nil
}

// reconcileOnly reconciles once.
func (e *estranged) reconcileOnly() {
	e.t.Helper()
	if _, err := e.Reconcile(e.t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
		e.t.Fatal(err)
	}
}

func disown(c *corev1.ConfigMap) { c.OwnerReferences = nil }

func TestReconciler_SeesDisownedChildrenOfAPausedObject(t *testing.T) {
	for name, restarted := range map[string]bool{"running": false, "restarted": true} {
		t.Run(name, func(t *testing.T) {
			e := newEstranged(t)
			e.paused = true
			e.byHand(disown)
			if restarted {
				e.restart()
			}
			for range 2 {
				e.calls = nil
				e.reconcileOnly()
				if !e.serves {
					t.Error("the child is not seen")
				}
				if slices.ContainsFunc(e.calls, func(c string) bool { return c == "apply" || c == "patch" }) {
					t.Errorf("a child of a paused object was written: %v", e.calls)
				}
			}
			e.paused = false
			e.calls = nil
			e.reconcileOnly()
			if !slices.Contains(e.calls, "apply") || len(e.owners()) != 1 {
				t.Errorf("the owner reference was not restored: %v", e.calls)
			}
		})
	}
}

func TestReconciler_PrunesDisownedChildren(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*corev1.ConfigMap)
		stays  bool
	}{
		"as it was":     {change: func(*corev1.ConfigMap) {}},
		"without owner": {change: disown},
		"of another owner": {stays: true, change: func(c *corev1.ConfigMap) {
			c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "x", Controller: new(true)}}
		}},
		"of another tool, without owner": {stays: true, change: func(c *corev1.ConfigMap) { disown(c); c.Labels[naming.LabelManagedBy] = "Helm" }},
		"given away":                     {stays: true, change: func(c *corev1.ConfigMap) { disown(c); delete(c.Annotations, naming.AnnotationOwner) }},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEstranged(t)
			e.byHand(tc.change)
			e.edit(func(*webserverv1.WebServer) { e.unwanted = true })
			e.reconcileOnly()
			if got := e.existsStill(); got != tc.stays {
				t.Errorf("it exists: %v, want %v", got, tc.stays)
			}
		})
	}
}

// A child of an object that was deleted with --cascade=orphan has lost its owner
// reference. The operator must not delete it.
func TestReconciler_PrunesNoOrphanOfADeletedOwner(t *testing.T) {
	e := newEstranged(t)
	e.byHand(disown)
	e.unwanted = true
	stale := e.stored()
	if err := e.client.Delete(t.Context(), stale); err != nil {
		t.Fatal(err)
	}
	a := apply.NewApplier(e.client, e.client, nil)
	c := &corev1.ConfigMap{}
	if err := e.client.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "web-child"}, c); err != nil {
		t.Fatal(err)
	}
	if err := a.Delete(t.Context(), apply.Owner{Object: stale}, "ConfigMap", c); err == nil || !e.existsStill() {
		t.Errorf("deleted, error %v", err)
	}
}
