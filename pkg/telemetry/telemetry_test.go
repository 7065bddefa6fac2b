package telemetry

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/platform-operator/platform-operator/apis/common"
	immortalv1alpha1 "github.com/platform-operator/platform-operator/apis/immortalcontainer/v1alpha1"
	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/fault"
	_ "github.com/platform-operator/platform-operator/pkg/rollout" // the reasons of its messages
)

// fleet simulates the events of the cache of WebServers.
type fleet struct {
	testing.TB
	*Metrics
	now     time.Time
	version int
	active  chan struct{}
	events  toolscache.ResourceEventHandler
}

func newFleet(t testing.TB, o Options) *fleet {
	t.Helper()
	f := &fleet{TB: t, now: time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC), active: make(chan struct{})}
	o.Active, o.Now = f.active, func() time.Time { return f.now }
	f.Metrics = New(o)
	f.events = f.Objects.Handler("WebServer")
	return f
}

func (f *fleet) lead() *fleet { close(f.active); return f }

// scrape returns the series that Prometheus would receive, without those of
// histograms if a name is not asked for.
func (f *fleet) scrape(prefix string) []string {
	f.Helper()
	r := prometheus.NewPedanticRegistry() // rejects metrics that Describe did not announce
	if err := f.Register(r); err != nil {
		f.Fatal(err)
	}
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(r, promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequestWithContext(f.Context(), "GET", "/metrics", nil))
	var series []string
	for line := range strings.Lines(answer.Body.String()) {
		if strings.HasPrefix(line, "platform_operator_"+prefix) {
			series = append(series, strings.TrimSpace(strings.TrimPrefix(line, "platform_operator_")))
		}
	}
	return series
}

func (f *fleet) want(prefix string, want ...string) {
	f.Helper()
	if diff := cmp.Diff(want, f.scrape(prefix)); diff != "" {
		f.Errorf("(-want +got):\n%s", diff)
	}
}

// web returns a WebServer that is Ready.
func (f *fleet) web(namespace, name string) *webserverv1.WebServer {
	f.version++
	w := &webserverv1.WebServer{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID(namespace + "/" + name), Generation: 1, ResourceVersion: strconv.Itoa(f.version),
	}}
	w.Status.ObservedGeneration = 1
	w.Status.Conditions = []metav1.Condition{f.condition(1, common.ConditionAvailable, "True", common.ReasonServing), f.condition(1, common.ConditionReady, "True", common.ReasonServing)}
	return w
}

func (f *fleet) condition(generation int64, kind, status, reason string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionStatus(status), Reason: reason, ObservedGeneration: generation, LastTransitionTime: metav1.NewTime(f.now)}
}

// update reports a change of an object.
func (f *fleet) update(w *webserverv1.WebServer, change func(*webserverv1.WebServer)) *webserverv1.WebServer {
	now := w.DeepCopy()
	f.version++
	now.ResourceVersion = strconv.Itoa(f.version)
	change(now)
	f.events.OnUpdate(w, now)
	return now
}

// The goal of the aggregation: the number of series is independent of the number
// of healthy objects.
func TestObjects_SeriesDoNotDependOnTheNumberOfHealthyObjects(t *testing.T) {
	count := func(objects, namespaces int, o Options) int {
		f := newFleet(t, o).lead()
		for i := range objects {
			f.events.OnAdd(f.web(fmt.Sprintf("ns-%d", i%namespaces), fmt.Sprintf("web-%d", i)), true)
		}
		// A change and its rollout, so that the histograms have series.
		w := f.web("ns-0", "web-0")
		w = f.update(w, func(w *webserverv1.WebServer) { w.Generation = 2 })
		f.update(w, func(w *webserverv1.WebServer) {
			w.Status.ObservedGeneration = 2
			w.Status.Conditions = []metav1.Condition{f.condition(2, common.ConditionAvailable, "True", common.ReasonServing), f.condition(2, common.ConditionReady, "True", common.ReasonServing)}
		})
		if n := len(f.Objects.suspects); n > 0 {
			t.Errorf("%d healthy objects are remembered", n)
		}
		return len(f.scrape(""))
	}
	for name, o := range map[string]Options{"by namespace": {}, "without namespaces": {WithoutNamespaces: true}} {
		few, many := count(10, 10, o), count(10_000, 10, o)
		t.Logf("%s: %d series for 10 objects, %d for 10,000", name, few, many)
		if few != many {
			t.Errorf("%s: %d series for 10 objects, %d for 10,000", name, few, many)
		}
	}
	few, many := count(10, 10, Options{WithoutNamespaces: true}), count(10_000, 10_000, Options{WithoutNamespaces: true})
	if few != many {
		t.Errorf("without namespaces: %d series for 10 namespaces, %d for 10,000", few, many)
	}
}

