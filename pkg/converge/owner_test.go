package converge

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/testkit/messages"
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

// owners returns the kinds of the owners of the child, and whether it outlives its owner.
func (l *loop) owners() []string {
	l.t.Helper()
	c := l.child()
	kinds := []string{}
	for _, r := range c.OwnerReferences {
		kinds = append(kinds, r.Kind)
	}
	if c.Annotations[naming.AnnotationOrphanOf] != "" {
		kinds = append(kinds, "orphan")
	}
	return kinds
}

// Whether a child outlives its owner follows the deletion policy, even if the child cannot be
// written.
func TestReconciler_SetsTheOwnerOfChildrenThatAreNotApplied(t *testing.T) {
	for name, hold := range map[string]func(*loop){
		"paused": func(l *loop) { l.kind.Paused = func(*webserverv1.WebServer) bool { return true } },
		"refused": func(l *loop) {
			l.refuse["apply"] = apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, "web-child", nil)
		},
		"undecided": func(l *loop) {
			l.kind.Desired = func(*webserverv1.WebServer, int) (Plan, error) {
				return Plan{}, fault.Stalled(messages.New("NotFound", "something is missing"))
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
			if diff := cmp.Diff([]string{"orphan"}, pass()); diff != "" {
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

// While an object is paused, its children stay, also those that its spec no longer asks
// for. So they also stay when it is deleted.
func TestReconciler_KeepsUnwantedChildrenOfAPausedObject(t *testing.T) {
	named := func(o client.Object) client.Object {
		o.SetNamespace("ns")
		o.SetName("unwanted")
		o.SetLabels(map[string]string{naming.LabelManagedBy: naming.ManagedBy})
		o.SetAnnotations(map[string]string{naming.AnnotationOwner: "owner-1"})
		o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "my.domain/v1", Kind: "WebServer", Name: "web", UID: "owner-1", Controller: new(true)}})
		return o
	}
	for name, tc := range map[string]struct {
		child client.Object
		stays bool
	}{
		"NetworkPolicy":      {&networkingv1.NetworkPolicy{}, true},
		"ConfigMap":          {&corev1.ConfigMap{}, true},
		"ControllerRevision": {&appsv1.ControllerRevision{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLoop(t, object(finalized, orphaning), named(tc.child))
			stored := func() client.Object {
				live := tc.child.DeepCopyObject().(client.Object)
				switch err := l.client.Get(t.Context(), client.ObjectKeyFromObject(tc.child), live); {
				case apierrors.IsNotFound(err):
					return nil
				case err != nil:
					t.Fatal(err)
				}
				return live
			}
			l.kind.Paused = func(*webserverv1.WebServer) bool { return true }
			l.kind.Desired = func(*webserverv1.WebServer, int) (Plan, error) {
				var plan Plan
				if live := stored(); live != nil {
					plan.Prune = append(plan.Prune, live)
				}
				return plan, nil
			}
			l.restart()
			freed := []string{"Observe", "patch", "Report", "status"}
			if !tc.stays {
				freed = []string{"Observe", "Report", "status"}
			}
			l.pass(freed...)
			l.pass("Observe", "Report")
			if n := len(stored().GetOwnerReferences()); (n == 0) != tc.stays {
				t.Errorf("the child has %d owners", n)
			}
			if err := l.client.Delete(t.Context(), l.stored()); err != nil {
				t.Fatal(err)
			}
			l.pass("Observe", map[bool]string{true: "patch", false: "delete"}[tc.stays], "patch") // the child, the finalizer
			live := stored()
			if (live != nil) != tc.stays {
				t.Fatalf("the child is %v", live)
			}
			if live != nil && len(live.GetOwnerReferences())+len(live.GetLabels())+len(live.GetAnnotations()) > 0 {
				t.Errorf("the child is not released: %v", live)
			}
		})
	}
}
