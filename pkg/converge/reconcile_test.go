package converge

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/platform-operator/platform-operator/apis/common"
	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/conditions"
	"github.com/platform-operator/platform-operator/pkg/configsource"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/testkit/messages"
)

// loop reconciles a kind with one ConfigMap, parts of which a test can replace,
// with a fake API server that counts writes.
type loop struct {
	t      *testing.T
	kind   testKind
	client client.WithWatch
	*Reconciler

	calls    []string
	lines    []string
	recorder *aboutRecorder
	clock    time.Time
	state    conditions.State
	ready    int32
	refuse   map[string]error // by the type of the request
}

var key = types.NamespacedName{Namespace: "ns", Name: "web"}

// aboutRecorder keeps the names of the children that events are about.
type aboutRecorder struct {
	*events.FakeRecorder
	about []string
}

func (r *aboutRecorder) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	if child, ok := related.(client.Object); ok {
		r.about = append(r.about, child.GetName())
	}
	r.FakeRecorder.Eventf(regarding, related, kind, reason, action, note, args...)
}

func object(change ...func(*webserverv1.WebServer)) *webserverv1.WebServer {
	w := &webserverv1.WebServer{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "owner-1", Generation: 1}}
	for _, c := range change {
		c(w)
	}
	return w
}

func orphaning(w *webserverv1.WebServer) { w.Spec.DeletionPolicy = common.DeletionPolicyOrphan }
func finalized(w *webserverv1.WebServer) { w.Finalizers = []string{naming.Finalizer, "others.io/hold"} }

func deleted(w *webserverv1.WebServer) {
	w.DeletionTimestamp = new(metav1.NewTime(time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)))
}

func child(w *webserverv1.WebServer, data string) apply.Intent {
	return apply.New(corev1ac.ConfigMap(w.Name+"-child", w.Namespace).WithData(map[string]string{"image": w.Spec.Image + data}),
		func() *corev1.ConfigMap { return &corev1.ConfigMap{} })
}

func newLoop(t *testing.T, objects ...client.Object) *loop {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), webserverv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	l := &loop{t: t, recorder: &aboutRecorder{FakeRecorder: events.NewFakeRecorder(100)}, clock: time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC), refuse: map[string]error{}}
	up := conditions.Condition{Status: true, Reason: "Up", Message: "up"}
	l.state = conditions.State{Available: up, Ready: up}
	said := func(what string) error {
		l.calls = append(l.calls, what)
		return l.refuse[what]
	}
	l.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithReturnManagedFields().WithStatusSubresource(&webserverv1.WebServer{}).
		WithIndex(&corev1.ConfigMap{}, naming.IndexOwner, func(o client.Object) []string { return []string{string(naming.OwnerUID(o))} }).
		WithInterceptorFuncs(interceptor.Funcs{
			Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
				if err := said("apply"); err != nil {
					return err
				}
				return c.Apply(ctx, o, opts...)
			},
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				if err := said("patch"); err != nil {
					return err
				}
				return c.Patch(ctx, o, p, opts...)
			},
			Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
				if err := said("delete"); err != nil {
					return err
				}
				return c.Delete(ctx, o, opts...)
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				raw, err := p.Data(o)
				if err != nil || !strings.Contains(string(raw), `"resourceVersion"`) {
					t.Errorf("the status patch is not fenced by a resource version: %s %v", raw, err)
				}
				if err := said(sub); err != nil {
					return err
				}
				return c.SubResource(sub).Patch(ctx, o, p, opts...)
			},
		}).Build()
	l.kind = testKind{
		Kind: Kind[*webserverv1.WebServer, int]{
			New: func() *webserverv1.WebServer { return &webserverv1.WebServer{} },
			Log: LogText{Gone: "it no longer exists"},
			Observe: func(_ context.Context, r Reader, _ *webserverv1.WebServer) (int, error) {
				if r.Offline {
					return 7, nil
				}
				return 7, said("Observe")
			},
		},
		Desired: func(w *webserverv1.WebServer, seen int) (Plan, error) {
			if seen != 7 && w.DeletionTimestamp.IsZero() {
				t.Errorf("Desired got %d, not what was observed", seen)
			}
			if err := said("Desired"); err != nil {
				return Plan{}, err
			}
			return Plan{Apply: []apply.Intent{child(w, "")}}, nil
		},
		Report: func(w *webserverv1.WebServer, _ int, out Outcome) {
			l.calls = append(l.calls, "Report")
			conditions.Report(&w.Status.Status, w.Generation, out.Now, l.state, out.Problem)
			w.Status.ReadyReplicas = l.ready
		},
	}
	l.restart()
	return l
}

// testKind is a kind whose model consists of two functions.
type testKind struct {
	Kind[*webserverv1.WebServer, int]
	Desired func(*webserverv1.WebServer, int) (Plan, error)
	Report  func(*webserverv1.WebServer, int, Outcome)
}

func (k testKind) erase() AnyKind {
	k.Model = func(w *webserverv1.WebServer, observed int) Model {
		return testModel{k, w, observed}
	}
	return Erase(k.Kind)
}

type testModel struct {
	kind     testKind
	object   *webserverv1.WebServer
	observed int
}

func (m testModel) Plan() (Plan, error) { return m.kind.Desired(m.object, m.observed) }

func (m testModel) UpdateStatus(out Outcome) { m.kind.Report(m.object, m.observed, out) }

