package converge

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/platform-operator/platform-operator/apis/common"
	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/configsource"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/message"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

// estranged is a loop with a cache that holds only labelled children, and that
// counts the reads of the API server. Its kind has one child, which may be
// unwanted.
type estranged struct {
	*loop
	paused, unwanted, serves bool
	// lost reports that without the child its desired state is not known.
	lost     bool
	uncached int
}

func newEstranged(t *testing.T) *estranged {
	t.Helper()
	e := &estranged{loop: newLoop(t, object())}
	var observed *corev1.ConfigMap
	e.kind.Workload = &corev1.ConfigMap{}
	e.kind.Paused = func(*webserverv1.WebServer) bool { return e.paused }
	e.kind.Observe = func(ctx context.Context, r Reader, w *webserverv1.WebServer) (int, error) {
		var err error
		observed, err = GetOwned(ctx, r, w, "web-child", &corev1.ConfigMap{})
		return 7, err
	}
	e.kind.Desired = func(w *webserverv1.WebServer, _ int) (Plan, error) {
		var plan Plan
		if e.lost && observed == nil {
			return plan, fault.Waiting(time.Minute, message.New(common.ReasonReferenceNotFound, "an input is missing"))
		}
		ApplyOrPrune(&plan, !e.unwanted, func() apply.Intent { return child(w, "") }, observed)
		return plan, nil
	}
	report := e.kind.Report
	e.kind.Report = func(w *webserverv1.WebServer, n int, out Outcome) {
		e.serves = ChildOrObserved(out, "ConfigMap", "ns", "web-child", observed) != nil
		report(w, n, out)
	}
	e.restart()
	e.calls = nil
	e.reconcile("apply", "Report", "status")
	return e
}

// restart simulates a new process. Uncached reads of the owner are not counted.
func (e *estranged) restart() {
	get := func(cached bool) client.Client {
		return interceptor.NewClient(e.client, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			err := c.Get(ctx, key, o, opts...)
			if _, isChild := o.(*corev1.ConfigMap); !isChild {
				return err
			}
			switch {
			case !cached:
				e.uncached++
			case err == nil && o.GetLabels()[naming.LabelManagedBy] != naming.ManagedBy:
				*o.(*corev1.ConfigMap) = corev1.ConfigMap{}
				return apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, key.Name)
			}
			return err
		}})
	}
	e.Reconciler = NewReconciler(e.kind.erase(), get(true), configsource.NewReader(e.client, e.client), apply.NewApplier(get(true), get(false), apply.NoRecorder{}), e.recorder, e.now)
}

// reconcile reconciles once and checks which functions were called and which
// requests were sent.
func (e *estranged) reconcile(want ...string) {
	e.t.Helper()
	e.pass(want...)
}

// byHand changes the child manually, and handles the events of the cache.
func (e *estranged) byHand(change func(*corev1.ConfigMap)) {
	e.t.Helper()
	c := &corev1.ConfigMap{}
	if err := e.client.Get(e.t.Context(), client.ObjectKey{Namespace: "ns", Name: "web-child"}, c); err != nil {
		e.t.Fatal(err)
	}
	before := c.DeepCopy()
	change(c)
	if err := e.client.Update(e.t.Context(), c, client.FieldOwner("kubectl-edit")); err != nil {
		e.t.Fatal(err)
	}
	if naming.IsLabelled(before) && !naming.IsLabelled(c) {
		first{EventHandler: plain(), disowned: e.disowned, disappeared: e.disappeared}.Delete(e.t.Context(), event.DeleteEvent{Object: before}, &prioritiesOf{})
	}
}

func (e *estranged) existsStill() bool {
	return e.client.Get(e.t.Context(), client.ObjectKey{Namespace: "ns", Name: "web-child"}, &corev1.ConfigMap{}) == nil
}

func unlabel(c *corev1.ConfigMap) { delete(c.Labels, naming.LabelManagedBy) }
func disown(c *corev1.ConfigMap)  { c.OwnerReferences = nil }