// BenchmarkMetrics_Scrape serves the metrics of healthy objects. The authentication
// of the client and the metrics of other libraries are not included.
func BenchmarkMetrics_Scrape(b *testing.B) {
	for _, tc := range []struct{ objects, namespaces int }{{10, 10}, {10_000, 10}, {10_000, 500}} {
		b.Run(fmt.Sprintf("%d objects in %d namespaces", tc.objects, tc.namespaces), func(b *testing.B) {
			f := newFleet(b, Options{}).lead()
			for i := range tc.objects {
				f.events.OnAdd(f.web(fmt.Sprintf("ns-%d", i%tc.namespaces), fmt.Sprintf("web-%d", i)), true)
			}
			r := prometheus.NewRegistry()
			if err := f.Register(r); err != nil {
				b.Fatal(err)
			}
			handler, size := promhttp.HandlerFor(r, promhttp.HandlerOpts{}), 0
			b.ReportAllocs()
			for b.Loop() {
				answer := httptest.NewRecorder()
				handler.ServeHTTP(answer, httptest.NewRequestWithContext(b.Context(), "GET", "/metrics", nil))
				size = answer.Body.Len()
			}
			b.ReportMetric(float64(size), "bytes/scrape")
		})
	}
}

func TestObjects_AreCountedByCondition(t *testing.T) {
	f := newFleet(t, Options{})
	f.events.OnAdd(f.web("a", "one"), true)
	two := f.web("b", "two")
	f.events.OnAdd(two, true)
	f.want("object") // only the leader reports
	f.lead()
	f.want("objects{", `objects{kind="WebServer",namespace="a"} 1`, `objects{kind="WebServer",namespace="b"} 1`)
	two = f.update(two, func(w *webserverv1.WebServer) {
		w.Generation = 2
		w.Status.Conditions[1].Status, w.Status.Conditions[1].Reason = "False", common.ReasonProgressing
	})
	f.events.OnUpdate(two, two) // a resync
	f.want("object_conditions",
		`object_conditions{condition="Available",kind="WebServer",namespace="a",status="True"} 1`,
		`object_conditions{condition="Available",kind="WebServer",namespace="b",status="True"} 1`,
		`object_conditions{condition="Ready",kind="WebServer",namespace="a",status="True"} 1`,
		`object_conditions{condition="Ready",kind="WebServer",namespace="b",status="False"} 1`)
	f.want("objects_unobserved", `objects_unobserved{kind="WebServer",namespace="a"} 0`, `objects_unobserved{kind="WebServer",namespace="b"} 1`)
	f.want("condition_transitions_total", `condition_transitions_total{condition="Ready",kind="WebServer",reason="Progressing",status="False"} 1`)
	f.events.OnDelete(toolscache.DeletedFinalStateUnknown{Key: "b/two", Obj: two})
	f.want("objects{", `objects{kind="WebServer",namespace="a"} 1`)

	again := f.web("a", "one")
	again.UID = "recreated while the watch was interrupted"
	f.events.OnUpdate(f.web("a", "one"), again)
	f.want("objects{", `objects{kind="WebServer",namespace="a"} 1`)
}

func TestObjects_MeasureEditToReadyAndDeletion(t *testing.T) {
	f := newFleet(t, Options{}).lead()
	old := f.web("a", "old")
	f.events.OnAdd(old, true) // when it was created is not known
	w := f.web("a", "new")
	ready := w.Status
	w.Status = webserverv1.WebServerStatus{}
	f.events.OnAdd(w, false)
	f.now = f.now.Add(7 * time.Second)
	w = f.update(w, func(w *webserverv1.WebServer) { w.Status = ready })
	w = f.update(w, func(w *webserverv1.WebServer) { w.Status.Conditions[1].Status = "False" }) // a pod failed: not an edit
	w = f.update(w, func(w *webserverv1.WebServer) { w.Status.Conditions[1].Status = "True" })
	f.want("edit_to_ready_seconds_sum", `edit_to_ready_seconds_sum{kind="WebServer"} 7`)
	f.want("edit_to_ready_seconds_count", `edit_to_ready_seconds_count{kind="WebServer"} 1`)

	w = f.update(w, func(w *webserverv1.WebServer) { w.DeletionTimestamp = &metav1.Time{Time: f.now} })
	f.now = f.now.Add(3 * time.Second)
	f.events.OnDelete(w)
	f.want("deletion_to_gone_seconds_sum", `deletion_to_gone_seconds_sum{kind="WebServer"} 3`)
	f.want("deletion_to_gone_seconds_count", `deletion_to_gone_seconds_count{kind="WebServer"} 1`)
	if n := len(f.Objects.suspects); n > 0 {
		t.Errorf("%d objects are remembered", n)
	}
}

