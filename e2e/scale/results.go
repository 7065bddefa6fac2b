package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/platform-operator/platform-operator/e2e/benchmark"
	"github.com/platform-operator/platform-operator/e2e/chart"
)

// results are everything that was measured.
type results struct {
	Version, Machine string `json:",omitzero"`
	// LoadAverage is that of the minute before the run, caused by other programs.
	LoadAverage string `json:",omitzero"`
	Took        time.Duration
	// Environment is that of the operator's Deployment.
	Environment []string
	Requests    *requestResults   `json:",omitempty"`
	Load        *loadResults      `json:",omitempty"`
	Spread      *spreadResults    `json:",omitempty"`
	Neighbours  *neighbourResults `json:",omitempty"`
}

const (
	begin = "<!-- scale: written by make bench-scale; manual changes are lost -->"
	end   = "<!-- scale: end -->"
)

// write updates benchmarks.md and the files that it refers to.
func (r results) write(docs string) error {
	page := filepath.Join(docs, "benchmarks.md")
	if r.Neighbours != nil {
		return benchmark.WriteSection(page, "# Benchmarks", beginNeighbours, endNeighbours, r.markdown())
	}
	if err := os.MkdirAll(filepath.Join(docs, "benchmarks"), 0o755); err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	for name, content := range map[string]string{"scale.csv": r.csv(), "scale.svg": r.chart()} {
		if err := os.WriteFile(filepath.Join(docs, "benchmarks", name), []byte(content), 0o644); err != nil {
			return fmt.Errorf("writing the growth: %w", err)
		}
	}
	return benchmark.WriteSection(page, "# Benchmarks", begin, end, r.markdown())
}

// growth is a column of scale.csv, and a value of every point.
type growth struct {
	column string
	value  func(point) float64
}

// columns of scale.csv. What was not measured at a point is NaN.
func (r results) columns() []growth {
	columns := []growth{
		{"objects", func(p point) float64 { return float64(p.Objects) }},
		{"created", func(p point) float64 { return float64(p.Created) }},
		{"makespan s", func(p point) float64 { return p.Makespan.Seconds() }},
		{rawColumn, func(p point) float64 {
			i := slices.Index(r.Load.Growth, p)
			if i >= len(r.Load.Batches) {
				return math.NaN()
			}
			return r.Load.Batches[i].Raw.Seconds()
		}},
		{"operator CPU for each ms", func(p point) float64 { return p.CPU.Seconds() * 1000 / float64(p.Created) }},
		{"reconciles for each", func(p point) float64 { return float64(p.Reconciles) / float64(p.Created) }},
		{"control plane CPU for each ms", func(p point) float64 { return p.ControlCPU.Seconds() * 1000 / float64(p.Created) }},
		{"maximum RSS MiB", func(p point) float64 { return p.Peak }},
		{"RSS after restart MiB", func(p point) float64 { return p.Rest }},
		{"workers start after s", func(p point) float64 { return p.Start.Seconds() }},
		{"restart CPU s", func(p point) float64 { return p.RestartCPU.Seconds() }},
		{"first edit ms", func(p point) float64 { return p.FirstEdit.Seconds() * 1000 }},
	}
	if r.Spread == nil {
		return columns
	}
	for _, c := range columns[2:] {
		if c.column == rawColumn {
			continue
		}
		columns = append(columns, growth{c.column + r.spread(), func(p point) float64 {
			i := slices.IndexFunc(r.Spread.Growth, func(s point) bool { return s.Objects == p.Objects })
			if i < 0 {
				return math.NaN()
			}
			return c.value(r.Spread.Growth[i])
		}})
	}
	return columns
}

// rawColumn is the column of the comparison, for which there are no namespaces.
const rawColumn = "makespan without the operator s"

// spread is what the names of the columns of the growth in several namespaces end with.
func (r results) spread() string { return fmt.Sprintf(" in %d namespaces", r.Spread.Namespaces) }

// csv returns the growth as data.
func (r results) csv() string {
	var b strings.Builder
	var names []string
	for _, c := range r.columns() {
		names = append(names, c.column)
	}
	b.WriteString(strings.Join(names, ",") + "\n")
	for _, p := range r.Load.Growth {
		var values []string
		for _, c := range r.columns() {
			v := c.value(p)
			if math.IsNaN(v) {
				values = append(values, "")
				continue
			}
			values = append(values, number(v))
		}
		b.WriteString(strings.Join(values, ",") + "\n")
	}
	return b.String()
}

