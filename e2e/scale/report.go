package main

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

const (
	begin = "<!-- scale: written by make bench-scale; manual changes are lost -->"
	end   = "<!-- scale: end -->"
	// memoryGoalObjects is the number of objects for which there are limits of memory.
	memoryGoalObjects = 10_000
)

// results are everything that was measured.
type results struct {
	Objects   int
	Began     time.Time
	Operators []measured
}

// measured is what was measured of one program.
type measured struct {
	Version string
	Batches []batch
	// Restarts are those before each batch, and then those with all objects.
	Restarts []restart
	// RestCPU are shares of one core that were used while nothing changed.
	RestCPU []float64
}

// row is a measure of all programs.
type row struct {
	name, goal string
	measured   []string
	// met reports whether the last program meets the goal; nil if the run cannot show it.
	met *bool
}

// rows compares the results with the goals.
func (r results) rows() []row {
	var rows []row
	add := func(name, goal string, measure func(m measured) (text string, met bool)) *row {
		row := row{name: name, goal: goal}
		for _, m := range r.Operators {
			text, met := measure(m)
			row.measured = append(row.measured, text)
			if row.met = nil; goal != "" {
				row.met = &met
			}
		}
		rows = append(rows, row)
		return &rows[len(rows)-1]
	}
	add("CPU of the operator for each WebServer created", "≤ 5 ms", func(m measured) (string, bool) {
		return spread(m.Batches, batch.each, millis, 5*time.Millisecond)
	})
	add(fmt.Sprintf("time until %d are Ready", r.Operators[0].Batches[0].Created), "", func(m measured) (string, bool) {
		return spread(m.Batches, func(b batch) time.Duration { return b.Took }, seconds, 0)
	})
	all := func(m measured) []restart {
		return slices.DeleteFunc(slices.Clone(m.Restarts), func(s restart) bool { return s.Objects < m.Restarts[len(m.Restarts)-1].Objects })
	}
	with := fmt.Sprintf("restart with %d: ", r.Operators[0].Restarts[len(r.Operators[0].Restarts)-1].Objects)
	add(with+"CPU until the operator is idle", "≤ 3 s", func(m measured) (string, bool) {
		return spread(all(m), func(s restart) time.Duration { return s.CPU }, seconds, 3*time.Second)
	})
	add(with+"workers start after", "", func(m measured) (string, bool) {
		return spread(all(m), func(s restart) time.Duration { return s.Start }, seconds, 0)
	})
	mib := func(v float64) string { return fmt.Sprintf("%.0f MiB", v) }
	memory := func(row *row) {
		if r.Objects < memoryGoalObjects {
			row.met = nil
		}
	}
	memory(add(with+"memory (RSS)", "≤ 200 MiB with 10,000", func(m measured) (string, bool) {
		return spread(all(m), func(s restart) float64 { return s.Memory }, mib, 200)
	}))
	memory(add("memory (RSS), maximum while objects are created", "≤ 260 MiB with 10,000", func(m measured) (string, bool) {
		return spread(m.Batches, func(b batch) float64 { return b.Peak }, mib, 260)
	}))
	add("memory (RSS) without objects", "", func(m measured) (string, bool) { return mib(m.Restarts[0].Memory), true })
	add("CPU at rest", "", func(m measured) (string, bool) {
		return spread(m.RestCPU, func(v float64) float64 { return v }, func(v float64) string { return fmt.Sprintf("%.2f %% of a core", 100*v) }, 0)
	})
	return rows
}

// spread returns the median and the limits of some values as text, and reports whether
// the median is at most most.
func spread[T any, V cmp.Ordered](of []T, value func(T) V, text func(V) string, most V) (string, bool) {
	var all []V
	for _, o := range of {
		all = append(all, value(o))
	}
	slices.Sort(all)
	middle := all[len(all)/2]
	return fmt.Sprintf("%s (%s to %s)", text(middle), text(all[0]), text(all[len(all)-1])), middle <= most
}

// missed returns the goals that the last program misses.
func (r results) missed() []string {
	var list []string
	for _, row := range r.rows() {
		if row.met != nil && !*row.met {
			list = append(list, row.name)
		}
	}
	return list
}

// markdown returns the section of benchmarks.md.
func (r results) markdown() (string, error) {
	machine, err := machine()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "`make bench-scale SCALE=%d`, %s; %s. It took %s.\n\n", r.Objects, r.Began.UTC().Format(time.DateOnly), machine, time.Since(r.Began).Round(time.Second))
	var versions []string
	for _, m := range r.Operators {
		versions = append(versions, m.Version)
	}
	fmt.Fprintf(&b, "| measure | goal | %s | |\n|---|---|%s---|\n", strings.Join(versions, " | "), strings.Repeat("---|", len(versions)))
	for _, row := range r.rows() {
		verdict := ""
		if row.met != nil {
			verdict = map[bool]string{true: "met", false: "**missed**"}[*row.met]
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", row.name, row.goal, strings.Join(row.measured, " | "), verdict)
	}
	b.WriteString("\nMedian (minimum to maximum) of the rounds. The verdict is that of the last operator.\n")
	return b.String(), nil
}

// machine describes the machine of the measurements.
func machine() (string, error) {
	var texts [3]string
	for i, file := range []string{"/proc/sys/kernel/osrelease", "/proc/cpuinfo", "/proc/loadavg"} {
		raw, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("describing the machine: %w", err)
		}
		texts[i] = string(raw)
	}
	_, model, _ := strings.Cut(texts[1], "model name")
	model, _, _ = strings.Cut(strings.TrimLeft(model, "\t :"), "\n")
	load, _, _ := strings.Cut(texts[2], " ")
	return fmt.Sprintf("%d cores of %s, Linux %s, load average %s at the end", runtime.NumCPU(), model, strings.TrimSpace(texts[0]), load), nil
}

func millis(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