// An object has a series only while it is abnormal.
func TestObjects_AbnormalOnesAreNamed(t *testing.T) {
	f := newFleet(t, Options{}).lead()
	w := f.web("a", "web")
	w.Spec.Rollout = &common.Rollout{ProgressDeadlineSeconds: new(int32(60))}
	f.events.OnAdd(w, true)
	w = f.update(w, func(w *webserverv1.WebServer) {
		w.Status.Conditions[1] = f.condition(1, common.ConditionReady, "False", "something new")
	})
	f.now = f.now.Add(time.Minute)
	f.want("object_abnormal")
	f.now = f.now.Add(time.Second)
	f.want("object_abnormal", `object_abnormal{kind="WebServer",name="web",namespace="a",reason="Other",state="NotReady"} 1`)
	f.want("objects_abnormal", `objects_abnormal{kind="WebServer",namespace="a",state="NotReady"} 1`)
	w = f.update(w, func(w *webserverv1.WebServer) {
		w.Status.Conditions = append(w.Status.Conditions[:1], f.condition(1, common.ConditionReady, "False", common.ReasonRolledBack), f.condition(1, common.ConditionStalled, "True", common.ReasonRolloutFailed))
		w.Status.LastActions = []common.Action{{Type: common.ActionRollback, Reason: "from outside", Revision: 2, Time: metav1.NewTime(f.now)}}
	})
	f.want("object_abnormal",
		`object_abnormal{kind="WebServer",name="web",namespace="a",reason="RolledBack",state="RolledBack"} 1`,
		`object_abnormal{kind="WebServer",name="web",namespace="a",reason="RolledBack",state="Stalled"} 1`)
	f.want("rollouts_failed_total", `rollouts_failed_total{action="Rollback",cause="Other",kind="WebServer"} 1`)
	w = f.update(w, func(w *webserverv1.WebServer) {
		w.Status.Conditions = []metav1.Condition{f.condition(1, common.ConditionReady, "False", common.ReasonRolloutHeld)}
	})
	f.want("objects_abnormal", `objects_abnormal{kind="WebServer",namespace="a",state="Held"} 1`)
	w = f.update(w, func(w *webserverv1.WebServer) {
		w.Status.Conditions = []metav1.Condition{f.condition(1, common.ConditionReady, "True", common.ReasonServing)}
	})
	f.want("object_abnormal")
	f.want("rollouts_failed_total", `rollouts_failed_total{action="Rollback",cause="Other",kind="WebServer"} 1`)
	if n := len(f.Objects.suspects); n > 0 {
		t.Errorf("%d objects are remembered", n)
	}
	_ = w
}

// Only what served before is Unavailable: an object that was observed to be available, or
// of which a revision was healthy.
func TestObjects_UnavailableServedBefore(t *testing.T) {
	lost := func(f *fleet) func(*webserverv1.WebServer) {
		return func(w *webserverv1.WebServer) {
			w.Status.Conditions = []metav1.Condition{f.condition(1, common.ConditionAvailable, "False", "X"), f.condition(1, common.ConditionReady, "False", "X")}
		}
	}
	const want = `object_abnormal{kind="WebServer",name="web",namespace="a",reason="Other",state="Unavailable"} 1`
	for name, tc := range map[string]struct {
		available bool  // before, as observed by this process
		healthy   int64 // status.revisions.lastHealthy
		deleted   bool
		want      []string
	}{
		"observed":      {available: true, want: []string{want}},
		"after restart": {healthy: 1, want: []string{want}},
		"new":           {},
		"being deleted": {available: true, deleted: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, Options{}).lead()
			w := f.web("a", "web")
			if !tc.available {
				lost(f)(w)
			}
			w.Status.Revisions = &common.Revisions{LastHealthy: tc.healthy}
			f.events.OnAdd(w, true)
			w = f.update(w, lost(f))
			w = f.update(w, func(w *webserverv1.WebServer) {
				if tc.deleted {
					w.DeletionTimestamp = &metav1.Time{Time: f.now}
				}
			})
			f.want("object_abnormal", tc.want...)
			f.update(w, func(w *webserverv1.WebServer) { w.Status.Conditions = f.web("a", "web").Status.Conditions })
			f.want("object_abnormal")
		})
	}
}

