//go:build e2e

package e2e

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/platform-operator/platform-operator/e2e/benchmark"
	"github.com/platform-operator/platform-operator/e2e/load"
)

// measurement is one row of the table: the results of one load on the managed
// application, and of the same load on the control.
type measurement struct {
	name, kind    string
	way           way
	ours, control load.Result
	rate          int           // of a load, in requests per second
	limit         time.Duration // of a request
	took          time.Duration
	// calm is when, since the loads began, all effects of the case were over; 0 if
	// they do not end.
	calm    time.Duration
	allowed []load.Class
	note    string
}

func (m measurement) String() string {
	return fmt.Sprintf("%s %s, keep-alive %t\n  managed: %v\n  control: %v", m.kind, m.way, m.way.keepAlive, m.ours, m.control)
}

// report is the table in docs/contributing/benchmarks.md.
type report struct {
	rows    []measurement
	skipped []string
}

const (
	benchmarks = "../docs/contributing/benchmarks.md"
	// The data that the page refers to.
	rolloutsData = "../docs/contributing/benchmarks/rollouts.csv"
	// The file is overwritten between these two lines, and can be edited around
	// them.
	rolloutsBegin = "<!-- rollouts: written by make bench-rollouts; changes by hand are overwritten -->"
	rolloutsEnd   = "<!-- rollouts: end -->"
)

// write replaces the text between the markers, and the data.
func (r report) write(t *testing.T) error {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(rolloutsData), 0o755); err != nil {
		return err
	}
	var data bytes.Buffer
	if err := csv.NewWriter(&data).WriteAll(r.data()); err != nil {
		return err
	}
	if err := os.WriteFile(rolloutsData, data.Bytes(), 0o644); err != nil {
		return err
	}
	return benchmark.WriteSection(benchmarks, "# Benchmarks", rolloutsBegin, rolloutsEnd, r.markdown(machine(t)))
}

// data returns the records of the CSV file. Failed are the requests that failed, and
// refused those that were not accepted after the application was deleted, which is not a
// failure.
func (r report) data() [][]string {
	records := [][]string{{
		"case", "kind", "way", "keep-alive", "requests", "failed", "refused", "failed plain", "classes", "classes plain",
		"p99 ms", "p99 plain ms", "seconds",
	}}
	millis := func(d time.Duration) string {
		return fmt.Sprint(float64(d.Round(100*time.Microsecond).Microseconds()) / 1000)
	}
	for _, f := range r.rows {
		failed := f.ours.Failed(f.allowed...)
		records = append(records, []string{
			f.name, f.kind, f.way.String(), onOff(f.way.keepAlive), strconv.Itoa(f.ours.Requests), strconv.Itoa(failed),
			strconv.Itoa(f.ours.Failed() - failed), strconv.Itoa(f.control.Failed()), f.ours.Classes(), f.control.Classes(),
			millis(f.ours.P99), millis(f.control.P99), fmt.Sprint(f.took.Round(100 * time.Millisecond).Seconds()),
		})
	}
	return records
}

// shares returns a Markdown table of the share of requests that failed in each case.
func (r report) shares() string {
	type key struct{ name, kind string }
	type sum struct{ requests, ours, control int }
	var order []key
	sums := map[key]sum{}
	for _, f := range r.rows {
		k := key{f.name, f.kind}
		s, ok := sums[k]
		if !ok {
			order = append(order, k)
		}
		sums[k] = sum{s.requests + f.ours.Requests, s.ours + f.ours.Failed(f.allowed...), s.control + f.control.Failed()}
	}
	var b strings.Builder
	b.WriteString("| case | kind | failed requests, managed | plain Deployment and Service |\n|---|---|---:|---:|\n")
	for _, k := range order {
		s := sums[k]
		percent := func(n int) float64 { return 100 * float64(n) / float64(max(s.requests, 1)) }
		fmt.Fprintf(&b, "| %s | %s | %.2f %% | %.2f %% |\n", k.name, k.kind, percent(s.ours), percent(s.control))
	}
	return b.String()
}

// machine describes the machine of the measurements.
func machine(t *testing.T) string {
	t.Helper()
	kernel, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		t.Error(err)
	}
	nodes := strings.Fields(kubectl(t, "get", "nodes", "-o", "jsonpath={.items[*].status.nodeInfo.kubeletVersion}"))
	return fmt.Sprintf("%s; %d cores, Linux %s; Kubernetes %s with %d nodes on that machine, including the load.",
		time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(), strings.TrimSpace(string(kernel)), nodes[0], len(nodes))
}