// restart simulates a new process, or makes a change of the kind effective.
func (l *loop) restart() {
	l.Reconciler = NewReconciler(l.kind.erase(), l.client, configsource.NewReader(l.client, l.client), apply.NewApplier(l.client, l.client, nil), l.recorder, func() time.Time { return l.clock })
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

// pass reconciles once, and checks which functions were called and which
// requests were sent, in order.
func (l *loop) pass(want ...string) reconcile.Result {
	l.t.Helper()
	result, err := l.try(want...)
	if err != nil {
		l.t.Errorf("got %v", err)
	}
	return result
}

func (l *loop) try(want ...string) (reconcile.Result, error) {
	l.t.Helper()
	ctx := log.IntoContext(l.t.Context(), funcr.New(func(_, args string) { l.lines = append(l.lines, args) }, funcr.Options{}))
	l.calls = nil
	result, err := l.Reconcile(ctx, reconcile.Request{NamespacedName: key})
	if !slices.Equal(l.calls, want) {
		l.t.Errorf("called %q, want %q", l.calls, want)
	}
	return result, err
}

func (l *loop) stored() *webserverv1.WebServer {
	l.t.Helper()
	w := &webserverv1.WebServer{}
	if err := l.client.Get(l.t.Context(), key, w); err != nil {
		l.t.Fatal(err)
	}
	return w
}

func (l *loop) edit(change func(*webserverv1.WebServer)) {
	l.t.Helper()
	w := l.stored()
	change(w)
	w.Generation++
	if err := l.client.Update(l.t.Context(), w); err != nil {
		l.t.Fatal(err)
	}
}

// heard returns the events since the last call.
func (l *loop) heard() []string {
	var all []string
	for {
		select {
		case e := <-l.recorder.Events:
			all = append(all, e)
		default:
			return all
		}
	}
}

func ready(w *webserverv1.WebServer) string {
	for _, c := range w.Status.Conditions {
		if c.Type == common.ConditionReady {
			return string(c.Status) + " " + c.Reason
		}
	}
	return ""
}

func (l *loop) said(want ...string) {
	l.t.Helper()
	if diff := cmp.Diff(want, l.heard()); diff != "" {
		l.t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestReconciler_RunsItsStepsInOrder(t *testing.T) {
	l := newLoop(t, object())
	l.pass("Observe", "Desired", "apply", "Report", "status")
	if got := ready(l.stored()); got != "True Up" {
		t.Errorf("Ready is %q", got)
	}
	l.pass("Observe", "Desired", "Report")
	l.restart()
	l.pass("Observe", "Desired", "Report")
	l.edit(func(w *webserverv1.WebServer) { w.Spec.Image = "nginx:2" })
	l.pass("Observe", "Desired", "apply", "Report", "status")
}

func TestReconciler_UpdatesTheStatusAfterAFailure(t *testing.T) {
	taken := fault.Stalled(messages.New(common.ReasonConflict, "taken"))
	for name, tc := range map[string]struct {
		fails string
		err   error
		want  []string
		ready string
		again bool // retried with the back-off of errors
	}{
		"Observe":            {"Observe", errors.New("no answer"), []string{"Observe", "status"}, "Unknown Error", true},
		"a stall of Observe": {"Observe", taken, []string{"Observe", "status"}, "Unknown Conflict", false},
		"Desired":            {"Desired", taken, []string{"Observe", "Desired", "Report", "status"}, "False Conflict", false},
		"Apply":              {"apply", errors.New("no answer"), []string{"Observe", "Desired", "apply", "Report", "status"}, "False Error", true},
		"a stall of Apply": {
			"apply", apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "c", errors.New("exceeded quota: q")),
			[]string{"Observe", "Desired", "apply", "Report", "status"},
			"False QuotaExceeded", false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLoop(t, object())
			l.refuse[tc.fails] = tc.err
			result, err := l.try(tc.want...)
			if got := ready(l.stored()); got != tc.ready {
				t.Errorf("Ready is %q, want %q", got, tc.ready)
			}
			if (err != nil) != tc.again || (result.RequeueAfter > 0) == tc.again {
				t.Errorf("got %+v, %v", result, err)
			}
		})
	}
}

func TestReconciler_AppliesAPlanReturnedWithAnError(t *testing.T) {
	l := newLoop(t, object())
	l.kind.Desired = func(w *webserverv1.WebServer, _ int) (Plan, error) {
		return Plan{Apply: []apply.Intent{child(w, "")}}, fault.Stalled(messages.New("NotFound", "something else is missing"))
	}
	l.restart()
	l.pass("Observe", "apply", "Report", "status")
	if got := ready(l.stored()); got != "False NotFound" {
		t.Errorf("Ready is %q", got)
	}
}

func TestReconciler_ObservesPausedObjectsWithoutWrites(t *testing.T) {
	l := newLoop(t, object())
	paused := false
	l.kind.Paused = func(*webserverv1.WebServer) bool { return paused }
	l.restart()
	l.pass("Observe", "Desired", "apply", "Report", "status")
	paused = true
	l.pass("Observe", "Desired", "Report") // the children match: nothing to report
	w := l.stored()
	w.Spec.Image = "nginx:2"
	if err := l.client.Update(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	l.pass("Observe", "Desired", "Report", "status")
	held := func(want string) {
		t.Helper()
		c := meta.FindStatusCondition(l.stored().Status.Conditions, common.ConditionReady)
		want = "Children differ from the spec and are not changed, because spec.paused is true: " + want
		if c == nil || c.Reason != common.ReasonPaused || c.Message != want {
			t.Errorf("got %+v, want %s", c, want)
		}
	}
	held(`ConfigMap "web-child" (data.image).`)
	if err := l.client.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web-child"}}); err != nil {
		t.Fatal(err)
	}
	l.calls = nil
	l.pass("Observe", "Desired", "Report", "status")
	held(`ConfigMap "web-child" (to be created).`)
	paused = false
	l.pass("Observe", "Desired", "apply", "Report", "status")
}

func TestReconciler_ReportsPendingDeletionsOfPausedObjects(t *testing.T) {
	l := newLoop(t, object())
	l.kind.Paused = func(*webserverv1.WebServer) bool { return true }
	l.kind.Desired = func(*webserverv1.WebServer, int) (Plan, error) {
		return Plan{Prune: []client.Object{&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "x"}}}}, nil
	}
	l.restart()
	l.pass("Observe", "Report", "status")
	c := meta.FindStatusCondition(l.stored().Status.Conditions, common.ConditionReady)
	if want := `Children differ from the spec and are not changed, because spec.paused is true: Service "x" (to be deleted).`; c == nil || c.Message != want {
		t.Errorf("got %+v, want %s", c, want)
	}
}

func TestReconciler_DoesNotReportConflicts(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{}, "web", errors.New("modified"))
	l := newLoop(t, object())
	l.refuse["Desired"] = conflict
	if r := l.pass("Observe", "Desired"); r.RequeueAfter == 0 {
		t.Error("it does not come back")
	}
	delete(l.refuse, "Desired")
	l.refuse["status"] = conflict
	if r := l.pass("Observe", "Desired", "apply", "Report", "status"); r.RequeueAfter == 0 {
		t.Error("it does not come back for the status")
	}
	l.said()
}

// The intent for an existing child may be wrong for one that must be created:
// the pod of an ImmortalContainer, for example, is created with a scheduling
// gate.
func TestReconciler_SkipsAChildDeletedDuringTheReconcile(t *testing.T) {
	l := newLoop(t, object())
	l.pass("Observe", "Desired", "apply", "Report", "status")
	made := &corev1.ConfigMap{}
	if err := l.client.Get(t.Context(), types.NamespacedName{Namespace: "ns", Name: "web-child"}, made); err != nil {
		t.Fatal(err)
	}
	made.UID = "child-1" // the fake server does not set it
	if err := l.client.Update(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	l.kind.Observe = func(ctx context.Context, r Reader, w *webserverv1.WebServer) (int, error) {
		_, err := GetOwned(ctx, r, w, w.Name+"-child", made)
		return 7, err
	}
	l.kind.Desired = func(w *webserverv1.WebServer, _ int) (Plan, error) {
		if made.UID != "" {
			if err := l.client.Delete(t.Context(), made); err != nil {
				t.Fatal(err)
			}
		}
		return Plan{Apply: []apply.Intent{child(w, " changed")}}, nil
	}
	l.restart()
	if r := l.pass("delete"); r.RequeueAfter == 0 {
		t.Error("it does not come back")
	}
	made = &corev1.ConfigMap{}
	l.pass("apply", "Report")
}

func TestReconciler_RequeuesAfterTheShortestDelay(t *testing.T) {
	l := newLoop(t, object())
	report := l.kind.Report
	l.kind.Report = func(w *webserverv1.WebServer, seen int, out Outcome) {
		out.RequeueAfter(time.Hour)
		out.RequeueAfter(time.Minute)
		out.RequeueAfter(2 * time.Minute)
		report(w, seen, out)
	}
	l.restart()
	if r := l.pass("Observe", "Desired", "apply", "Report", "status"); r.RequeueAfter != time.Minute {
		t.Errorf("it comes back after %s", r.RequeueAfter)
	}
}

func TestReconciler_IgnoresStatusWritesToDeletedObjects(t *testing.T) {
	l := newLoop(t, object())
	l.refuse["status"] = apierrors.NewNotFound(schema.GroupResource{}, "web")
	l.pass("Observe", "Desired", "apply", "Report", "status")
	l.said()
}

func TestReconciler_RetriesFailedStatusWrites(t *testing.T) {
	l := newLoop(t, object())
	broken := errors.New("no answer")
	l.refuse["status"] = broken
	if _, err := l.try("Observe", "Desired", "apply", "Report", "status"); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	l.said() // no event for a status that was not written
}

func TestReconciler_FailureOfOneChild(t *testing.T) {
	now := metav1.Now()
	for name, tc := range map[string]struct {
		stands *corev1.ConfigMap // exists with the name of the first child
		steps  []string
		want   []string // children in the outcome
		ready  string
	}{
		"does not keep the others": {
			stands: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "first", DeletionTimestamp: &now, Finalizers: []string{"somebody/s"}}},
			steps:  []string{"Observe", "apply", "Report", "status"}, want: []string{"web-child"}, ready: "False Waiting",
		},
		"does not keep the others when the first is unowned": {
			stands: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "first"}},
			steps:  []string{"Observe", "apply", "Report", "status"}, want: []string{"web-child"}, ready: "False Conflict",
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLoop(t, object(), tc.stands)
			l.kind.Desired = func(w *webserverv1.WebServer, _ int) (Plan, error) {
				first := apply.New(corev1ac.ConfigMap("first", "ns"), func() *corev1.ConfigMap { return &corev1.ConfigMap{} })
				return Plan{Apply: []apply.Intent{first, child(w, "")}}, nil
			}
			var got []string
			report := l.kind.Report
			l.kind.Report = func(w *webserverv1.WebServer, s int, out Outcome) {
				for _, name := range []string{"first", "web-child"} {
					if _, ok := Child[*corev1.ConfigMap](out, "ConfigMap", "ns", name); ok {
						got = append(got, name)
					}
				}
				if _, ok := Child[*corev1.Secret](out, "ConfigMap", "ns", "web-child"); ok {
					t.Error("a child is found as another type")
				}
				report(w, s, out)
			}
			l.restart()
			l.pass(tc.steps...)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("children in the outcome (-want +got):\n%s", diff)
			}
			if got := ready(l.stored()); got != tc.ready {
				t.Errorf("Ready is %q, want %q", got, tc.ready)
			}
		})
	}
}

