package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/platform-operator/platform-operator/pkg/testkit/golden"
)

// sampleResults meets some goals and misses others.
func sampleResults() results {
	return results{
		Version: "v1", Machine: "2 cores", LoadAverage: "0.50", Took: 10 * time.Minute,
		Requests: &requestResults{
			Operations: []operation{
				{Name: "create WebServer", Objects: 2, Distinct: 8, Counts: counts{Children: 8, Status: 2, Events: 2}},
				{Name: "scale it", Objects: 2, Distinct: 2, Counts: counts{Children: 3, Status: 4, Events: 2, Reads: 1, Refused: 1}},
				{Name: "delete WebServer", Objects: 2},
			},
			RestartObjects: 4, Shared: 4, Changed: counts{Children: 12, Status: 8}, ChangedReads: 1,
		},
		Load: &loadResults{
			Objects: 400,
			Batches: []batch{
				{Size: 200, Makespan: 24 * time.Second, Raw: 20 * time.Second, Median: 12 * time.Second, cost: cost{CPU: 800 * time.Millisecond, ControlCPU: 29200 * time.Millisecond}, RawCPU: 25 * time.Second},
				{Size: 200, Makespan: 22 * time.Second, Raw: 20 * time.Second, Median: 8 * time.Second, cost: cost{CPU: 600 * time.Millisecond, ControlCPU: 29400 * time.Millisecond}, RawCPU: 25 * time.Second},
			},
			Growth: []point{
				{Objects: 200, Created: 200, Makespan: 24 * time.Second, cost: cost{CPU: 800 * time.Millisecond, ControlCPU: 29 * time.Second, Reconciles: 1400}, Peak: 100, Rest: 80, Start: time.Second, RestartCPU: time.Second, FirstEdit: 90 * time.Millisecond},
				{Objects: 400, Created: 200, Makespan: 22 * time.Second, cost: cost{CPU: 600 * time.Millisecond}, Peak: 120, Rest: 90, Start: time.Second, RestartCPU: 2 * time.Second, FirstEdit: 110 * time.Millisecond},
				{Objects: 500, Created: 100, Makespan: 10 * time.Second, cost: cost{CPU: 500 * time.Millisecond}, Peak: 130, Rest: 95, Start: time.Second, RestartCPU: 2 * time.Second, FirstEdit: 80 * time.Millisecond},
			},
			EmptyMemory: 50, RestMemory: 90, RestAfterEdits: 110, PeakMemory: 150, RestCPU: 0.2,
			ScrapeBytes: 90_000, ScrapeTime: 9 * time.Millisecond,
			Edits: 400, EditsTime: 40 * time.Second, EditsCPU: 4 * time.Second,
			TenantIdle: []time.Duration{50 * time.Millisecond}, TenantBurst: []time.Duration{200 * time.Millisecond, 900 * time.Millisecond},
			AdmissionIdle:  latencies{Calls: 600, P99: 4 * time.Millisecond, Below5: 0.995, Below25: 1},
			AdmissionBurst: latencies{Calls: 800, P99: 40 * time.Millisecond, Below5: 0.5, Below25: 0.9},
			Failovers:      []time.Duration{300 * time.Millisecond, 1200 * time.Millisecond},
		},
		Spread: &spreadResults{Namespaces: 50, Growth: []point{
			{Objects: 200, Created: 200, Makespan: 25 * time.Second, cost: cost{CPU: 820 * time.Millisecond, ControlCPU: 28 * time.Second, Reconciles: 1300}, Peak: 102, Rest: 82, Start: time.Second, RestartCPU: time.Second, FirstEdit: 80 * time.Millisecond},
			{Objects: 400, Created: 200, Makespan: 26 * time.Second, cost: cost{CPU: 840 * time.Millisecond}, Peak: 122, Rest: 92, Start: time.Second, RestartCPU: 2 * time.Second, FirstEdit: 100 * time.Millisecond},
		}},
	}
}

func TestResults_AreWrittenIntoDocs(t *testing.T) {
	docs := t.TempDir()
	neighbours := results{Version: "v1", Machine: "2 cores", LoadAverage: "0.50", Took: 10 * time.Minute, Neighbours: &neighbourResults{
		Quiet:       []time.Duration{20 * time.Millisecond, 40 * time.Millisecond},
		Noisy:       noise{Others: []time.Duration{20 * time.Millisecond, 47 * time.Millisecond}, Edits: 300, Flaps: 600},
		Paused:      noise{Others: []time.Duration{22 * time.Millisecond, 44 * time.Millisecond}, Edits: 310, Flaps: 620},
		NoisyMemory: 120, FloodMemory: 300, Flooded: map[int]int{200: 10, 429: 1000, 0: 1},
		Admitted: []time.Duration{5 * time.Millisecond}, AdmittedInFlood: []time.Duration{300 * time.Millisecond}, Refused: 2,
		Drains: &drainResults{Combinations: 2, Drains: 6, Evictions: 12, Retried: 1, RefusedLabels: 1},
	}}
	for _, r := range []results{sampleResults(), neighbours} {
		if err := r.write(docs); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"benchmarks.md", "benchmarks/scale.csv", "benchmarks/scale.svg"} {
		raw, err := os.ReadFile(filepath.Join(docs, name))
		if err != nil {
			t.Fatal(err)
		}
		got := strings.ReplaceAll(string(raw), time.Now().UTC().Format(time.DateOnly), "TODAY")
		golden.File(t, filepath.Join("testdata", filepath.Base(name)), []byte(got))
	}
}