// chart draws the growth.
func (r results) chart() string {
	values := map[string][]float64{}
	for _, p := range r.Load.Growth {
		for _, c := range r.columns() {
			values[c.column] = append(values[c.column], c.value(p))
		}
	}
	x := values["objects"]
	line := func(title, unit string, goal float64, series ...chart.Series) chart.Line {
		return chart.Line{
			Title: title, XLabel: "WebServers", YLabel: unit, X: x, LogX: x[len(x)-1] > 10*x[0], Goal: goal, Series: series,
		}
	}
	each := func(column string) (list []float64) {
		for i, v := range values[column] {
			list = append(list, v*1000/values["created"][i])
		}
		return list
	}
	plain := func(column string) []float64 { return values[column] }
	// spread adds the values of a column in several namespaces.
	spread := func(name, column string, of func(string) []float64, series ...chart.Series) []chart.Series {
		if r.Spread == nil {
			return series
		}
		return append(series, chart.Series{Name: name + strings.TrimPrefix(r.spread(), " in "), Values: of(column + r.spread())})
	}
	both := func(column string) []chart.Series {
		name := "one namespace"
		if r.Spread == nil {
			name = ""
		}
		return spread("", column, plain, chart.Series{Name: name, Values: values[column]})
	}
	return chart.Lines(2,
		line("Time until all are Ready, for each created", "ms", 0, spread("", "makespan s", each,
			chart.Series{Name: "with the operator", Values: each("makespan s")},
			chart.Series{Name: "without", Values: each(rawColumn)})...),
		line("CPU of the operator for each created", "ms", 5, both("operator CPU for each ms")...),
		line("Memory of the operator", "MiB (RSS)", 0, spread("the same, ", "RSS after restart MiB", plain,
			chart.Series{Name: "maximum", Values: values["maximum RSS MiB"]},
			chart.Series{Name: "after a restart", Values: values["RSS after restart MiB"]})...),
		line("CPU of a restart, until the queue is empty", "s", 3, both("restart CPU s")...),
		line("First edit during a restart → Deployment", "ms", 100, both("first edit ms")...),
		line("Restart: process starts → workers start", "s", 0, both("workers start after s")...),
	)
}

// loadAverage returns the load average of the last minute.
func loadAverage() (string, error) {
	raw, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "", fmt.Errorf("reading the load average: %w", err)
	}
	average, _, _ := strings.Cut(string(raw), " ")
	return average, nil
}

// machine describes the machine of the measurements.
func machine() (string, error) {
	kernel, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return "", fmt.Errorf("reading the version of the kernel: %w", err)
	}
	model := "unknown processor"
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "", fmt.Errorf("reading the model of the processor: %w", err)
	}
	for line := range strings.Lines(string(info)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			model = strings.TrimSpace(value)
			break
		}
	}
	return fmt.Sprintf("%d cores of %s, Linux %s", runtime.NumCPU(), model, strings.TrimSpace(string(kernel))), nil
}

// goal is a row of the first table.
type goal struct {
	name, goal, measured string
	// met is nil if the run cannot show it.
	met *bool
}

// memoryGoalObjects is the number of objects for which there are limits of memory.
const memoryGoalObjects = 10_000