// Children that depend on the disputed one are written.
func TestReconciler_ReportsADispute(t *testing.T) {
	l := newLoop(t, object())
	l.kind.Desired = func(w *webserverv1.WebServer, _ int) (Plan, error) {
		dependent := apply.New(corev1ac.ConfigMap("dependent", "ns"), func() *corev1.ConfigMap { return &corev1.ConfigMap{} })
		dependent.Requires = []apply.Ref{child(w, "").Ref()}
		return Plan{Apply: []apply.Intent{child(w, ""), dependent}}, nil
	}
	matches := l.recordMatches()
	l.restart()
	l.pass("Observe", "apply", "apply", "Report", "status")
	l.heard()
	for range 5 {
		l.changeChild(drifted)
		l.pass("Observe", "apply", "Report")
		l.said(`Normal Restored ConfigMap "web-child" was changed by another client and is restored: data.image. Change the spec of this object instead, or pause it.`)
	}
	// Events about different children must not become one.
	if diff := cmp.Diff(slices.Repeat([]string{"web-child"}, 5), l.recorder.about); diff != "" {
		t.Errorf("the children that events are about (-want +got):\n%s", diff)
	}
	l.changeChild(drifted)
	if err := l.client.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "dependent"}}); err != nil {
		t.Fatal(err)
	}
	again := l.pass("Observe", "apply", "Report", "status").RequeueAfter
	if got := ready(l.stored()); got != "False Disputed" {
		t.Errorf("Ready is %q", got)
	}
	if again <= 0 || again > time.Minute {
		t.Errorf("reconciled again after %s", again)
	}
	if got := l.child().Data["image"]; got != "other" {
		t.Errorf("restored to %q at once", got)
	}
	if *matches {
		t.Error("the child is reported to match")
	}
}

func drifted(c *corev1.ConfigMap) { c.Data["image"] = "other" }

// recordMatches returns whether the child matched the plan in the last reconcile.
func (l *loop) recordMatches() *bool {
	matches, report := new(bool), l.kind.Report
	l.kind.Report = func(w *webserverv1.WebServer, seen int, out Outcome) {
		*matches = out.Matches("ConfigMap", "ns", "web-child")
		report(w, seen, out)
	}
	return matches
}

func TestOutcome_Matches(t *testing.T) {
	for name, tc := range map[string]struct {
		hold            func(*loop)
		unchanged, then bool // whether it matches before and after another client has changed it
	}{
		"restored": {func(*loop) {}, true, true},
		"paused":   {func(l *loop) { l.kind.Paused = func(*webserverv1.WebServer) bool { return true } }, true, false},
		"refused":  {func(l *loop) { l.refuse["apply"] = errors.New("no answer") }, true, false},
		"undecided": {func(l *loop) {
			l.kind.Desired = func(*webserverv1.WebServer, int) (Plan, error) { return Plan{}, errors.New("something is missing") }
		}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLoop(t, object())
			l.pass("Observe", "Desired", "apply", "Report", "status")
			tc.hold(l)
			matches := l.recordMatches()
			l.restart()
			for _, want := range []bool{tc.unchanged, tc.then} {
				if _, err := l.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
					t.Logf("got %v", err)
				}
				if *matches != want {
					t.Errorf("matches is %t, want %t", *matches, want)
				}
				l.changeChild(drifted)
			}
		})
	}
}

func TestReconciler_PrunesOnlyOwnedChildren(t *testing.T) {
	mine := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "old", UID: "c", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "my.domain/v1", Kind: "WebServer", Name: "web", UID: "owner-1", Controller: new(true)},
	}}}
	theirs := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "theirs"}}
	l := newLoop(t, object(), mine, theirs)
	l.kind.Desired = func(*webserverv1.WebServer, int) (Plan, error) {
		return Plan{Prune: []client.Object{theirs.DeepCopy(), mine.DeepCopy()}}, nil
	}
	l.restart()
	l.pass("Observe", "delete", "Report", "status")
}

// Each step of a rollout would be a status write. Users wait for conditions.
func TestReconciler_DebouncesCountsInTheStatus(t *testing.T) {
	l := newLoop(t, object())
	l.pass("Observe", "Desired", "apply", "Report", "status")

	l.ready = 1
	if r := l.pass("Observe", "Desired", "Report"); r.RequeueAfter != settle {
		t.Errorf("comes back after %s, want %s", r.RequeueAfter, settle)
	}
	l.clock = l.clock.Add(settle * 2 / 5)
	l.ready = 2
	if r := l.pass("Observe", "Desired", "Report"); r.RequeueAfter != settle-settle*2/5 {
		t.Errorf("a second change moved the time: %s left", r.RequeueAfter)
	}
	l.clock = l.clock.Add(settle * 3 / 5)
	if r := l.pass("Observe", "Desired", "Report", "status"); r.RequeueAfter != 0 {
		t.Errorf("comes back after %s though all is written", r.RequeueAfter)
	}
	if got := l.stored().Status.ReadyReplicas; got != 2 {
		t.Errorf("%d replicas are written, want 2", got)
	}

	l.ready = 3
	l.pass("Observe", "Desired", "Report") // the delay starts again
	l.state.Ready = conditions.Condition{Reason: "Rolling", Message: "rolling"}
	l.pass("Observe", "Desired", "Report", "status") // a condition is written immediately, together with the count
	if got := l.stored().Status.ReadyReplicas; got != 3 {
		t.Errorf("%d replicas are written, want 3", got)
	}

	l.ready = 2
	l.pass("Observe", "Desired", "Report")
	l.ready = 3
	l.pass("Observe", "Desired", "Report") // the original value again: nothing to write
	l.clock = l.clock.Add(time.Hour)
	l.ready = 1
	if r := l.pass("Observe", "Desired", "Report"); r.RequeueAfter != settle {
		t.Errorf("comes back after %s: the time of a change that was undone counts", r.RequeueAfter)
	}
}