// markdown returns the table.
func (r report) markdown(machine string) string {
	var b strings.Builder
	requests, late := 0, time.Duration(0)
	for _, f := range r.rows {
		requests += f.ours.Requests
		late = max(late, f.ours.Late, f.control.Late)
	}
	fmt.Fprintf(&b, "`make bench-rollouts`, %s\n\n", machine)
	fmt.Fprintf(&b, "%d requests to the managed application, %d of which failed, and the same number to a plain\n", requests,
		failed(r.rows, func(f measurement) int { return f.ours.Failed(f.allowed...) }))
	fmt.Fprintf(&b, "Deployment and Service, %d of which failed. The load itself was late by at most %s.\n\n",
		failed(r.rows, func(f measurement) int { return f.control.Failed() }), late.Round(time.Millisecond))
	if calm := slices.DeleteFunc(slices.Clone(r.rows), func(f measurement) bool { return f.calm == 0 }); len(calm) > 0 {
		fmt.Fprintf(&b, "Later than %s after the effects of a case were over, %d requests to the managed application\nfailed and %d to the plain one.\n\n",
			calmAfter, failed(calm, func(f measurement) int { return f.ours.FailedAfter(f.calm) }),
			failed(calm, func(f measurement) int { return f.control.FailedAfter(f.calm) }))
	}
	b.WriteString(r.shares() + "\n")
	b.WriteString("[The data](benchmarks/rollouts.csv) has a row for each load, with the failures by class and the latencies.\n\n")
	var notes []string
	unplayable := map[string][]string{} // by note
	for _, f := range r.rows {
		if f.note != "" && !slices.Contains(unplayable[f.note], f.name) {
			unplayable[f.note] = append(unplayable[f.note], f.name)
		}
	}
	for _, note := range slices.Sorted(maps.Keys(unplayable)) {
		notes = append(notes, strings.Join(unplayable[note], ", ")+": "+note+".")
	}
	slowed := map[int][]string{} // by rate
	for _, f := range r.rows {
		if name := f.name + " of " + f.kind; f.rate < benchDose.rate && !slices.Contains(slowed[f.rate], name) {
			slowed[f.rate] = append(slowed[f.rate], name)
		}
	}
	for _, rate := range slices.Sorted(maps.Keys(slowed)) {
		notes = append(notes, fmt.Sprintf("%s: each load with %d requests per second instead of %d, because the machine was too slow for more.", strings.Join(slowed[rate], ", "), rate, benchDose.rate))
	}
	for _, f := range r.rows {
		if len(f.allowed) > 0 && f.ours.Failed() > 0 {
			notes = append(notes, f.name+": requests refused after the Service was deleted, which were never accepted, are not failures.")
			break
		}
	}
	for _, f := range r.rows {
		if f.ours.Failures[load.Handshake] > 0 {
			notes = append(notes, f.name+": nginx reads certificate and key one after the other, and the kubelet changed both in between: [TLS](../api/webserver.md#tls).")
			break
		}
	}
	for _, n := range notes {
		b.WriteString("* " + n + "\n")
	}
	if len(notes) > 0 {
		b.WriteByte('\n')
	}
	if len(r.skipped) > 0 {
		b.WriteString("Not played:\n\n")
		for _, s := range r.skipped {
			b.WriteString("* " + s + "\n")
		}
		b.WriteByte('\n')
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

func TestReport_DistinguishesFailuresFromRefusals(t *testing.T) {
	refused := load.Result{Requests: 10, Failures: map[load.Class]int{load.Connect: 3}, FailedAt: []time.Duration{time.Second, 2 * time.Second, 21 * time.Second}}
	r := report{rows: []measurement{
		{name: "changed", kind: "A", way: way{nodePort: true}, rate: benchDose.rate / 2, ours: load.Result{Requests: 10}, control: refused, calm: 20 * time.Second},
		{name: "deleted", kind: "A", way: way{keepAlive: true}, rate: benchDose.rate, ours: refused, control: refused, allowed: load.NotAccepted},
		{name: "broken", kind: "B", rate: benchDose.rate, ours: refused, note: "it stays"},
	}, skipped: []string{"other, A: no field"}}
	got := r.markdown("a machine")
	for _, want := range []string{
		"30 requests to the managed application, 3 of which failed", "Deployment and Service, 6 of which failed",
		"Later than 5s after the effects of a case were over, 0 requests to the managed application\nfailed and 1 to the plain one",
		"* broken: it stays.", "* changed of A: each load with 50 requests per second instead of 100", "* deleted: requests refused after", "* other, A: no field",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	want := [][]string{
		{"changed", "A", "NodePort", "off", "10", "0", "0", "3", "0", "3 (connect 3)", "0", "0", "0"},
		{"deleted", "A", "ClusterIP", "on", "10", "0", "3", "3", "3 (connect 3)", "3 (connect 3)", "0", "0", "0"},
		{"broken", "B", "ClusterIP", "off", "10", "3", "0", "0", "3 (connect 3)", "0", "0", "0", "0"},
	}
	if diff := cmp.Diff(want, r.data()[1:]); diff != "" {
		t.Error(diff)
	}
}