// goals compares the results with the goals.
func (r results) goals() []goal {
	if r.Neighbours != nil {
		return r.Neighbours.goals()
	}
	var list []goal
	add := func(name, want string, met bool, format string, args ...any) {
		list = append(list, goal{name, want, fmt.Sprintf(format, args...), &met})
	}
	q, l := r.Requests, r.Load
	for _, o := range q.Operations {
		c := o.Counts
		want := "children + 1 status, at most 1 event"
		met := c.Children <= o.Distinct && c.Status <= o.Objects && c.Events <= o.Objects && c.Reads == 0
		if strings.HasPrefix(o.Name, "delete") {
			want, met = "0", c.sum() == 0
		}
		add("requests, "+o.Name, want, met, "%s", o.cost())
	}
	add("requests at rest", fmt.Sprintf("0 in %s", restFor), q.Rest == 0, "%d", q.Rest)
	add(fmt.Sprintf("writes at a restart with %d objects", q.RestartObjects), "0", q.RestartWrites == 0, "%d", q.RestartWrites)
	add(fmt.Sprintf("data of the ConfigMap of %d objects changes", q.Shared), "1 read of it", q.ChangedReads <= 1,
		"reads of it: %d; each object %.2f children, %.2f status, %.2f events", q.ChangedReads,
		per(q.Changed.Children, q.Shared), per(q.Changed.Status, q.Shared), per(q.Changed.Events, q.Shared))
	add("annotation of that ConfigMap changes", "0 requests", q.Annotated.sum() == 0, "requests: %d, of which reads of it: %d", q.Annotated.sum(), q.AnnotatedReads)

	perObject := r.cpuPerObject()
	add("CPU of the operator for each WebServer created", "≤ 5 ms", perObject <= 5*time.Millisecond, "%s", millis(perObject))
	var ratios, medians []float64
	for _, b := range l.Batches {
		ratios = append(ratios, ratio(b.Makespan, b.Raw))
		medians = append(medians, ratio(b.Median, b.Makespan))
	}
	add(fmt.Sprintf("time until %d are Ready, compared with the same children without the operator", l.Batches[0].Size), "≤ 1.25 (median of pairs)",
		median(ratios) <= 1.25, "%.2f (%.2f to %.2f, %d pairs)", median(ratios), slices.Min(ratios), slices.Max(ratios), len(ratios))
	add("time until half of them are Ready, compared with all", "≤ 0.4 (median of pairs)", median(medians) <= 0.4, "%.2f", median(medians))
	last := l.Growth[len(l.Growth)-1]
	add("restart: CPU until the queue is empty", "≤ 3 s", last.RestartCPU <= 3*time.Second, "%s", seconds(last.RestartCPU))
	var first []time.Duration
	for _, p := range l.Growth {
		first = append(first, p.FirstEdit)
	}
	add("restart: an edit when the workers start → its Deployment changed", "< 100 ms", slices.Max(first) < 100*time.Millisecond,
		"median %s, maximum %s of %d", millis(quantile(first, 0.5)), millis(slices.Max(first)), len(first))
	add("an edit at rest → its Deployment changed", "", true, "median %s, maximum %s of %d", millis(quantile(l.TenantIdle, 0.5)), millis(quantile(l.TenantIdle, 1)), len(l.TenantIdle))
	list[len(list)-1].met = nil
	add(fmt.Sprintf("the same in another namespace, while %d images are changed", l.Edits), "< 1 s", quantile(l.TenantBurst, 1) < time.Second,
		"median %s, maximum %s of %d", millis(quantile(l.TenantBurst, 0.5)), millis(quantile(l.TenantBurst, 1)), len(l.TenantBurst))
	add("SIGTERM of the leader: an edit at that moment → its Deployment changed", "< 1 s", quantile(l.Failovers, 1) < time.Second,
		"median %s, maximum %s of %d", millis(quantile(l.Failovers, 0.5)), millis(quantile(l.Failovers, 1)), len(l.Failovers))
	add("a call of a webhook, one after the other", "99 % < 5 ms", l.AdmissionIdle.Below5 >= 0.99, "%s", l.AdmissionIdle.text())
	add("a call of a webhook while the images are changed", "99 % < 25 ms", l.AdmissionBurst.Below25 >= 0.99, "%s", l.AdmissionBurst.text())
	atRest := max(l.RestMemory, l.RestAfterEdits)
	add("memory (RSS) at rest", "≤ 200 MiB with 10,000", atRest <= 200, "%.0f MiB after a restart, %.0f MiB after the changes, %.0f MiB without objects",
		l.RestMemory, l.RestAfterEdits, l.EmptyMemory)
	add("memory (RSS), maximum", "≤ 260 MiB with 10,000", l.PeakMemory <= 260, "%.0f MiB", l.PeakMemory)
	if l.Objects < memoryGoalObjects {
		list[len(list)-1].met, list[len(list)-2].met = nil, nil
	}
	list = append(list,
		goal{name: "CPU at rest", measured: fmt.Sprintf("%.2f %% of a core", l.RestCPU)},
		goal{name: "/metrics", measured: fmt.Sprintf("%d kB in %s", l.ScrapeBytes/1000, millis(l.ScrapeTime))})
	return list
}

// missed returns the goals that are missed.
func (r results) missed() []string {
	var list []string
	for _, g := range r.goals() {
		if g.met != nil && !*g.met {
			list = append(list, g.name)
		}
	}
	return list
}

// cpuPerObject is the mean over all objects that were created.
func (r results) cpuPerObject() time.Duration {
	var used time.Duration
	n := 0
	for _, p := range r.Load.Growth {
		used += p.CPU
		n += p.Created
	}
	return used / time.Duration(max(n, 1))
}

func (o operation) cost() string {
	c := o.Counts
	text := fmt.Sprintf("%s: %s children, %s status, %s events, %s reads", number(per(c.sum(), o.Objects)), number(per(c.Children, o.Objects)),
		number(per(c.Status, o.Objects)), number(per(c.Events, o.Objects)), number(per(c.Reads, o.Objects)))
	if c.Refused > 0 {
		text += fmt.Sprintf("; %s of them refused", number(per(c.Refused, o.Objects)))
	}
	return text
}