// A message that counts pods changes as often as the counts.
func TestReconciler_DebouncesMessagesOfProgress(t *testing.T) {
	l := newLoop(t, object())
	l.state.Ready = conditions.Condition{Reason: "Rolling", Message: "0 of 3 pods are available."}
	l.started("apply")
	l.state.Ready.Message = "1 of 3 pods is available."
	if r := l.pass("Observe", "Desired", "Report"); r.RequeueAfter != settle {
		t.Errorf("comes back after %s, want %s", r.RequeueAfter, settle)
	}
	l.clock = l.clock.Add(settle)
	l.pass("Observe", "Desired", "Report", "status")
	l.state.Ready.Reason = "Blocked"
	l.pass("Observe", "Desired", "Report", "status")
}

// The pods of a new object rarely become ready together. The first one is worth a
// write only if the others take long.
func TestReconciler_DebouncesAvailableUntilReady(t *testing.T) {
	up := conditions.Condition{Status: true, Reason: "Up", Message: "up"}
	starting := conditions.Condition{Reason: "Starting", Message: "starting"}
	created := func() *loop {
		l := newLoop(t, object())
		l.state = conditions.State{Available: starting, Ready: starting}
		l.started("apply")
		l.state.Available = up
		if r := l.pass("Observe", "Desired", "Report"); r.RequeueAfter != settle {
			t.Errorf("comes back after %s, want %s", r.RequeueAfter, settle)
		}
		return l
	}
	l := created()
	l.state.Ready = up
	l.pass("Observe", "Desired", "Report", "status")

	l = created()
	l.clock = l.clock.Add(settle)
	l.pass("Observe", "Desired", "Report", "status")
	if !meta.IsStatusConditionTrue(l.stored().Status.Conditions, common.ConditionAvailable) {
		t.Error("Available is not written after the delay")
	}
	l.state.Available = starting
	l.pass("Observe", "Desired", "Report", "status") // an outage is written immediately
}

func TestReconciler_WritesAnUrgentStatusAtOnce(t *testing.T) {
	l := newLoop(t, object())
	report, urgent := l.kind.Report, false
	l.kind.Report = func(w *webserverv1.WebServer, n int, out Outcome) {
		report(w, n, out)
		if urgent {
			out.WriteStatusNow()
		}
	}
	l.restart()
	l.pass("Observe", "Desired", "apply", "Report", "status")
	l.ready = 1
	l.pass("Observe", "Desired", "Report")
	urgent = true
	l.pass("Observe", "Desired", "Report", "status")
	l.pass("Observe", "Desired", "Report")
}

// started reconciles an object whose rollout begins, until that is written.
func (l *loop) started(sent ...string) {
	l.t.Helper()
	want := slices.Concat([]string{"Observe", "Desired"}, sent, []string{"Report"})
	if r := l.pass(want...); r.RequeueAfter != startup {
		l.t.Errorf("comes back after %s, want %s", r.RequeueAfter, startup)
	}
	l.clock = l.clock.Add(startup)
	l.pass("Observe", "Desired", "Report", "status")
}

// The start of a rollout is not worth a write if it ends within a second.
func TestReconciler_WritesOneStatusForAQuickRollout(t *testing.T) {
	up := conditions.Condition{Status: true, Reason: "Up", Message: "up"}
	down := conditions.Condition{Reason: "Down", Message: "down"}
	rolling := conditions.Condition{Reason: "Rolling", Message: "rolling"}
	stuck := conditions.Condition{Status: true, Reason: "Stuck", Message: "stuck"}
	edit := func(w *webserverv1.WebServer) { w.Spec.Image = "nginx:2" }

	l := newLoop(t, object())
	l.state = conditions.State{Available: rolling, Ready: rolling}
	if r := l.pass("Observe", "Desired", "apply", "Report"); r.RequeueAfter != startup {
		t.Errorf("comes back after %s, want %s", r.RequeueAfter, startup)
	}
	l.clock = l.clock.Add(startup / 2)
	l.state = conditions.State{Available: up, Ready: up}
	l.pass("Observe", "Desired", "Report", "status")
	l.said("Normal Up Ready: up")
	transition := func() metav1.Time {
		return meta.FindStatusCondition(l.stored().Status.Conditions, common.ConditionReady).LastTransitionTime
	}
	since := transition()
	l.clock = l.clock.Add(time.Minute)

	l.edit(edit)
	l.state = conditions.State{Available: up, Ready: rolling}
	l.pass("Observe", "Desired", "apply", "Report")
	l.clock = l.clock.Add(startup / 2)
	if r := l.pass("Observe", "Desired", "Report"); r.RequeueAfter != startup/2 {
		t.Errorf("a second reconcile moved the time: %s left", r.RequeueAfter)
	}
	l.state = conditions.State{Available: up, Ready: up}
	l.pass("Observe", "Desired", "Report", "status")
	l.said("Normal Up Ready: up") // the rollout that the user started has ended
	if now := transition(); !now.Equal(&since) {
		t.Errorf("Ready has changed at %s, and its status, True, has not", now)
	}

	for name, tc := range map[string]struct {
		state  conditions.State
		refuse error
	}{
		"stalled":           {state: conditions.State{Available: up, Stalled: stuck}},
		"no longer serving": {state: conditions.State{Available: down, Ready: down}},
		"a child is missing": {
			state:  conditions.State{Available: up, Ready: rolling},
			refuse: fault.Waiting(time.Second, messages.New("Missing", "it waits")),
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLoop(t, object())
			l.pass("Observe", "Desired", "apply", "Report", "status")
			l.edit(edit)
			l.state = tc.state
			if l.refuse["Desired"] = tc.refuse; tc.refuse != nil {
				l.pass("Observe", "Desired", "Report", "status")
			} else {
				l.pass("Observe", "Desired", "apply", "Report", "status")
			}
		})
	}
}

// The time begins with the edit, also if counts have not been written yet then.
func TestReconciler_WritesOneStatusForAQuickRolloutDuringSettling(t *testing.T) {
	l := newLoop(t, object())
	l.pass("Observe", "Desired", "apply", "Report", "status")
	l.ready = 2
	if r := l.pass("Observe", "Desired", "Report"); r.RequeueAfter != settle {
		t.Errorf("comes back after %s, want %s", r.RequeueAfter, settle)
	}
	l.clock = l.clock.Add(settle - time.Second)
	edit := func(sent ...string) reconcile.Result {
		l.edit(func(w *webserverv1.WebServer) { w.Spec.Image += "+" })
		l.state.Ready = conditions.Condition{Reason: "Rolling", Message: "rolling"}
		return l.pass(slices.Concat([]string{"Observe", "Desired", "apply", "Report"}, sent)...)
	}
	if r := edit(); r.RequeueAfter != startup {
		t.Errorf("comes back after %s, want %s", r.RequeueAfter, startup)
	}
	l.clock = l.clock.Add(startup / 2)
	edit()
	l.clock = l.clock.Add(startup / 2)
	edit("status") // edits do not postpone it any further
}

