package converge

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/apis/common"
	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/configsource"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/testkit/messages"
)

// resting is a loop whose object is at rest: the next reconcile ends after the
// reads. Observe reads the child, and also another ConfigMap.
func resting(t *testing.T, change ...func(*loop)) *loop {
	t.Helper()
	l := newLoop(t, object())
	l.kind.Observe = func(ctx context.Context, r Reader, w *webserverv1.WebServer) (int, error) {
		l.calls = append(l.calls, "Observe")
		for _, name := range []string{"web-child", "other"} {
			if _, err := GetOwned(ctx, r, w, name, &corev1.ConfigMap{}); err != nil {
				return 0, err
			}
		}
		var all corev1.ConfigMapList
		return 7, r.List(ctx, &all, client.InNamespace("ns"), client.MatchingLabels{"team": "a"})
	}
	for _, c := range change {
		c(l)
	}
	l.restart()
	l.pass("Observe", "Desired", "apply", "Report", "status")
	l.childUID("child-1")
	l.pass("Observe", "Desired", "Report")
	return l
}

// childUID sets the UID of the child, which the fake API server does not.
func (l *loop) childUID(uid types.UID) {
	l.t.Helper()
	l.changeChild(func(c *corev1.ConfigMap) { c.UID = uid })
}

func (l *loop) changeChild(change func(*corev1.ConfigMap)) {
	l.t.Helper()
	var c corev1.ConfigMap
	if err := l.client.Get(l.t.Context(), client.ObjectKey{Namespace: "ns", Name: "web-child"}, &c); err != nil {
		l.t.Fatal(err)
	}
	change(&c)
	if err := l.client.Update(l.t.Context(), &c); err != nil {
		l.t.Fatal(err)
	}
}

// configMap creates a ConfigMap.
func (l *loop) configMap(name string, labels map[string]string) {
	l.t.Helper()
	c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), Labels: labels}}
	if err := l.client.Create(l.t.Context(), c); err != nil {
		l.t.Fatal(err)
	}
}

func TestReconciler_EndsAfterTheReadsIfNothingChanged(t *testing.T) {
	l := resting(t)
	l.pass("Observe")
	l.pass("Observe")
	l.restart() // the memory is lost
	l.pass("Observe", "Desired", "Report")
	l.pass("Observe")
}

func TestReconciler_DecidesAgainAfterAChange(t *testing.T) {
	full := []string{"Observe", "Observe", "Desired", "Report"}
	for name, tc := range map[string]struct {
		change func(*loop)
		want   []string
	}{
		"of the object's metadata": {func(l *loop) {
			w := l.stored()
			w.Annotations = map[string]string{"a": "b"}
			if err := l.client.Update(l.t.Context(), w); err != nil {
				l.t.Fatal(err)
			}
		}, full},
		"of the spec": {
			func(l *loop) { l.edit(func(w *webserverv1.WebServer) { w.Spec.Image = "nginx:2" }) },
			[]string{"Observe", "Observe", "Desired", "apply", "Report", "status"},
		},
		"of the status": {func(l *loop) {
			w := l.stored()
			w.Status.Conditions = nil
			if err := l.client.Status().Update(l.t.Context(), w); err != nil {
				l.t.Fatal(err)
			}
		}, append(full, "status")},
		"of a field of a child": {
			func(l *loop) { l.changeChild(func(c *corev1.ConfigMap) { c.Data = nil }) },
			[]string{"Observe", "Observe", "Desired", "apply", "Report"},
		},
		"of the owner of a child": {
			func(l *loop) { l.changeChild(func(c *corev1.ConfigMap) { c.OwnerReferences = nil }) },
			[]string{"Observe", "Observe", "Desired", "apply", "Report"},
		},
		"of a child that is deleted": {func(l *loop) {
			if err := l.client.Delete(l.t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web-child"}}); err != nil {
				l.t.Fatal(err)
			}
			l.calls = nil
		}, []string{"Observe", "Observe", "Desired", "apply", "Report"}},
		"that creates an object that was missing": {func(l *loop) { l.configMap("other", nil) }, full},
		"that adds an object to a list":           {func(l *loop) { l.configMap("another", map[string]string{"team": "a"}) }, full},
	} {
		t.Run(name, func(t *testing.T) {
			l := resting(t)
			l.pass("Observe")
			tc.change(l)
			l.pass(tc.want...)
		})
	}
}