// The series of one namespace do not displace those of the others.
func TestObjects_NameAtMostMaxAbnormal(t *testing.T) {
	f := newFleet(t, Options{}).lead()
	stalled := func(namespace, name string) {
		w := f.web(namespace, name)
		w.Status.Conditions = append(w.Status.Conditions, f.condition(1, common.ConditionStalled, "True", common.ReasonConflict))
		f.events.OnAdd(w, true)
	}
	for i := range 2 * MaxAbnormal {
		stalled("a", fmt.Sprintf("web-%d", i))
	}
	f.now = f.now.Add(time.Minute)
	stalled("victim", "later")
	series := f.scrape("object_abnormal")
	if len(series) != MaxAbnormal {
		t.Errorf("%d series, want %d", len(series), MaxAbnormal)
	}
	if !slices.ContainsFunc(series, func(s string) bool { return strings.Contains(s, `namespace="victim"`) }) {
		t.Errorf("there is no series of the other namespace, as in %s", series[0])
	}
	f.want("objects_abnormal",
		fmt.Sprintf(`objects_abnormal{kind="WebServer",namespace="a",state="Stalled"} %d`, 2*MaxAbnormal),
		`objects_abnormal{kind="WebServer",namespace="victim",state="Stalled"} 1`)
}

func TestObjects_CountDeaths(t *testing.T) {
	f := newFleet(t, Options{}).lead()
	events := f.Objects.Handler("ImmortalContainer")
	i := &immortalv1alpha1.ImmortalContainer{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "i", UID: "1", Generation: 1, ResourceVersion: "1"}}
	i.Status.ObservedGeneration = 1
	i.Status.Conditions = []metav1.Condition{f.condition(1, common.ConditionReady, "True", common.ReasonRunning)}
	events.OnAdd(i, true)
	update := func(starts int64, restarts int32) {
		now := i.DeepCopy()
		now.ResourceVersion += "1"
		now.Status.StartTimes, now.Status.ContainerRestarts = starts, restarts
		events.OnUpdate(i, now)
		i = now
	}
	update(1, 0) // its first pod
	update(2, 0)
	update(2, 1)
	f.want("object_abnormal")
	f.now = f.now.Add(30 * time.Minute)
	update(3, 0)
	f.want("rebirths_total", `rebirths_total{kind="ImmortalContainer"} 2`)
	f.want("container_restarts_total", `container_restarts_total{kind="ImmortalContainer"} 1`)
	f.want("object_abnormal", `object_abnormal{kind="ImmortalContainer",name="i",namespace="a",reason="Other",state="Dying"} 1`)
	f.now = f.now.Add(31 * time.Minute)
	f.want("object_abnormal")
	f.now = f.now.Add(time.Hour)
	f.want("object_abnormal")
	if n := len(f.Objects.suspects); n > 0 {
		t.Errorf("%d objects are remembered", n)
	}
}

// countEverything calls every method of the recorders once.
func (f *fleet) countEverything() {
	f.Child("WebServer", "Service", apply.Event{Action: apply.Created})
	f.Child("WebServer", "Service", apply.Event{Action: apply.Unchanged})
	f.Child("WebServer", "Deployment", apply.Event{Action: apply.Changed, Drift: apply.DriftFields, Contested: true})
	f.Child("WebServer", "Deployment", apply.Event{Err: &fault.Error{Class: fault.Quiet}})
	f.Child("WebServer", "Deployment", apply.Event{Err: errors.New("what another component says")})
	f.Refused("WebServer", "policy", "Forbidden")
	f.SetUnserved([]string{"Memcached"})
}

func TestMetrics_CountWrites(t *testing.T) {
	f := newFleet(t, Options{})
	f.countEverything()
	f.Child("WebServer", "Service", apply.Event{Action: apply.Created})
	f.want("child", `child_applies_skipped_total{child="Service",kind="WebServer"} 1`,
		`child_apply_failures_total{child="Deployment",kind="WebServer",reason="Error"} 1`,
		`child_apply_failures_total{child="Deployment",kind="WebServer",reason="WriteConflict"} 1`,
		`child_contested_total{child="Deployment",kind="WebServer"} 1`,
		`child_writes_total{action="changed",child="Deployment",kind="WebServer"} 1`,
		`child_writes_total{action="created",child="Service",kind="WebServer"} 2`)
	f.want("drift", `drift_repaired_total{child="Deployment",drift="fields",kind="WebServer"} 1`)
	f.want("admission", `admission_refusals_total{error="Forbidden",kind="WebServer",rule="policy"} 1`)
}