// Whether a status has been written must not affect what is decided from it, such as
// which revision was healthy.
func TestReconciler_DecidesFromTheStatusThatIsNotWrittenYet(t *testing.T) {
	l := newLoop(t, object())
	l.state.Ready = conditions.Condition{Reason: "Rolling", Message: "rolling"}
	report, seen := l.kind.Report, []string{}
	l.kind.Report = func(w *webserverv1.WebServer, n int, out Outcome) {
		seen = append(seen, w.Status.Image)
		report(w, n, out)
		w.Status.Image += "+"
	}
	l.restart()
	l.pass("Observe", "Desired", "apply", "Report")
	l.pass("Observe", "Desired", "Report")
	l.edit(func(w *webserverv1.WebServer) { w.Annotations = map[string]string{"a": "b"} })
	l.pass("Observe", "Desired", "Report")
	if diff := cmp.Diff([]string{"", "+", "++"}, seen); diff != "" {
		t.Errorf("statuses (-want +got):\n%s", diff)
	}

	w := l.stored() // another client changes the status
	w.Status.Image = "other"
	if err := l.client.Status().Update(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	l.clock = l.clock.Add(startup)
	l.pass("Observe", "Desired", "Report", "status")
	if got := l.stored().Status.Image; got != "other+" {
		t.Errorf("the status of another client was overwritten: %q", got)
	}
}

func TestReconciler_ReportsAnEditAtOnce(t *testing.T) {
	l := newLoop(t, object())
	l.pass("Observe", "Desired", "apply", "Report", "status")
	l.edit(func(*webserverv1.WebServer) {})
	l.ready = 1
	l.pass("Observe", "Desired", "Report", "status") // kubectl wait reads observedGeneration
}

func TestReconciler_RecordsEventsForTransitionsOnly(t *testing.T) {
	l := newLoop(t, object())
	rolling := conditions.Condition{Reason: "Rolling", Message: "rolling"}
	done := conditions.Condition{Status: true, Reason: "Done", Message: "done"}
	stuck := conditions.Condition{Status: true, Reason: "Stuck", Message: "stuck"}

	for i, step := range []struct {
		state conditions.State
		want  []string
	}{
		{conditions.State{Available: rolling, Ready: rolling}, nil}, // the user has just created it
		{conditions.State{Available: done, Ready: rolling}, nil},
		{conditions.State{Available: done, Ready: done}, []string{"Normal Done Ready: done"}},
		{conditions.State{Available: done, Ready: done}, nil},
		{conditions.State{Available: done, Stalled: stuck}, []string{"Warning Stuck Stalled: stuck"}},
		{conditions.State{Available: rolling, Stalled: stuck}, nil},
		{conditions.State{Available: done, Stalled: conditions.Condition{Status: true, Reason: "Other", Message: "other"}}, []string{"Warning Other Stalled: other"}},
		{conditions.State{Available: done, Ready: done}, []string{"Normal Done Ready: done"}},
		{conditions.State{Available: rolling, Ready: rolling}, []string{"Normal Rolling Reconciling: rolling"}},
		{conditions.State{Available: done, Ready: done}, []string{"Normal Done Ready: done"}},
	} {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			l.t = t
			l.state = step.state
			if _, err := l.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
				t.Fatal(err)
			}
			l.said(step.want...)
		})
	}
}

// A user who has changed the spec knows that. The event of its end, or of
// the problem that delays it, follows.
func TestReconciler_RecordsOneEventForAnEdit(t *testing.T) {
	l := newLoop(t, object())
	up := l.state
	rolling := conditions.Condition{Reason: "Rolling", Message: "rolling"}
	pass := func(want ...string) {
		t.Helper()
		if _, err := l.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
			t.Fatal(err)
		}
		l.said(want...)
	}
	pass("Normal Up Ready: up")
	l.edit(func(w *webserverv1.WebServer) { w.Spec.Image = "nginx:2" })
	l.state = conditions.State{Available: up.Available, Ready: rolling}
	pass()
	l.state = up
	pass("Normal Up Ready: up")

	l.edit(func(w *webserverv1.WebServer) { w.Spec.Image = "nginx:3" })
	l.refuse["Desired"] = fault.Waiting(time.Second, messages.New("Missing", "it waits"))
	pass("Normal Missing Reconciling: it waits")
	delete(l.refuse, "Desired")
	l.state = conditions.State{Available: up.Available, Ready: rolling}
	pass() // the wait is over
	l.state = up
	pass("Normal Up Ready: up")

	l.state = conditions.State{Available: up.Available, Ready: rolling}
	pass("Normal Rolling Reconciling: rolling")
	l.refuse["Desired"] = &fault.Error{Class: fault.Retry, Reason: "WebhookFailed", Message: "no answer"}
	if _, err := l.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err == nil {
		t.Error("no error, so no back-off")
	}
	l.said("Warning WebhookFailed Reconciling: no answer")
}

func TestReconciler_KeepsItsFinalizerWhileNeeded(t *testing.T) {
	hold := func(w *webserverv1.WebServer) { w.Finalizers = []string{"others.io/hold"} }
	for name, tc := range map[string]struct {
		object *webserverv1.WebServer
		adds   bool
		want   []string
	}{
		"added for Orphan":          {object(hold, orphaning), true, []string{"others.io/hold", naming.Finalizer}},
		"stays for Orphan":          {object(finalized, orphaning), false, []string{naming.Finalizer, "others.io/hold"}},
		"not there for Delete":      {object(hold), false, []string{"others.io/hold"}},
		"none at all is none added": {object(), false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLoop(t, tc.object)
			rest := []string{"Observe", "Desired", "apply", "Report", "status"}
			if tc.adds {
				rest = append([]string{"patch"}, rest...)
			}
			l.pass(rest...)
			if diff := cmp.Diff(tc.want, l.stored().Finalizers); diff != "" {
				t.Errorf("finalizers (-want +got):\n%s", diff)
			}
			l.pass("Observe", "Desired", "Report")
		})
	}
	t.Run("removed for Delete, once the children match", func(t *testing.T) {
		l := newLoop(t, object(finalized))
		has := func(want ...string) {
			t.Helper()
			if diff := cmp.Diff(want, l.stored().Finalizers); diff != "" {
				t.Errorf("finalizers (-want +got):\n%s", diff)
			}
		}
		l.refuse["apply"] = errors.New("no answer")
		if _, err := l.try("Observe", "Desired", "apply", "Report", "status"); err == nil {
			t.Error("no error, so no back-off")
		}
		has(naming.Finalizer, "others.io/hold")
		delete(l.refuse, "apply")
		l.pass("Observe", "Desired", "apply", "patch", "Report", "status")
		has("others.io/hold")
		l.pass("Observe", "Desired", "Report")
	})
	t.Run("a lost race is retried before anything else is done", func(t *testing.T) {
		l := newLoop(t, object(orphaning))
		l.refuse["patch"] = apierrors.NewConflict(schema.GroupResource{}, "web", errors.New("modified"))
		if r := l.pass("patch"); r.RequeueAfter == 0 {
			t.Error("it does not come back")
		}
	})
}

func TestReconciler_IgnoresDeletionWithoutItsFinalizer(t *testing.T) {
	l := newLoop(t, object(orphaning, deleted, func(w *webserverv1.WebServer) { w.Finalizers = []string{"others.io/hold"} }))
	l.pass()
}

// releasedChild checks that the child exists without the operator's marks.
func (l *loop) releasedChild() {
	l.t.Helper()
	if c := l.child(); len(c.OwnerReferences)+len(c.Labels)+len(c.Annotations) > 0 {
		l.t.Errorf("our marks are left on it: %v %v %v", c.OwnerReferences, c.Labels, c.Annotations)
	}
}

func TestReconciler_ReleasesOrphansBeforeTheOwnerIsDeleted(t *testing.T) {
	l := newLoop(t, object(orphaning, finalized))
	l.pass("Observe", "Desired", "apply", "Report", "status")
	if err := l.client.Delete(t.Context(), l.stored()); err != nil {
		t.Fatal(err)
	}
	l.pass("Observe", "Desired", "patch", "patch") // the child, the finalizer
	l.releasedChild()
	if diff := cmp.Diff([]string{"others.io/hold"}, l.stored().Finalizers); diff != "" {
		t.Errorf("finalizers (-want +got):\n%s", diff)
	}
	l.pass()
}

