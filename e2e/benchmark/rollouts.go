package benchmark

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
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

// ReadRollouts reads what WriteRollouts has written.
func ReadRollouts(from io.Reader) ([]Rollout, error) {
	records, err := csv.NewReader(from).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("reading the rollouts: %w", err)
	}
	if len(records) == 0 || !slices.Equal(records[0], rolloutColumns) {
		return nil, errors.New("the first line does not have the columns of rollouts")
	}
	rows := make([]Rollout, 0, len(records)-1)
	for i, f := range records[1:] {
		r := Rollout{Case: f[0], Kind: f[1], Way: f[2], KeepAlive: f[3], Classes: f[8], ClassesPlain: f[9]}
		var errs [7]error
		r.Requests, errs[0] = strconv.Atoi(f[4])
		r.Failed, errs[1] = strconv.Atoi(f[5])
		r.Refused, errs[2] = strconv.Atoi(f[6])
		r.FailedPlain, errs[3] = strconv.Atoi(f[7])
		r.P99, errs[4] = strconv.ParseFloat(f[10], 64)
		r.P99Plain, errs[5] = strconv.ParseFloat(f[11], 64)
		r.Seconds, errs[6] = strconv.ParseFloat(f[12], 64)
		if err := errors.Join(errs[:]...); err != nil {
			return nil, fmt.Errorf("line %d: %w", i+2, err)
		}
		rows = append(rows, r)
	}
	return rows, nil
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