func TestReconciler_SeesEstrangedChildrenOfAPausedObject(t *testing.T) {
	for name, tc := range map[string]struct {
		change []func(*corev1.ConfigMap)
		reads  int // uncached, of one reconcile
	}{
		"as it was":             {nil, 0},
		"without owner":         {[]func(*corev1.ConfigMap){disown}, 0},
		"without label":         {[]func(*corev1.ConfigMap){unlabel}, 1},
		"without both":          {[]func(*corev1.ConfigMap){disown, unlabel}, 1},
		"without both, at once": {[]func(*corev1.ConfigMap){func(c *corev1.ConfigMap) { disown(c); unlabel(c) }}, 1},
	} {
		for _, restarted := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				e := newEstranged(t)
				e.paused = true
				for _, change := range tc.change {
					e.byHand(change)
				}
				if restarted {
					e.restart()
				}
				for range 2 {
					e.uncached = 0
					e.calls = nil
					e.reconcileOnly()
					if !e.serves || e.uncached != tc.reads {
						t.Errorf("restarted %v: seen %v, with %d reads past the cache, want %d", restarted, e.serves, e.uncached, tc.reads)
					}
				}
				if slices.ContainsFunc(e.calls, func(c string) bool { return c == "apply" || c == "patch" }) {
					t.Errorf("a child of a paused object was written: %v", e.calls)
				}
				e.paused = false
				e.reconcileOnly()
				e.uncached, e.calls = 0, nil
				e.reconcileOnly()
				if e.uncached != 0 || !e.serves {
					t.Errorf("at rest: %d reads past the cache, seen %v", e.uncached, e.serves)
				}
				if diff := cmp.Diff([]string{"Report"}, e.calls); diff != "" {
					t.Errorf("at rest (-want +got):\n%s", diff)
				}
			})
		}
	}
}

func TestReconciler_FindsAnUnlabelledWorkloadWhoseDesiredStateIsNotKnown(t *testing.T) {
	for name, prepare := range map[string]func(*estranged){
		"available":                     func(*estranged) {},
		"the status says not available": func(e *estranged) { e.falsify() },
	} {
		t.Run(name, func(t *testing.T) {
			e := newEstranged(t)
			e.byHand(unlabel)
			prepare(e)
			e.lost = true
			e.restart()
			e.uncached = 0
			e.reconcileOnly()
			if !e.serves || e.uncached == 0 {
				t.Errorf("the workload is reported as existing: %v, after %d reads from the API server", e.serves, e.uncached)
			}
			e.uncached, e.calls = 0, nil
			e.reconcileOnly()
			if diff := cmp.Diff([]string{"Report"}, e.calls); diff != "" || e.uncached != 0 {
				t.Errorf("at rest: %d reads from the API server (-want +got):\n%s", e.uncached, diff)
			}
		})
	}
}

// The status is what a restarted operator knows of an object, and it may be wrong.
func TestReconciler_FindsTheUnlabelledWorkloadOfAPausedObjectAfterARestart(t *testing.T) {
	for name, prepare := range map[string]func(*estranged){
		"available":                     func(*estranged) {},
		"the status says not available": func(e *estranged) { e.falsify() },
		"the status was erased":         func(e *estranged) { e.changeStatus(func(s *common.Status) { *s = common.Status{} }) },
		"it is not wanted":              func(e *estranged) { e.unwanted = true },
	} {
		t.Run(name, func(t *testing.T) {
			e := newEstranged(t)
			e.paused = true
			e.byHand(unlabel)
			prepare(e)
			e.restart()
			for range 3 {
				e.uncached = 0
				result := e.reconcileOnly()
				if !e.serves || e.uncached != 1 {
					t.Errorf("seen %v, with %d reads from the API server, want 1", e.serves, e.uncached)
				}
				if result.RequeueAfter != fault.Probe {
					t.Errorf("it is read again after %v, want %v", result.RequeueAfter, fault.Probe)
				}
			}
			if !e.existsStill() {
				t.Error("a child of a paused object was deleted")
			}
		})
	}
}

// No event reports that another tool gives a child back without restoring its label.
func TestReconciler_FindsTheWorkloadOfAPausedObjectThatWasGivenBack(t *testing.T) {
	e := newEstranged(t)
	e.paused = true
	e.byHand(func(c *corev1.ConfigMap) { disown(c); c.Labels[naming.LabelManagedBy] = "Helm" })
	e.uncached = 0
	if result := e.reconcileOnly(); e.serves || e.uncached != 1 || result.RequeueAfter != fault.Probe {
		t.Errorf("of another tool: seen %v, with %d reads past the cache, want 1; read again after %v, want %v", e.serves, e.uncached, result.RequeueAfter, fault.Probe)
	}
	e.byHand(unlabel)
	if e.reconcileOnly(); !e.serves {
		t.Error("it was given back, and is not seen")
	}
}