// A child without an owner reference is kept: the object was deleted before the change of its
// policy was reconciled.
func TestReconciler_ReleasesChildrenThatWereToBeDeletedLater(t *testing.T) {
	for name, tc := range map[string]struct {
		written bool // the children, after the policy was changed
		want    []string
	}{
		"not written since": {false, []string{"Observe", "Desired", "patch", "patch"}}, // the child, the finalizer
		"written since":     {true, []string{"Observe", "Desired", "patch"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLoop(t, object(finalized, orphaning))
			l.pass("Observe", "Desired", "apply", "Report", "status")
			l.edit(func(w *webserverv1.WebServer) { w.Spec.DeletionPolicy = common.DeletionPolicyDelete })
			if tc.written {
				l.refuse["patch"] = errors.New("no answer") // the finalizer is not removed
				if _, err := l.try("Observe", "Desired", "apply", "patch", "Report", "status"); err == nil {
					t.Error("no error, so no back-off")
				}
				delete(l.refuse, "patch")
			}
			if err := l.client.Delete(t.Context(), l.stored()); err != nil {
				t.Fatal(err)
			}
			l.pass(tc.want...)
			if diff := cmp.Diff([]string{"others.io/hold"}, l.stored().Finalizers); diff != "" {
				t.Errorf("finalizers (-want +got):\n%s", diff)
			}
			if tc.written {
				if diff := cmp.Diff([]string{"WebServer"}, l.owners()); diff != "" {
					t.Errorf("the garbage collector does not delete the child (-want +got):\n%s", diff)
				}
				return
			}
			l.releasedChild()
		})
	}
}

// If the policy is Delete, nothing is lost with a child that is not released.
func TestReconciler_DeletesAnObjectWhoseChildrenNeedNotBeReleased(t *testing.T) {
	l := newLoop(t, object(finalized, orphaning))
	l.pass("Observe", "Desired", "apply", "Report", "status")
	l.edit(func(w *webserverv1.WebServer) { w.Spec.DeletionPolicy = common.DeletionPolicyDelete })
	if err := l.client.Delete(t.Context(), l.stored()); err != nil {
		t.Fatal(err)
	}
	l.refuse["Observe"] = errors.New("no cache")
	l.pass("Observe", "patch")
	if l.holds() {
		t.Error("the object cannot be deleted")
	}
}

func TestRelease_KeepsTheFinalizerIfAReleaseFails(t *testing.T) {
	l := newLoop(t, object(orphaning, finalized))
	l.pass("Observe", "Desired", "apply", "Report", "status")
	if err := l.client.Delete(t.Context(), l.stored()); err != nil {
		t.Fatal(err)
	}
	l.refuse["patch"] = errors.New("no answer")
	if _, err := l.try("Observe", "Desired", "patch", "status"); err == nil {
		t.Error("no error, so no back-off")
	}
	if !slices.Contains(l.stored().Finalizers, naming.Finalizer) {
		t.Error("the finalizer was removed though the child was not released")
	}
}

func TestReconciler_LogsAndForgetsDeletedObjects(t *testing.T) {
	l := newLoop(t, object(func(w *webserverv1.WebServer) { w.Finalizers = nil }))
	l.pass("Observe", "Desired", "apply", "Report", "status")
	if len(l.objects) != 1 {
		t.Fatalf("%d objects are remembered, want 1", len(l.objects))
	}
	if err := l.client.Delete(t.Context(), l.stored()); err != nil {
		t.Fatal(err)
	}
	l.lines = nil
	l.pass()
	if len(l.lines) != 1 || !strings.Contains(l.lines[0], "it no longer exists") {
		t.Errorf("logged %q", l.lines)
	}
	if len(l.objects) != 0 {
		t.Error("the object is still remembered: memory grows with every one ever made")
	}
}

// Events of the children arrive before that of the removed finalizer.
func TestReconciler_RemovesTheFinalizerOnce(t *testing.T) {
	l := newLoop(t, object(finalized, deleted))
	stale := l.stored()
	l.Reconciler.client = interceptor.NewClient(l.client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
			if w, ok := into.(*webserverv1.WebServer); ok {
				stale.DeepCopyInto(w)
				return nil
			}
			return c.Get(ctx, key, into, opts...)
		},
	})
	l.pass("Observe", "Desired", "patch")
	l.pass()
	l.pass()
	stale.ResourceVersion = "later" // the object was changed meanwhile
	l.refuse["patch"] = errors.New("no answer")
	for range 2 {
		if _, err := l.try("Observe", "Desired", "patch"); err == nil {
			t.Error("no error, so no back-off")
		}
	}
}

func TestReconciler_DistinguishesRecreatedObjects(t *testing.T) {
	l := newLoop(t, object(finalized, deleted))
	l.pass("Observe", "Desired", "patch") // the finalizer was removed: the cached object is outdated
	w := l.stored()
	w.Finalizers = nil
	if err := l.client.Update(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	if err := l.client.Create(t.Context(), object(func(w *webserverv1.WebServer) { w.UID = "owner-2" }, finalized, orphaning)); err != nil {
		t.Fatal(err)
	}
	if err := l.client.Delete(t.Context(), l.stored()); err != nil {
		t.Fatal(err)
	}
	l.pass("Observe", "Desired", "patch")
}

func TestReconciler_RetriesIfTheObjectCannotBeRead(t *testing.T) {
	l := newLoop(t)
	broken := errors.New("no cache")
	l.Reconciler.client = interceptor.NewClient(l.client, interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return broken
		},
	})
	if _, err := l.try(); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func TestGetOwned(t *testing.T) {
	named := func(name string, owner types.UID) *corev1.ConfigMap {
		c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
		if owner != "" {
			c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "my.domain/v1", Kind: "WebServer", Name: "web", UID: owner, Controller: new(true)}}
		}
		return c
	}
	l := newLoop(t, named("ours", "owner-1"), named("theirs", "owner-2"), named("nobodys", ""))
	for name, want := range map[string]bool{"ours": true, "theirs": false, "nobodys": false, "absent": false} {
		got, err := GetOwned(t.Context(), l.client, object(), name, &corev1.ConfigMap{})
		if err != nil || (got != nil) != want {
			t.Errorf("%s: got %v, %v; want one: %v", name, got, err, want)
		}
	}
}

// A reconcile reads the ConfigMaps that its object refers to once. Nothing
// about them is kept after the object was deleted.
func TestReconciler_ReadsReferencedConfigMapsOnce(t *testing.T) {
	cfg := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "cfg", UID: "cfg-1"}, Data: map[string]string{"a": "x", "b": "y"}}
	l := newLoop(t, object(func(w *webserverv1.WebServer) { w.Spec.Image = "cfg" }), cfg)
	reads := 0
	live := interceptor.NewClient(l.client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, k client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			reads++
			return c.Get(ctx, k, o, opts...)
		},
	})
	l.kind.References = func(w *webserverv1.WebServer) []configsource.Reference {
		return []configsource.Reference{{Name: w.Spec.Image, Key: "a"}}
	}
	var got Reader
	l.kind.Observe = func(_ context.Context, r Reader, _ *webserverv1.WebServer) (int, error) {
		got = r
		return 7, nil
	}
	l.restart()
	l.refs = configsource.NewReader(l.client, live)
	l.pass("Desired", "apply", "Report", "status")
	l.pass("Desired", "Report")
	if s := got.Sources["cfg"]; !s.Found || s.Content == nil || len(s.Content.Data) != 1 || s.Content.Data["a"] != "x" {
		t.Errorf("got %+v", got.Sources)
	}
	if reads != 1 || len(got.Snapshots) != 1 {
		t.Errorf("%d reads, copies %v", reads, got.Snapshots)
	}

	again := func(uid types.UID) {
		t.Helper()
		if err := l.client.Create(t.Context(), object(func(w *webserverv1.WebServer) { w.UID, w.Spec.Image = uid, "cfg" })); err != nil {
			t.Fatal(err)
		}
	}
	gone := func() {
		t.Helper()
		if err := l.client.Delete(t.Context(), object()); err != nil {
			t.Fatal(err)
		}
	}
	for i, change := range []func(){
		func() { gone(); again("owner-2") },
		func() { gone(); again("owner-1") },
		func() {
			gone()
			_, _ = l.Reconcile(t.Context(), reconcile.Request{NamespacedName: key})
			again("owner-1")
		},
	} {
		change()
		_, _ = l.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}) // its child may belong to another object
		if reads != 1 {
			t.Errorf("%d reads after %d new objects of that name, want 1: they share it", reads, i+1)
		}
	}
}