func TestCertificate_ReportsExpiry(t *testing.T) {
	inUse := map[string]*x509.Certificate{}
	f := newFleet(t, Options{Certificates: func() map[string]*x509.Certificate { return inUse }})
	f.want("certificate")
	inUse["serving"] = &x509.Certificate{NotBefore: time.Unix(19e8, 0), NotAfter: time.Unix(2e9, 0)}
	inUse["ca"] = &x509.Certificate{NotBefore: time.Unix(18e8, 0), NotAfter: time.Unix(21e8, 0)}
	f.want("certificate", `certificate_expiry_timestamp_seconds{certificate="ca"} 2.1e+09`, `certificate_expiry_timestamp_seconds{certificate="serving"} 2e+09`,
		`certificate_lifetime_seconds{certificate="ca"} 3e+08`, `certificate_lifetime_seconds{certificate="serving"} 1e+08`)
}

// Every metric is documented, has a unit, and has labels with bounded values,
// except for the namespace, which can be switched off, and series of abnormal
// objects.
func TestDefinitions_AreCompleteAndBounded(t *testing.T) {
	f := newFleet(t, Options{Certificates: func() map[string]*x509.Certificate { return map[string]*x509.Certificate{"ca": {NotAfter: f0}} }}).lead()
	announced := map[string]bool{}
	descs := make(chan *prometheus.Desc, 100)
	r := prometheus.NewRegistry()
	if err := f.Register(r); err != nil {
		t.Fatal(err)
	}
	r.Describe(descs)
	close(descs)
	for d := range descs {
		announced[strings.Split(d.String(), `"`)[1]] = true
	}
	for _, d := range Definitions() {
		if !announced[d.Name] {
			t.Errorf("%s is not registered", d.Name)
		}
		delete(announced, d.Name)
		if d.Unit == "" || d.Help == "" || !strings.HasSuffix(d.Help, ".") {
			t.Errorf("%s has no unit or help", d.Name)
		}
		if (d.Unit == "seconds") != strings.HasSuffix(d.Name, "_seconds") || (d.Type == Counter) != strings.HasSuffix(d.Name, "_total") {
			t.Errorf("%s: the name does not end with the unit %s, or with _total for a counter", d.Name, d.Unit)
		}
		series := 1
		for _, l := range d.Labels {
			switch {
			case l.Max > 0:
				series *= l.Max
			case l == labelName && !d.PerObject, l != labelName && l != labelNamespace && l != labelWatched:
				t.Errorf("%s: label %s is not bounded", d.Name, l.Name)
			}
		}
		if series > 25_000 {
			t.Errorf("%s can have %d series in one namespace", d.Name, series)
		}
	}
	for name := range announced {
		t.Errorf("%s has no definition", name)
	}
}

var f0 = time.Unix(2e9, 0)

// The linter of Prometheus accepts names, types and help.
func TestMetrics_PassPromlint(t *testing.T) {
	f := newFleet(t, Options{Certificates: func() map[string]*x509.Certificate { return map[string]*x509.Certificate{"ca": {NotAfter: f0}} }}).lead()
	w := f.web("a", "web")
	f.events.OnAdd(w, false)
	w = f.update(w, func(w *webserverv1.WebServer) {
		w.Status.Conditions = append(w.Status.Conditions[:1], f.condition(1, common.ConditionReady, "False", common.ReasonRolledBack), f.condition(1, common.ConditionStalled, "True", common.ReasonRolloutFailed))
		w.Status.LastActions = []common.Action{{Type: common.ActionRollback, Reason: "Crash"}}
	})
	f.events.OnDelete(f.web("a", "other"))
	f.events.OnAdd(f.web("a", "other"), false)
	f.countEverything()
	r := prometheus.NewPedanticRegistry()
	if err := f.Register(r); err != nil {
		t.Fatal(err)
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
	linted := map[string]bool{defRebirths.Name: true, defRestarts.Name: true, defUnreadable.Name: true} // covered elsewhere
	for _, family := range families {
		linted[family.GetName()] = true
	}
	for _, d := range Definitions() {
		if !linted[d.Name] {
			t.Errorf("%s was not linted", d.Name)
		}
	}
	_ = w
}
