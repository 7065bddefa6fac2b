package converge

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/message"
)

// child returns the child as it is stored.
func (l *loop) child() *corev1.ConfigMap {
	l.t.Helper()
	c := &corev1.ConfigMap{}
	if err := l.client.Get(l.t.Context(), client.ObjectKey{Namespace: "ns", Name: "web-child"}, c); err != nil {
		l.t.Fatal(err)
	}
	return c
}

// owners returns the kinds of the owners of the child.
func (l *loop) owners() []string {
	l.t.Helper()
	kinds := []string{}
	for _, r := range l.child().OwnerReferences {
		kinds = append(kinds, r.Kind)
	}
	return kinds
}

// Foreground deletion follows the deletion policy, even if the child cannot be
// written.
func TestReconciler_RetainsChildrenThatAreNotApplied(t *testing.T) {
	for name, hold := range map[string]func(*loop){
		"paused": func(l *loop) { l.kind.Paused = func(*webserverv1.WebServer) bool { return true } },
		"refused": func(l *loop) {
			l.refuse["apply"] = apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, "web-child", nil)
		},
		"undecided": func(l *loop) {
			l.kind.Desired = func(*webserverv1.WebServer, int) (Plan, error) {
				return Plan{}, fault.Stalled(message.New("NotFound", "something is missing"))
			}
		},
		"held back": func(l *loop) {
			l.kind.Desired = func(w *webserverv1.WebServer, _ int) (Plan, error) {
				other := child(w, "")
				other.Name, other.Kind = "other", "Other"
				in := child(w, "")
				in.Requires = []apply.Ref{other.Ref()}
				return Plan{Apply: []apply.Intent{other, in}}, nil
			}
			l.refuse["apply"] = errors.New("no answer")
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLoop(t, object())
			l.kind.Observe = func(ctx context.Context, r Reader, w *webserverv1.WebServer) (int, error) {
				_, err := GetOwned(ctx, r, w, "web-child", &corev1.ConfigMap{})
				return 7, err
			}
			desired := l.kind.Desired
			l.restart()
			l.pass("Desired", "apply", "Report", "status")
			hold(l)
			l.restart()
			pass := func() []string {
				t.Helper()
				l.calls = nil
				if _, err := l.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
					t.Logf("got %v", err)
				}
				return l.owners()
			}
			pass()
			l.edit(orphaning)
			if diff := cmp.Diff([]string{"WebServer", "Namespace"}, pass()); diff != "" {
				t.Errorf("owners (-want +got):\n%s", diff)
			}
			l.edit(func(w *webserverv1.WebServer) { w.Spec.DeletionPolicy = "" })
			if diff := cmp.Diff([]string{"WebServer"}, pass()); diff != "" {
				t.Errorf("owners after the policy was reset (-want +got):\n%s", diff)
			}
			l.edit(orphaning)
			pass()
			// The cause of the failure is removed.
			l.kind.Paused, l.kind.Desired, l.refuse = nil, desired, map[string]error{}
			l.edit(func(w *webserverv1.WebServer) { w.Spec.DeletionPolicy = "" })
			l.restart()
			if diff := cmp.Diff([]string{"WebServer"}, pass()); diff != "" {
				t.Errorf("owners after it was applied (-want +got):\n%s", diff)
			}
			pass()
			l.pass("Desired", "Report")
		})
	}
}