func TestReconciler_DecidesAgainUnlessNothingWasToDo(t *testing.T) {
	t.Run("a child that was not observed", func(t *testing.T) {
		l := resting(t, func(l *loop) {
			l.kind.Observe = func(context.Context, Reader, *webserverv1.WebServer) (int, error) {
				l.calls = append(l.calls, "Observe")
				return 7, nil
			}
		})
		l.pass("Observe", "Desired", "Report")
	})
	t.Run("a problem", func(t *testing.T) {
		l := resting(t)
		l.refuse["Desired"] = fault.Stalled(messages.New(common.ReasonConflict, "taken"))
		l.edit(func(*webserverv1.WebServer) {})
		l.pass("Observe", "Observe", "Desired", "Report", "status")
		l.pass("Observe", "Desired", "Report")
		delete(l.refuse, "Desired")
		l.pass("Observe", "Desired", "Report", "status")
		l.pass("Observe", "Desired", "Report") // the status was written
		l.pass("Observe")
	})
	t.Run("counts that are not written yet", func(t *testing.T) {
		l := resting(t)
		l.ready = 3
		l.edit(func(w *webserverv1.WebServer) { w.Generation-- })
		l.pass("Observe", "Observe", "Desired", "Report")
		l.pass("Observe", "Desired", "Report")
		l.clock = l.clock.Add(settle)
		l.pass("Observe", "Desired", "Report", "status")
	})
	t.Run("a child to prune", func(t *testing.T) {
		l := resting(t)
		l.kind.Desired = func(*webserverv1.WebServer, int) (Plan, error) {
			l.calls = append(l.calls, "Desired")
			return Plan{Prune: []client.Object{&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "unowned", UID: "u"}}}}, nil
		}
		l.restart()
		l.pass("Observe", "Desired", "Report")
		l.pass("Observe", "Desired", "Report")
	})
}

func TestReconciler_DecidesAgainWhenTimeMayChangeADecision(t *testing.T) {
	var due time.Duration
	l := resting(t, func(l *loop) {
		report := l.kind.Report
		l.kind.Report = func(w *webserverv1.WebServer, seen int, out Outcome) {
			report(w, seen, out)
			out.RequeueAfter(due)
		}
		due = 10 * time.Minute
	})
	l.clock = l.clock.Add(9 * time.Minute)
	if r := l.pass("Observe"); r.RequeueAfter != time.Minute {
		t.Errorf("the next reconcile is in %v, want that of the decision, in a minute", r.RequeueAfter)
	}
	l.clock = l.clock.Add(time.Minute)
	l.pass("Observe", "Desired", "Report")
}

func TestReconciler_DecidesAgainAfterAChangeOfAReference(t *testing.T) {
	l := resting(t, func(l *loop) {
		l.kind.References = func(*webserverv1.WebServer) []configsource.Reference {
			return []configsource.Reference{{Name: "site"}}
		}
		l.configMap("site", nil)
	})
	l.pass("Observe")
	var c corev1.ConfigMap
	if err := l.client.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "site"}, &c); err != nil {
		t.Fatal(err)
	}
	c.Data = map[string]string{"a": "b"}
	if err := l.client.Update(t.Context(), &c); err != nil {
		t.Fatal(err)
	}
	l.pass("Observe", "Observe", "Desired", "Report")
	l.pass("Observe")
	if err := l.client.Delete(t.Context(), &c); err != nil {
		t.Fatal(err)
	}
	l.pass("Observe", "Observe", "Desired", "Report")
}

func TestReconciler_ForgetsThatADeletedObjectWasAtRest(t *testing.T) {
	l := resting(t)
	if err := l.client.Delete(t.Context(), l.stored()); err != nil {
		t.Fatal(err)
	}
	l.pass()
	if _, known := l.objects[key]; known {
		t.Error("the deleted object is still in memory")
	}
}

// The cache may have changed between Observe and Apply.
func TestConfirm_ComparesVersions(t *testing.T) {
	in := child(object(), "")
	live := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web-child", UID: "c", ResourceVersion: "2"}}
	out := NewOutcome(time.Time{}, fault.Verdict{}, map[string]client.Object{"ConfigMap": live})
	r := &Reconciler{}
	for name, tc := range map[string]struct {
		seen reads
		want bool
	}{
		"the same":     {reads{versions: map[types.UID]string{"c": "2"}}, true},
		"an older one": {reads{versions: map[types.UID]string{"c": "1"}}, false},
		"none":         {reads{versions: map[types.UID]string{}}, false},
		"without UID":  {reads{versions: map[types.UID]string{"c": "2"}, unidentified: true}, false},
	} {
		if got := r.confirm(Plan{Apply: []apply.Intent{in}}, out, &tc.seen); got != tc.want {
			t.Errorf("%s: confirm returned %t", name, got)
		}
	}
}
