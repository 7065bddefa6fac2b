package benchmark

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Rollout is a row of the data of make bench-rollouts: the result of one load on a
// managed application, and of the same load on a plain Deployment and Service.
type Rollout struct {
	Case, Kind, Way, KeepAlive string
	Requests                   int
	// Failed are the requests that failed, and Refused those that were not accepted
	// after the application was deleted, which is not a failure.
	Failed, Refused, FailedPlain int
	// Classes and ClassesPlain are the failures by class.
	Classes, ClassesPlain string
	// P99 and P99Plain are latencies in milliseconds, and Seconds is the duration of the
	// case.
	P99, P99Plain, Seconds float64
}

var rolloutColumns = []string{
	"case", "kind", "way", "keep-alive", "requests", "failed", "refused", "failed plain", "classes", "classes plain",
	"p99 ms", "p99 plain ms", "seconds",
}

// WriteRollouts writes the rows as CSV.
func WriteRollouts(to io.Writer, rows []Rollout) error {
	w := csv.NewWriter(to)
	records := [][]string{rolloutColumns}
	for _, r := range rows {
		records = append(records, []string{
			r.Case, r.Kind, r.Way, r.KeepAlive, strconv.Itoa(r.Requests), strconv.Itoa(r.Failed), strconv.Itoa(r.Refused),
			strconv.Itoa(r.FailedPlain), r.Classes, r.ClassesPlain, decimal(r.P99), decimal(r.P99Plain), decimal(r.Seconds),
		})
	}
	return w.WriteAll(records)
}

// RolloutsTable returns a Markdown table of the share of requests that failed in each
// case.
func RolloutsTable(rows []Rollout) string {
	type key struct{ name, kind string }
	var order []key
	sums := map[key]*Rollout{}
	for _, r := range rows {
		k := key{r.Case, r.Kind}
		if sums[k] == nil {
			sums[k] = &Rollout{}
			order = append(order, k)
		}
		sums[k].Requests += r.Requests
		sums[k].Failed += r.Failed
		sums[k].FailedPlain += r.FailedPlain
	}
	var b strings.Builder
	b.WriteString("| case | kind | failed requests, managed | plain Deployment and Service |\n|---|---|---:|---:|\n")
	for _, k := range order {
		s := sums[k]
		fmt.Fprintf(&b, "| %s | %s | %.2f %% | %.2f %% |\n", k.name, k.kind, percent(s.Failed, s.Requests), percent(s.FailedPlain, s.Requests))
	}
	return b.String()
}

func percent(n, of int) float64 { return 100 * float64(n) / float64(max(of, 1)) }

func decimal(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