// Foreground deletion follows the deletion policy, even if the cache does not hold the
// child.
func TestReconciler_RetainsUnlabelledChildrenOfAPausedObject(t *testing.T) {
	relabel := func(c *corev1.ConfigMap) { c.Labels[naming.LabelManagedBy] = "Helm" }
	for name, tc := range map[string]struct {
		change                   func(*corev1.ConfigMap)
		isNotWorkload, restarted bool
	}{
		"the workload":                   {change: unlabel},
		"with the label of Helm":         {change: relabel},
		"another child":                  {change: unlabel, isNotWorkload: true},
		"the workload, after a restart":  {change: unlabel, restarted: true},
		"another child, after a restart": {change: unlabel, isNotWorkload: true, restarted: true},
		"of Helm, after a restart":       {change: relabel, isNotWorkload: true, restarted: true},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEstranged(t)
			e.paused = true
			if tc.isNotWorkload {
				e.kind.Workload = &corev1.Pod{}
			}
			e.restart()
			e.reconcileOnly()
			e.byHand(tc.change)
			e.reconcileOnly()
			if tc.restarted {
				e.restart()
			}
			e.edit(orphaning)
			e.reconcileOnly()
			if diff := cmp.Diff([]string{"WebServer", "Namespace"}, e.owners()); diff != "" {
				t.Errorf("owners (-want +got):\n%s", diff)
			}
			e.edit(func(w *webserverv1.WebServer) { w.Spec.DeletionPolicy = "" })
			e.reconcileOnly()
			if diff := cmp.Diff([]string{"WebServer"}, e.owners()); diff != "" {
				t.Errorf("owners after the policy was reset (-want +got):\n%s", diff)
			}
		})
	}
}

// A child that is not applied, because another one belongs to another owner or because
// the plan is incomplete, is not found by applying it.
func TestReconciler_RetainsUnlabelledChildrenThatAreNotApplied(t *testing.T) {
	blocked := func(e *estranged) {
		foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main", Labels: map[string]string{naming.LabelManagedBy: naming.ManagedBy}, OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "Pod", Name: "other", UID: "other-1", Controller: new(true)},
		}}}
		if err := e.client.Create(e.t.Context(), foreign); err != nil {
			e.t.Fatal(err)
		}
		desired := e.kind.Desired
		e.kind.Desired = func(w *webserverv1.WebServer, seen int) (Plan, error) {
			plan, err := desired(w, seen)
			main := apply.New(corev1ac.ConfigMap("main", "ns"), func() *corev1.ConfigMap { return &corev1.ConfigMap{} })
			plan.Apply = append([]apply.Intent{main}, plan.Apply...)
			plan.Accompany(main.Ref())
			return plan, err
		}
	}
	incomplete := func(e *estranged) { e.lost = true }
	for name, tc := range map[string]struct {
		unapplied func(*estranged)
		restarted bool
	}{
		"blocked":                     {unapplied: blocked},
		"blocked, after a restart":    {unapplied: blocked, restarted: true},
		"incomplete, after a restart": {unapplied: incomplete, restarted: true},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEstranged(t)
			e.kind.Workload = &corev1.Pod{}
			tc.unapplied(e)
			e.restart()
			e.reconcileOnly()
			e.byHand(unlabel)
			if tc.restarted {
				e.restart()
			}
			e.reconcileOnly()
			e.reconcileOnly()
			e.edit(orphaning)
			if again := e.reconcileOnly().RequeueAfter; again < fault.Probe/2 {
				t.Errorf("it is reconciled again after %s, want about %s", again, fault.Probe)
			}
			if diff := cmp.Diff([]string{"WebServer", "Namespace"}, e.owners()); diff != "" {
				t.Errorf("owners (-want +got):\n%s", diff)
			}
		})
	}
}

// The plan has a child that is not wanted only if it is observed.
func TestReconciler_ReleasesUnlabelledChildrenOfAPausedObject(t *testing.T) {
	for name, unwanted := range map[string]bool{"wanted": false, "not wanted": true} {
		t.Run(name, func(t *testing.T) {
			e := newEstranged(t)
			e.paused, e.unwanted = true, unwanted
			e.byHand(unlabel)
			e.edit(func(w *webserverv1.WebServer) { orphaning(w); finalized(w) })
			e.reconcileOnly()
			if err := e.client.Delete(t.Context(), e.stored()); err != nil {
				t.Fatal(err)
			}
			e.reconcileOnly()
			if c := e.child(); len(c.OwnerReferences)+len(c.Annotations) > 0 {
				t.Errorf("the child is not released: %v", c.ObjectMeta)
			}
		})
	}
}