// UpdateStatus would interpret the zero value of the observed state as an empty
// cluster.
func TestReconciler_LeavesTheStatusIfNothingCouldBeObserved(t *testing.T) {
	l := newLoop(t, object())
	l.ready = 3
	l.pass("Observe", "Desired", "apply", "Report", "status")
	before := l.stored()
	l.said("Normal Up Ready: up")

	l.edit(func(w *webserverv1.WebServer) { w.Spec.Image = "nginx:2" })
	l.refuse["Observe"] = errors.Join(apierrors.NewConflict(schema.GroupResource{}, "web", nil), errors.New("no cache"))
	if _, err := l.try("Observe", "status"); err == nil {
		t.Error("no error, so no back-off")
	}
	after := l.stored()
	if after.Status.ObservedGeneration != 1 || after.Status.ReadyReplicas != 3 {
		t.Errorf("the status was changed: %+v", after.Status)
	}
	if diff := cmp.Diff(meta.FindStatusCondition(before.Status.Conditions, common.ConditionAvailable), meta.FindStatusCondition(after.Status.Conditions, common.ConditionAvailable)); diff != "" {
		t.Errorf("Available (-before +after):\n%s", diff)
	}
	if got := ready(after); got != "Unknown Error" {
		t.Errorf("Ready is %q", got)
	}
	if _, err := l.try("Observe"); err == nil { // nothing new to write
		t.Error("no error, so no back-off")
	}
	l.said("Warning Error Reconciling: The API server did not carry out a request (no answer). It is retried.")

	l.refuse["Observe"] = fault.Stalled(messages.New(common.ReasonForbidden, "forbidden"))
	l.pass("Observe", "status")
	l.said("Warning Forbidden Stalled: forbidden")
	if c := l.stored().Status.Conditions; meta.FindStatusCondition(c, common.ConditionReconciling) != nil {
		t.Errorf("both Stalled and Reconciling: %v", c)
	}
	delete(l.refuse, "Observe")
	l.pass("Observe", "Desired", "apply", "Report", "status")
	if got := ready(l.stored()); got != "True Up" {
		t.Errorf("Ready is %q", got)
	}
}

func TestReconciler_ObservesThoughAReferenceCannotBeRead(t *testing.T) {
	l := newLoop(t, object(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "cfg", UID: "cfg-1"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "db", UID: "db-1"}})
	refused := errors.New("refused")
	live := interceptor.NewClient(l.client, interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return refused
		},
	})
	l.kind.References = func(*webserverv1.WebServer) []configsource.Reference { return []configsource.Reference{{Name: "cfg"}} }
	l.kind.Secrets = func(*webserverv1.WebServer) []string { return []string{"db"} }
	l.restart()
	l.refs = configsource.NewReader(l.client, live)
	l.pass("Observe", "Desired", "apply", "Report", "status")
}

// A plan may come with an error for as long as a user likes, for example while a
// pinned revision does not exist, and each edit may add a revision.
func TestReconciler_ForgetsChildrenThatAnUndecidedPlanDoesNotName(t *testing.T) {
	l := newLoop(t, object())
	l.pass("Observe", "Desired", "apply", "Report", "status")
	remembered := func() int {
		return reflect.ValueOf(l.applier).Elem().FieldByName("owners").MapIndex(reflect.ValueOf(l.stored().UID)).Len()
	}
	if n := remembered(); n != 1 {
		t.Fatalf("%d children are remembered, want 1", n)
	}
	undecided := fault.Stalled(messages.New(common.ReasonReferenceNotFound, "undecided"))
	l.kind.Desired = func(*webserverv1.WebServer, int) (Plan, error) { return Plan{}, undecided }
	l.Reconciler.kind = l.kind.erase()
	if _, err := l.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
		t.Fatal(err)
	}
	if n := remembered(); n != 0 {
		t.Errorf("%d children are remembered, and the plan names none", n)
	}
}

// The API server rejects an event with a longer note.
func TestReconciler_ClipsNotesOfEvents(t *testing.T) {
	for _, offset := range []string{"", "x", "xx"} {
		l := newLoop(t, object())
		l.state.Ready = conditions.Condition{}
		l.state.Stalled = conditions.Condition{Status: true, Reason: "Stuck", Message: offset + strings.Repeat("€", 1000)}
		l.pass("Observe", "Desired", "apply", "Report", "status")
		heard := l.heard()
		if len(heard) != 1 {
			t.Fatalf("events %q", heard)
		}
		note := strings.TrimPrefix(heard[0], "Warning Stuck ")
		if len(note) > 1024 || len(note) < 1020 || !utf8.ValidString(note) || !strings.HasSuffix(note, "€…") {
			t.Errorf("a note of %d bytes, valid %v, end %q", len(note), utf8.ValidString(note), note[len(note)-8:])
		}
	}
}

func TestReconciler_RecordsNoEventOfALostRaceInATeardown(t *testing.T) {
	l := newLoop(t, object(orphaning, finalized))
	l.pass("Observe", "Desired", "apply", "Report", "status")
	l.heard()
	if err := l.client.Delete(t.Context(), l.stored()); err != nil {
		t.Fatal(err)
	}
	l.refuse["patch"] = apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, "web-child", nil)
	if r := l.pass("Observe", "Desired", "patch"); r.RequeueAfter == 0 {
		t.Error("it does not come back")
	}
	l.said()
}

