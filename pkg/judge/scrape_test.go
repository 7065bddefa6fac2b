package judge

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestMetrics_read(t *testing.T) {
	for name, tc := range map[string]struct {
		metrics Metrics
		text    string
		want    string
	}{
		"two paths": {text: `# HELP http_requests_total Requests.
# TYPE http_requests_total counter
http_requests_total{path="/a b",code="200"} 7
http_requests_total{code="503",path="/{x}\"=,"} 2 1700000000000
http_requests_total_created{code="200"} 1.7e9
other_total{code="500"} 9
`, want: "9 2 <nil>"},
		"a class, and large":          {metrics: Metrics{Name: "r", Code: "class"}, text: `r{class="5xx",code="200"} 1.5e+06`, want: "1500000 1500000 <nil>"},
		"the label of a histogram":    {metrics: Metrics{Name: "d_count"}, text: "d_bucket{status=\"500\",le=\"1\"} 3\nd_count{status=\"500\"} 4\n", want: "4 4 <nil>"},
		"a word instead of a status":  {text: `http_requests_total{code="OK",status="200"} 3`, want: "3 0 <nil>"},
		"no such counter":             {text: "up 1\n", want: "0 0 has no counter http_requests_total"},
		"no text":                     {want: "0 0 has no counter http_requests_total"},
		"no labels":                   {text: "http_requests_total 3", want: "0 0 has http_requests_total without a status in the label code, status, status_code"},
		"another label":               {metrics: Metrics{Code: "status"}, text: `http_requests_total{code="200"} 3`, want: "0 0 has http_requests_total without a status in the label status"},
		"labels that are not closed":  {text: `http_requests_total{code="200`, want: "0 0 has http_requests_total without a status in the label code, status, status_code"},
		"a line that is no text":      {text: strings.Repeat("x", 1<<17), want: "0 0 cannot be read: bufio.Scanner: token too long"},
		"a value that is not a count": {text: `http_requests_total{code="200"} many`, want: "0 0 has http_requests_total without a status in the label code, status, status_code"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := tc.metrics.read(strings.NewReader(tc.text))
			if got := fmt.Sprint(c.requests, c.failed, err); got != tc.want && !strings.HasSuffix(got, tc.want) {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

// application is one whose metrics are scraped.
func application(t *testing.T, metrics http.HandlerFunc) *Metrics {
	t.Helper()
	s := httptest.NewServer(metrics)
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.ParseInt(u.Port(), 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return &Metrics{Port: int32(port)}
}

func TestScraper_AddsUpOverRestarts(t *testing.T) {
	var text atomic.Value
	s := &Settings{Metrics: application(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, text.Load()) })}
	scraper := NewScraper(time.Second)
	for i, step := range []struct {
		text string
		want string
	}{
		{`http_requests_total{code="200"} 10`, "10 0 <nil>"},
		{"http_requests_total{code=\"200\"} 10\nhttp_requests_total{code=\"500\"} 5", "15 5 <nil>"},
		{`http_requests_total{code="500"} 2`, "17 7 <nil>"},
	} {
		text.Store(step.text)
		requests, failed, err := scraper.total(t.Context(), s)
		if got := fmt.Sprint(requests, failed, err); got != step.want {
			t.Errorf("step %d: got %s, want %s", i, got, step.want)
		}
	}
}

// TestRun_Metrics judges an application by its metrics. Its own requests are no success of a
// canary, and an endpoint that does not answer is reported once.
func TestRun_Metrics(t *testing.T) {
	for name, tc := range map[string]struct {
		answer    string
		want      string // "" for none
		restarted string // the message of the next run of the container, "" for none
	}{
		"errors":                {answer: "http_requests_total{code=\"200\"} %[1]d0\nhttp_requests_total{code=\"502\"} %[1]d0\n", want: "more than the limit of 5%", restarted: "more than the limit of 5%"},
		"none":                  {answer: "http_requests_total{code=\"200\"} %[1]d0\n", want: "within the limit of 5%"},
		"only those of its own": {answer: "http_requests_total{code=\"200\"} %[1]d\n"},
		"no counter":            {answer: "up 1 %[1]d\n", want: "/metrics has no counter http_requests_total"},
		"an error":              {want: "/metrics answers 404 Not Found"},
		"an error for a while":  {answer: "late", want: "/metrics answers 404 Not Found", restarted: counted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPod(t)
			var n atomic.Int64
			m := application(t, func(w http.ResponseWriter, _ *http.Request) {
				switch {
				case tc.answer == "late" && p.message() != "":
					_, _ = fmt.Fprintln(w, `http_requests_total{code="200"} 1`)
				case tc.answer == "" || tc.answer == "late":
					w.WriteHeader(http.StatusNotFound)
				default:
					_, _ = fmt.Fprintf(w, tc.answer, n.Add(1))
				}
			})
			p.write(CanaryFile, Settings{Template: "abc", MaxErrorRatio: "5%", MinRequests: 20, Metrics: m}.Encode())
			for _, want := range []string{tc.want, tc.restarted} {
				limit := time.Minute
				if want == "" {
					limit = 200 * time.Millisecond
				}
				ctx, stop := context.WithTimeout(t.Context(), limit)
				err := Run(ctx, NewScraper(10*time.Second), p.files, time.Millisecond)
				ended := ctx.Err() == nil
				stop()
				if err != nil || ended != (want != "") || ended && !(strings.HasSuffix(p.message(), want) && IsReport(p.message())) {
					t.Errorf("ended %v: %q %v", ended, p.message(), err)
				}
			}
		})
	}
}