// A paused object with the policy Orphan has its missing children searched for once.
func TestReconciler_SearchesOnceForChildrenToRetain(t *testing.T) {
	e := newEstranged(t)
	e.kind.Workload = &corev1.Pod{}
	e.paused = true
	e.edit(orphaning)
	if err := e.client.Delete(t.Context(), e.child()); err != nil {
		t.Fatal(err)
	}
	e.restart()
	for i, want := range []int{1, 0, 0} {
		e.uncached = 0
		if e.reconcileOnly(); e.uncached != want {
			t.Errorf("reconcile %d: %d reads past the cache, want %d", i, e.uncached, want)
		}
	}
}

// falsify makes the status say that the object is not available.
func (e *estranged) falsify() {
	e.t.Helper()
	e.changeStatus(func(s *common.Status) {
		meta.SetStatusCondition(&s.Conditions, metav1.Condition{Type: common.ConditionAvailable, Status: metav1.ConditionFalse, Reason: "Wrong"})
	})
}

func (e *estranged) changeStatus(change func(*common.Status)) {
	e.t.Helper()
	w := e.stored()
	change(w.GetStatus())
	if err := e.client.Status().Update(e.t.Context(), w); err != nil {
		e.t.Fatal(err)
	}
}

func TestReconciler_ReadsAWorkloadThatDoesNotExistOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		prepare func(*estranged)
		reads   int
	}{
		"paused":                    {func(e *estranged) { e.paused = true }, 1},
		"paused, not available":     {func(e *estranged) { e.paused = true; e.falsify() }, 1},
		"paused, not wanted":        {func(e *estranged) { e.paused, e.unwanted = true, true }, 1},
		"paused, not the workload":  {func(e *estranged) { e.paused = true; e.kind.Workload = &corev1.Pod{} }, 0},
		"the plan is incomplete":    {func(e *estranged) { e.lost = true }, 1},
		"the plan does not have it": {func(e *estranged) { e.unwanted = true }, 0},
		"the plan is to create it":  {func(*estranged) {}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEstranged(t)
			if err := e.client.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web-child"}}); err != nil {
				t.Fatal(err)
			}
			tc.prepare(e)
			e.restart()
			e.uncached = 0
			e.reconcileOnly()
			if e.uncached != tc.reads {
				t.Errorf("%d reads from the API server, want %d", e.uncached, tc.reads)
			}
			e.uncached = 0
			for range 3 {
				e.reconcileOnly()
			}
			if e.uncached != 0 {
				t.Errorf("%d reads from the API server at rest", e.uncached)
			}
		})
	}
}

// reconcileOnly reconciles once.
func (e *estranged) reconcileOnly() reconcile.Result {
	e.t.Helper()
	result, err := e.Reconcile(e.t.Context(), reconcile.Request{NamespacedName: key})
	if err != nil {
		e.t.Fatal(err)
	}
	return result
}