// An admission webhook may respond with 409, and a cache may be far behind.
func TestReconciler_ReportsRacesThatAreAlwaysLost(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, "web-child", nil)
	reconciled := func(l *loop) (reconcile.Result, error) {
		return l.Reconcile(t.Context(), reconcile.Request{NamespacedName: key})
	}
	lose := func(l *loop) {
		t.Helper()
		for range fewRaces {
			if r, err := reconciled(l); err != nil || r.RequeueAfter == 0 {
				t.Fatalf("a lost race: %+v, %v", r, err)
			}
		}
	}
	t.Run("of a child", func(t *testing.T) {
		l := newLoop(t, object())
		l.refuse["apply"] = conflict
		lose(l)
		l.said()
		if _, err := l.try("Observe", "Desired", "apply", "Report", "status"); err == nil {
			t.Error("no error, so no back-off")
		}
		l.said("Warning Error Reconciling: The API server keeps refusing a write as a conflict with another one. It is retried; the operator's log has the details.")
		if _, err := l.try("Observe", "Desired", "apply", "Report"); err == nil { // nothing new to write
			t.Error("no error, so no back-off")
		}
		delete(l.refuse, "apply")
		l.pass("Observe", "Desired", "apply", "Report", "status")
		l.refuse["apply"] = conflict
		l.edit(func(w *webserverv1.WebServer) { w.Spec.Image = "nginx:2" })
		lose(l) // counted from zero again
	})
	for name, other := range map[string]error{
		"of a child in addition to one that waits":      fault.Waiting(time.Minute, messages.New(common.ReasonWaiting, "later")),
		"of a child in addition to one that is stalled": fault.Stalled(messages.New(common.ReasonConflict, "taken")),
	} {
		t.Run(name, func(t *testing.T) {
			l := newLoop(t, object())
			desired := l.kind.Desired
			l.kind.Desired = func(w *webserverv1.WebServer, seen int) (Plan, error) {
				plan, err := desired(w, seen)
				return plan, errors.Join(other, err)
			}
			l.restart()
			l.refuse["apply"] = conflict
			lose(l)
			if _, err := reconciled(l); err == nil {
				t.Error("no error, so no back-off")
			}
			delete(l.refuse, "apply")
			if r, err := reconciled(l); err != nil || r.RequeueAfter < 50*time.Second {
				t.Errorf("without the conflict: %+v, %v", r, err)
			}
			l.refuse["apply"] = conflict
			l.edit(func(w *webserverv1.WebServer) { w.Spec.Image = "nginx:2" })
			lose(l) // counted from zero again
		})
	}
	t.Run("of the status", func(t *testing.T) {
		l := newLoop(t, object())
		l.refuse["status"] = conflict
		lose(l)
		if _, err := l.try("Observe", "Desired", "Report", "status"); !apierrors.IsConflict(err) {
			t.Errorf("got %v, so no back-off", err)
		}
	})
	t.Run("of the finalizer", func(t *testing.T) {
		l := newLoop(t, object(orphaning))
		l.refuse["patch"] = conflict
		lose(l)
		if _, err := l.try("patch"); !apierrors.IsConflict(err) {
			t.Errorf("got %v, so no back-off", err)
		}
	})
	t.Run("of a released child", func(t *testing.T) {
		l := newLoop(t, object(orphaning, finalized))
		l.pass("Observe", "Desired", "apply", "Report", "status")
		if err := l.client.Delete(t.Context(), l.stored()); err != nil {
			t.Fatal(err)
		}
		l.refuse["patch"] = conflict
		lose(l)
		if _, err := reconciled(l); !apierrors.IsConflict(err) {
			t.Errorf("got %v, so no back-off", err)
		}
	})
}

// orphaned returns a loop whose object has a child, has the policy Orphan, and
// is being deleted.
func orphaned(t *testing.T) *loop {
	t.Helper()
	l := newLoop(t, object(orphaning, finalized))
	l.pass("Observe", "Desired", "apply", "Report", "status")
	if err := l.client.Delete(t.Context(), l.stored()); err != nil {
		t.Fatal(err)
	}
	l.heard()
	return l
}

func (l *loop) released() bool {
	l.t.Helper()
	c := &corev1.ConfigMap{}
	if err := l.client.Get(l.t.Context(), client.ObjectKey{Namespace: "ns", Name: "web-child"}, c); err != nil {
		l.t.Fatal(err)
	}
	return len(c.OwnerReferences)+len(c.Labels)+len(c.Annotations) == 0
}

func (l *loop) holds() bool {
	l.t.Helper()
	return slices.Contains(l.stored().Finalizers, naming.Finalizer)
}

func TestRelease_ReadsNothingThatTheObjectRefersTo(t *testing.T) {
	l := orphaned(t)
	l.kind.References = func(*webserverv1.WebServer) []configsource.Reference { return []configsource.Reference{{Name: "cfg"}} }
	l.kind.Secrets = func(*webserverv1.WebServer) []string { return []string{"db"} }
	l.restart()
	broken := interceptor.NewClient(l.client, interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, k client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
			t.Errorf("%s was read", k)
			return errors.New("no answer")
		},
	})
	l.refs = configsource.NewReader(broken, broken)
	l.pass("Observe", "Desired", "patch", "patch")
	if !l.released() || l.holds() {
		t.Error("the child was not released")
	}
}

// A child that the user wants to keep is not abandoned: the object remains, and
// reports the reason and the edit that completes its deletion.
func TestRelease_KeepsAnObjectWhoseChildWouldBeLost(t *testing.T) {
	l := orphaned(t)
	l.refuse["patch"] = errors.New("no answer")
	if _, err := l.try("Observe", "Desired", "patch", "status"); err == nil {
		t.Error("no error, so no back-off")
	}
	const why = "The object cannot be deleted yet. The API server did not carry out a request (no answer). It is retried."
	l.said("Warning Error "+why, "Warning Error Reconciling: "+why)
	if _, err := l.try("Observe", "Desired", "patch"); err == nil { // nothing new to write
		t.Error("no error, so no back-off")
	}
	l.heard()
	l.refuse["patch"] = apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "web-child", errors.New("no permission"))
	l.pass("Observe", "Desired", "patch", "status")
	const remedy = " Remove the cause, or set spec.deletionPolicy to Delete: then the object is deleted without releasing the remaining children."
	if said := l.heard(); len(said) != 2 || !strings.HasSuffix(said[0], remedy) {
		t.Errorf("events %q", said)
	}
	if l.released() || !l.holds() {
		t.Error("the child is lost")
	}
	l.edit(func(w *webserverv1.WebServer) { w.Spec.DeletionPolicy = common.DeletionPolicyDelete })
	delete(l.refuse, "patch")
	l.pass("Observe", "Desired", "patch", "patch")
	if l.holds() {
		t.Error("the object cannot be deleted")
	}
}

func TestRelease_ReleasesTheOtherChildrenThoughOneFails(t *testing.T) {
	l := orphaned(t)
	desired := l.kind.Desired
	l.kind.Desired = func(w *webserverv1.WebServer, seen int) (Plan, error) {
		plan, err := desired(w, seen)
		broken := apply.New(corev1ac.ConfigMap("broken", w.Namespace), func() *corev1.ConfigMap { return &corev1.ConfigMap{} })
		plan.Apply = append([]apply.Intent{broken}, plan.Apply...)
		return plan, err
	}
	fails := errors.New("no answer")
	l.restart()
	l.applier = apply.NewApplier(interceptor.NewClient(l.client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, k client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if k.Name == "broken" {
				return fails
			}
			return c.Get(ctx, k, o, opts...)
		},
	}), l.client, nil)
	if _, err := l.try("Observe", "Desired", "patch", "status"); !errors.Is(err, fails) {
		t.Errorf("got %v", err)
	}
	if !l.released() || !l.holds() {
		t.Error("the child that can be released is not, or the object does not wait for the other")
	}
}

// What only an administrator of the cluster can change is not asked for by every object
// every minute: the more objects there are, the later each of them tries again.
func TestReconcile_ProbesSharedCausesTogether(t *testing.T) {
	l := newLoop(t)
	full := &fault.Error{Class: fault.Stall, Reason: common.ReasonAddressesExhausted, After: fault.Probe, Shared: true}
	other := &fault.Error{Class: fault.Stall, Reason: common.ReasonForbidden, After: fault.Probe}
	at := func(i int) types.NamespacedName {
		return types.NamespacedName{Namespace: "team-" + strconv.Itoa(i%100), Name: strconv.Itoa(i)}
	}
	probes := func(what string, err error, want time.Duration) {
		t.Helper()
		if got := l.classify(at(0), err).Result.RequeueAfter; got != want {
			t.Errorf("%s, it is reconciled after %s, want %s", what, got, want)
		}
	}
	probes("alone", full, fault.Probe)
	for i := range 3000 {
		l.classify(at(i), full)
	}
	probes("with 3000 others", full, 5*time.Minute)
	probes("for a reason of its own", other, fault.Probe)
	for i := range 20_000 {
		l.classify(at(i), full)
	}
	probes("with 20000 others", full, 10*time.Minute)
	for i := range 20_000 {
		if i%2 == 0 {
			l.classify(at(i), nil)
		} else {
			l.forget(at(i))
		}
	}
	probes("after the others", full, fault.Probe)
}
