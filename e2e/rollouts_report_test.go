//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/platform-operator/platform-operator/e2e/load"
)

// measurement is one row of the table: the results of one load on the managed
// application, and of the same load on the control.
type measurement struct {
	name, kind    string
	way           way
	ours, control load.Result
	took          time.Duration
	// calm is when, since the loads began, all effects of the case were over; 0 if
	// they do not end.
	calm    time.Duration
	allowed []load.Class
	note    string
}

// report is the table in docs/benchmarks.md.
type report struct {
	rows    []measurement
	skipped []string
}

const (
	benchmarks = "../docs/benchmarks.md"
	// The file is overwritten between these two lines, and can be edited around
	// them.
	rolloutsBegin = "<!-- rollouts: written by make bench-rollouts; changes by hand get lost -->"
	rolloutsEnd   = "<!-- rollouts: end -->"
	benchTitle    = "# Benchmarks\n\n"
)

// write replaces the text between the markers, and adds the markers if they are
// missing.
func (r report) write(t *testing.T) error {
	t.Helper()
	raw, err := os.ReadFile(benchmarks)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	text := string(raw)
	if text == "" {
		text = benchTitle
	}
	text, err = between(text, rolloutsBegin, rolloutsEnd, r.markdown(machine(t)))
	if err != nil {
		return err
	}
	return os.WriteFile(benchmarks, []byte(text), 0o644) //nolint:gosec // the path is a constant
}

// between returns the text with the part between the two lines replaced.
func between(text, begin, end, content string) (string, error) {
	section := begin + "\n\n" + content + "\n" + end
	before, rest, ok := strings.Cut(text, begin)
	if !ok {
		return strings.TrimRight(text, "\n") + "\n\n" + section + "\n", nil
	}
	_, after, ok := strings.Cut(rest, end)
	if !ok {
		return "", fmt.Errorf("%s has %q and not %q after it", benchmarks, begin, end)
	}
	return before + section + after, nil
}

// machine describes the machine of the measurements.
func machine(t *testing.T) string {
	t.Helper()
	kernel, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		t.Error(err)
	}
	nodes := strings.Fields(kubectl(t, "get", "nodes", "-o", "jsonpath={.items[*].status.nodeInfo.kubeletVersion}"))
	return fmt.Sprintf("%s; %d cores, Linux %s; Kubernetes %s with %d nodes on that machine, load and all.",
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
	b.WriteString("| case | kind | way | keep-alive | requests | failed | failed, plain | p99 | p99, plain | time |\n")
	b.WriteString("|---|---|---|---|---:|---:|---:|---:|---:|---:|\n")
	var notes []string
	for _, f := range r.rows {
		name := f.name
		if f.note != "" {
			name += " ¹"
			notes = []string{"¹ " + f.note + "."}
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %d | %s | %s | %s | %s | %s |\n", name, f.kind, f.way, onOff(f.way.keepAlive),
			f.ours.Requests, f.failedOurs(), f.control.Classes(), ms(f.ours.P99), ms(f.control.P99), f.took.Round(100*time.Millisecond))
	}
	b.WriteByte('\n')
	for _, f := range r.rows {
		if len(f.allowed) > 0 && f.ours.Failed() > 0 {
			notes = append(notes, "² Refused after the Service was deleted, and never accepted: not failures.")
			break
		}
	}
	for _, f := range r.rows {
		if f.ours.Failures[load.Handshake] > 0 {
			notes = append(notes, "³ nginx reads certificate and key one after the other, and the kubelet changed both in between: [TLS](api/webserver.md#tls).")
			break
		}
	}
	for _, n := range notes {
		b.WriteString(n + "\n\n")
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

func (f measurement) failedOurs() string {
	if len(f.allowed) > 0 && f.ours.Failed() > 0 {
		return fmt.Sprintf("**%d** (refused %d ²)", f.ours.Failed(f.allowed...), f.ours.Failed()-f.ours.Failed(f.allowed...))
	}
	mark := ""
	if f.ours.Failures[load.Handshake] > 0 {
		mark = " ³"
	}
	return "**" + f.ours.Classes() + "**" + mark
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }

func TestBetween_ReplacesOnlyTheMarkedText(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"none yet": {"# A\n", "# A\n\nB\n\nnew\nE\n"},
		"there":    {"# A\nmine\nB\nold\nE\nmine too\n", "# A\nmine\nB\n\nnew\nE\nmine too\n"},
	} {
		got, err := between(tc.text, "B", "E", "new")
		if err != nil || got != tc.want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := between("B old", "B", "E", "new"); err == nil {
		t.Error("a file without an end was written")
	}
}

func TestReport_DistinguishesFailuresFromRefusals(t *testing.T) {
	refused := load.Result{Requests: 10, Failures: map[load.Class]int{load.Connect: 3}, FailedAt: []time.Duration{time.Second, 2 * time.Second, 21 * time.Second}}
	r := report{rows: []measurement{
		{name: "changed", kind: "A", way: way{nodePort: true}, ours: load.Result{Requests: 10}, control: refused, calm: 20 * time.Second},
		{name: "deleted", kind: "A", way: way{keepAlive: true}, ours: refused, control: refused, allowed: load.NotAccepted},
		{name: "broken", kind: "B", ours: refused, note: "it stays"},
	}, skipped: []string{"other, A: no field"}}
	got := r.markdown("a machine")
	for _, want := range []string{
		"30 requests to the managed application, 3 of which failed", "Deployment and Service, 6 of which failed",
		"Later than 5s after the effects of a case were over, 0 requests to the managed application\nfailed and 1 to the plain one",
		"| changed | A | NodePort | off | 10 | **0** | 3 (connect 3) |",
		"| deleted | A | ClusterIP | on | 10 | **0** (refused 3 ²) |",
		"| broken ¹ | B | ClusterIP | off | 10 | **3 (connect 3)** | 0 |",
		"¹ it stays.", "² Refused after", "* other, A: no field",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}