func (l latencies) text() string {
	return fmt.Sprintf("p99 %s; %.1f %% ≤ 5 ms, %.1f %% ≤ 25 ms of %d calls", millis(l.P99), 100*l.Below5, 100*l.Below25, l.Calls)
}

// markdown returns the section of benchmarks.md.
func (r results) markdown() string {
	command := "make campaign-neighbours"
	if r.Load != nil {
		command = fmt.Sprintf("make bench-scale SCALE=%d", r.Load.Objects)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "`%s`, operator %s, %s; %s.\nThe load average was %s when it began; it took %s.\n\n", command, r.Version, time.Now().UTC().Format(time.DateOnly),
		r.Machine, r.LoadAverage, r.Took.Round(time.Second))
	b.WriteString("| measure | goal | measured | |\n|---|---|---|---|\n")
	for _, g := range r.goals() {
		verdict := ""
		if g.met != nil {
			verdict = map[bool]string{true: "met", false: "**missed**"}[*g.met]
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", g.name, g.goal, g.measured, verdict)
	}
	if r.Load == nil {
		return b.String()
	}
	b.WriteString("\nPairs of batches, in the order in which they were created:\n\n")
	b.WriteString("| WebServers | there are then | all Ready | without the operator | ratio | half Ready | CPU of the operator for each | CPU of all processes for each | without the operator |\n")
	b.WriteString("|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n")
	population := 0
	for _, p := range r.Load.Batches {
		population += p.Size
		each := func(d time.Duration) string { return millis(d / time.Duration(p.Size)) }
		fmt.Fprintf(&b, "| %d | %d | %s | %s | %.2f | %s | %s | %s | %s |\n", p.Size, population, seconds(p.Makespan), seconds(p.Raw),
			ratio(p.Makespan, p.Raw), seconds(p.Median), each(p.CPU), each(p.clusterCPU()), each(p.RawCPU))
	}
	b.WriteString("\n![Growth of time, CPU, memory and latency with the number of WebServers](benchmarks/scale.svg)\n\n")
	b.WriteString("After each step of the growth the operator was restarted ([data](benchmarks/scale.csv)):\n\n")
	b.WriteString(growthTable(r.Load.Growth))
	fmt.Fprintf(&b, "\n%d images changed at once: all Ready after %s, %s of CPU of the operator for each.\n", r.Load.Edits, seconds(r.Load.EditsTime),
		millis(r.Load.EditsCPU/time.Duration(max(r.Load.Edits, 1))))
	if r.Spread != nil {
		fmt.Fprintf(&b, "\nThe same%s, in a cluster of its own:\n\n%s", r.spread(), growthTable(r.Spread.Growth))
	}
	return b.String()
}

// growthTable returns the table of the growth, and its slopes.
func growthTable(points []point) string {
	var b strings.Builder
	b.WriteString("| WebServers | created | in | CPU of the operator for each | reconciles for each | CPU of the control plane for each | RSS, maximum | RSS after the restart | workers start after | CPU of the restart | first edit |\n")
	b.WriteString("|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n")
	for _, p := range points {
		each := time.Duration(max(p.Created, 1))
		fmt.Fprintf(&b, "| %d | %d | %s | %s | %.2f | %s | %.0f MiB | %.0f MiB | %s | %s | %s |\n", p.Objects, p.Created, seconds(p.Makespan),
			millis(p.CPU/each), float64(p.Reconciles)/float64(each), millis(p.ControlCPU/each), p.Peak, p.Rest, seconds(p.Start), seconds(p.RestartCPU), millis(p.FirstEdit))
	}
	first, last := points[0], points[len(points)-1]
	if added := float64(last.Objects - first.Objects); added > 0 {
		each := func(p point, d time.Duration) float64 { return d.Seconds() / float64(max(p.Created, 1)) }
		fmt.Fprintf(&b, "\nFrom %d to %d WebServers, each of them adds %.1f KiB to the RSS after a restart and %.2f ms to the CPU of a restart. "+
			"Creating one takes %.2f times as long as at first, and %.2f times the CPU.\n", first.Objects, last.Objects,
			(last.Rest-first.Rest)*1024/added, (last.RestartCPU-first.RestartCPU).Seconds()*1000/added,
			each(last, last.Makespan)/each(first, first.Makespan), each(last, last.CPU)/each(first, first.CPU))
	}
	return b.String()
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	if n := len(sorted); n%2 == 0 && n > 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[len(sorted)/2]
}

func number(f float64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.2f", f), "0"), ".")
}

func millis(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