func TestResults_DoNotJudgeMemoryWithFewObjects(t *testing.T) {
	r := sampleResults()
	r.Load.PeakMemory = 1000
	if missed := strings.Join(r.missed(), "; "); strings.Contains(missed, "memory") {
		t.Errorf("missed with %d objects: %s", r.Load.Objects, missed)
	}
	r.Load.Objects = memoryGoalObjects
	if missed := strings.Join(r.missed(), "; "); !strings.Contains(missed, "memory (RSS), maximum") {
		t.Errorf("not missed with %d objects: %s", r.Load.Objects, missed)
	}
}

func TestOptions_SizesOfTheStepsOfTheGrowth(t *testing.T) {
	for want, o := range map[string]options{
		"[200 200]":                  {objects: 400, pairs: 2},
		"[20 20 20]":                 {objects: 60, pairs: 3},
		"[200 200 200 200 200]":      {objects: 1000, pairs: 5},
		"[200 200 400 800 1600 800]": {objects: 4000, pairs: 2},
	} {
		if got := fmt.Sprint(o.sizes()); got != want {
			t.Errorf("%+v: got %s, want %s", o, got, want)
		}
	}
}

func TestCount_SortsTheOperatorsRequests(t *testing.T) {
	line := func(user, verb, resource, subresource, name string, code string) string {
		return `{"verb":"` + verb + `","user":{"username":"` + user + `"},"objectRef":{"resource":"` + resource + `","subresource":"` + subresource +
			`","namespace":"a","name":"` + name + `"},"responseStatus":{"code":` + code + "}}\n"
	}
	const operator = "system:serviceaccount:platform-operator-system:platform-operator"
	requests, err := parseAudit(strings.NewReader(
		line(operator, "patch", "deployments", "", "x", "201") + line(operator, "patch", "services", "", "x", "422") +
			line(operator, "create", "services", "", "x", "201") + line(operator, "patch", "webservers", "status", "x", "200") +
			line(operator, "create", "events", "", "x", "201") + line(operator, "get", "configmaps", "", "x", "200") +
			line(operator, "patch", "pods", "status", "x", "200") + line(operator, "watch", "pods", "", "", "200") +
			line(operator, "update", "leases", "", "x", "200") + line("admin", "patch", "webservers", "", "x", "200") +
			`{"verb":"pat`))
	if err != nil {
		t.Fatal(err)
	}
	got, distinct := count(requests, "a")
	if diff := cmp.Diff(counts{Children: 4, Status: 1, Events: 1, Reads: 1, Refused: 1}, got); diff != "" || distinct != 3 {
		t.Errorf("%d distinct children: %s", distinct, diff)
	}
	if got, _ := count(requests, "b"); got != (counts{}) {
		t.Errorf("another namespace has %+v", got)
	}
}

func TestParseBuckets_AddsUpTheWebhooksOfAKind(t *testing.T) {
	const metric = "apiserver_admission_webhook_admission_duration_seconds_bucket"
	buckets := parseBuckets(metric + `{name="default.webservers.my.domain",le="0.005"} 90` + "\n" + metric + `{name="validate.webservers.my.domain",le="0.005"} 8` + "\n" +
		metric + `{name="default.webservers.my.domain",le="0.025"} 100` + "\n" + metric + `{name="default.memcacheds.my.domain",le="0.025"} 1000` + "\n" +
		metric + `{name="default.webservers.my.domain",le="+Inf"} 100` + "\nother 1\n")
	got := summarize(buckets)
	want := latencies{Calls: 100, P99: 15 * time.Millisecond, Below5: 0.98, Below25: 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := summarize(nil); got != (latencies{}) {
		t.Errorf("without calls: %+v", got)
	}
}

func TestIsReady_ComparesTheGeneration(t *testing.T) {
	object := func(generation, observed int64, available int64) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"generation": generation}, "spec": map[string]any{"replicas": int64(2)},
			"status": map[string]any{
				"observedGeneration": observed, "replicas": int64(2), "updatedReplicas": int64(2), "availableReplicas": available,
				"conditions": []any{map[string]any{"type": "Ready", "status": "True"}},
			},
		}}
	}
	if !isReady(deployments, object(2, 2, 2)) || isReady(deployments, object(2, 1, 2)) || isReady(deployments, object(2, 2, 1)) {
		t.Error("a Deployment is Ready if all replicas are available in its latest generation")
	}
	if !isReady(webServers, object(2, 2, 0)) || isReady(webServers, object(3, 2, 0)) {
		t.Error("a WebServer is Ready if the condition is True in its latest generation")
	}
}

func TestRelease_LeavesNoTraceOfTheOperator(t *testing.T) {
	u := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{
			"annotations": map[string]any{"platform-operator.io/applied": "1"}, "ownerReferences": []any{map[string]any{"name": "a"}},
			"labels": map[string]any{"app": "webserver", "app.kubernetes.io/managed-by": "platform-operator"},
		},
		"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"app.kubernetes.io/managed-by": "platform-operator"}}}},
	}}
	release(u)
	want := map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"app": "webserver"}},
		"spec":     map[string]any{"template": map[string]any{"metadata": map[string]any{"labels": map[string]any{}}}},
	}
	if diff := cmp.Diff(want, u.Object); diff != "" {
		t.Error(diff)
	}
}

func TestParseReconciles(t *testing.T) {
	const metrics = `# TYPE controller_runtime_reconcile_total counter
controller_runtime_reconcile_total{controller="webserver",result="success"} 12
controller_runtime_reconcile_total{controller="webserver",result="requeue_after"} 3
controller_runtime_reconcile_errors_total{controller="webserver"} 7
`
	if got := parseReconciles(metrics); got != 15 {
		t.Errorf("got %d, want 15", got)
	}
}