func TestReconciler_PrunesEstrangedChildren(t *testing.T) {
	type step func(*estranged)
	want := func(e *estranged) { e.edit(func(*webserverv1.WebServer) { e.unwanted = true }) }
	hand := func(change func(*corev1.ConfigMap)) step {
		return func(e *estranged) { e.byHand(change) }
	}
	pause := func(e *estranged) { e.edit(func(*webserverv1.WebServer) { e.paused = true }) }
	resume := func(e *estranged) { e.edit(func(*webserverv1.WebServer) { e.paused = false }) }
	look := func(e *estranged) { e.reconcileOnly() }
	restart := func(e *estranged) { e.restart() }
	adopt := hand(func(c *corev1.ConfigMap) {
		c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "x", Controller: new(true)}}
	})
	for name, tc := range map[string]struct {
		steps []step
		stays bool
		reads int
	}{
		"as it was":                      {steps: []step{want}},
		"without owner":                  {steps: []step{hand(disown), want}},
		"without label":                  {steps: []step{hand(unlabel), want}, reads: 1},
		"without both":                   {steps: []step{hand(disown), hand(unlabel), want}, reads: 1},
		"paused, and without owner":      {steps: []step{pause, hand(disown), look, resume, want}},
		"paused, and without label":      {steps: []step{pause, hand(unlabel), look, resume, want}, reads: 2},
		"unwanted and paused":            {steps: []step{pause, want, look, hand(unlabel), look, look, resume}, reads: 3},
		"while the operator was away":    {steps: []step{hand(unlabel), want, restart}, stays: true}, // a search would cost each edit after a restart
		"of another owner":               {steps: []step{adopt, want}, stays: true},
		"of another owner, unlabelled":   {steps: []step{adopt, hand(unlabel), want}, stays: true},
		"of another tool, without owner": {steps: []step{hand(func(c *corev1.ConfigMap) { disown(c); c.Labels[naming.LabelManagedBy] = "Helm" }), want}, stays: true, reads: 1},
		"given away":                     {steps: []step{hand(func(c *corev1.ConfigMap) { disown(c); delete(c.Annotations, naming.AnnotationOwner) }), want}, stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEstranged(t)
			for _, s := range tc.steps {
				s(e)
			}
			e.reconcileOnly()
			if got := e.existsStill(); got != tc.stays {
				t.Errorf("it exists: %v, want %v", got, tc.stays)
			}
			if e.uncached != tc.reads {
				t.Errorf("%d reads past the cache, want %d", e.uncached, tc.reads)
			}
			if tc.stays {
				return
			}
			// The event of its deletion must not cause a read.
			e.uncached = 0
			e.reconcileOnly()
			e.reconcileOnly()
			if e.uncached > tc.reads {
				t.Errorf("%d reads past the cache after it was deleted", e.uncached)
			}
		})
	}
}

// The deletion of a pod takes time, so the event of its end shows a pod that was
// being deleted.
func TestReconciler_ForgetsPrunedChildrenThatWereDeletedGracefully(t *testing.T) {
	e := newEstranged(t)
	c := &corev1.ConfigMap{}
	if err := e.client.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "web-child"}, c); err != nil {
		t.Fatal(err)
	}
	e.unwanted = true
	e.reconcileOnly()
	if n := len(e.objects[key].pruned); n != 1 {
		t.Fatalf("%d deletions are remembered, want 1", n)
	}
	c.DeletionTimestamp = new(metav1.Now())
	e.disappeared(c)
	if n := len(e.objects[key].pruned); n != 0 {
		t.Errorf("%d deletions are remembered, want none", n)
	}
}

// A child of an orphaning object that was deleted in the foreground has also
// lost its owner reference. The operator must not delete it.
func TestReconciler_PrunesNoOrphanOfADeletedOwner(t *testing.T) {
	e := newEstranged(t)
	e.byHand(disown)
	e.unwanted = true
	stale := e.stored()
	if err := e.client.Delete(t.Context(), stale); err != nil {
		t.Fatal(err)
	}
	a := apply.NewApplier(e.client, e.client, apply.NoRecorder{})
	c := &corev1.ConfigMap{}
	if err := e.client.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "web-child"}, c); err != nil {
		t.Fatal(err)
	}
	if err := a.Delete(t.Context(), apply.Owner{Object: stale}, "ConfigMap", c); err == nil || !e.existsStill() {
		t.Errorf("deleted, error %v", err)
	}
}

func TestForEachChild_FindsAChildThatTheCacheDoesNotHold(t *testing.T) {
	named := func(kind string) apply.Intent {
		in := apply.New(corev1ac.ConfigMap("web", "ns"), func() *corev1.ConfigMap { return &corev1.ConfigMap{} })
		in.Kind = kind
		return in
	}
	policy, pod := named("NetworkPolicy"), named("Pod")
	pod.StartAfter = []apply.Ref{policy.Ref()}
	for _, unlabelled := range []bool{false, true} {
		var got []string
		absent := func(context.Context, apply.Intent) (bool, error) { return false, nil }
		uncached := func(_ context.Context, in apply.Intent) (bool, error) { return unlabelled && in.Kind == "Pod", nil }
		err := ForEachChild(t.Context(), Plan{Apply: []apply.Intent{policy, pod}}, absent, uncached, func(in apply.Intent) error {
			if in.Kind == "NetworkPolicy" {
				return apierrors.NewBadRequest("refused")
			}
			got = append(got, in.Kind)
			if !in.Exists {
				t.Error("the Pod may be created")
			}
			return nil
		})
		if err == nil || (len(got) == 1) != unlabelled {
			t.Errorf("unlabelled %v: wrote %v, error %v", unlabelled, got, err)
		}
	}
}
