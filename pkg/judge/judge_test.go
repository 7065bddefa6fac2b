package judge

import (
	"context"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestVerdict(t *testing.T) {
	for _, v := range []Verdict{
		{Requests: 60, Errors: 12, Exceeded: true, MaxErrorRatio: "5%"},
		{Requests: 50, MaxErrorRatio: "0.5%"},
	} {
		got, ok := Parse(v.String() + "\n")
		if diff := cmp.Diff(v, got); diff != "" || !ok {
			t.Errorf("%q: %v (-want +got):\n%s", v, ok, diff)
		}
	}
	for _, other := range []string{"", "killed", "1 of 2 requests failed", "x 1 of 2 requests failed with 5xx: within the limit of 5%"} {
		if v, ok := Parse(other); ok {
			t.Errorf("%q is taken for %v", other, v)
		}
	}
}

// The first four are the examples of Newcombe, Two-sided confidence intervals for the single
// proportion, Statistics in Medicine 17, 1998, p. 857-872, table I, method 3.
func TestLowerBound(t *testing.T) {
	for _, tc := range []struct {
		errors, requests int64
		want             float64
	}{
		{errors: 81, requests: 263, want: 0.2553},
		{errors: 15, requests: 148, want: 0.0624},
		{errors: 0, requests: 20, want: 0},
		{errors: 1, requests: 29, want: 0.0061},
		{errors: 12, requests: 60, want: 0.1183},
		{errors: 0, requests: 0, want: 0},
	} {
		if got := lowerBound(tc.errors, tc.requests); math.Abs(got-tc.want) > 0.00005 {
			t.Errorf("%d of %d: %.6f, want %.4f", tc.errors, tc.requests, got, tc.want)
		}
	}
}

func TestSettings_decide(t *testing.T) {
	s := Settings{MaxErrorRatio: "5%", MinRequests: 50, HoldSeconds: 300}
	for name, tc := range map[string]struct {
		errors, requests int64
		after            time.Duration
		want             string // "" for none
	}{
		"too few":              {errors: 49, requests: 49, after: time.Hour},
		"errors":               {errors: 12, requests: 60, want: "12 of 60 requests failed with 5xx: more than the limit of 5%"},
		"above, not certainly": {errors: 4, requests: 50, after: 299 * time.Second},
		"within, not over":     {requests: 1000, after: 299 * time.Second},
		"within":               {errors: 4, requests: 50, after: 300 * time.Second, want: "4 of 50 requests failed with 5xx: within the limit of 5%"},
	} {
		t.Run(name, func(t *testing.T) {
			v, ok := s.decide(tc.errors, tc.requests, tc.after)
			if ok != (tc.want != "") || ok && v.String() != tc.want {
				t.Errorf("got %v %q, want %q", ok, v, tc.want)
			}
		})
	}
	s.MaxErrorRatio = "broken"
	if _, ok := s.decide(60, 60, time.Hour); ok {
		t.Error("a verdict without a limit")
	}
}

// Five requests a second: 20 of 20 versions with 20 % errors are stopped within 30 s, and
// none of 100 with 2 % in 300 s, by a limit of 5 %.
func TestSettings_decideInTime(t *testing.T) {
	s := Settings{MaxErrorRatio: "5%", MinRequests: 50, HoldSeconds: 300}
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // reproducible
	simulate := func(ratio float64, seconds int) (v Verdict, after int) {
		var errors int64
		for n := 1; n <= seconds*5; n++ {
			if r.Float64() < ratio {
				errors++
			}
			if v, ok := s.decide(errors, int64(n), time.Duration(n/5)*time.Second); ok {
				return v, n / 5
			}
		}
		return Verdict{}, seconds
	}
	slowest := 0
	for range 20 {
		v, after := simulate(0.2, 30)
		if slowest = max(slowest, after); !v.Exceeded {
			t.Errorf("20 %% errors: %s after %d s", v, after)
		}
	}
	for range 100 {
		if v, after := simulate(0.02, 300); v.Exceeded || v.Requests == 0 {
			t.Errorf("2 %% errors: %s after %d s", v, after)
		}
	}
	t.Logf("20 %% errors are found after %d s at most", slowest)
}

// pod is a container that judges.
type pod struct {
	*testing.T
	files Files
	log   *net.UDPConn
	ended chan error
}

func newPod(t *testing.T) *pod {
	t.Helper()
	dir := t.TempDir()
	p := &pod{T: t, files: Files{Settings: dir, Verdict: filepath.Join(dir, "verdict"), Message: filepath.Join(dir, "message")}}
	p.write(TemplateFile, "abc")
	return p
}

func (p *pod) write(name, text string) {
	p.Helper()
	if err := os.WriteFile(filepath.Join(p.files.Settings, name), []byte(text), 0o600); err != nil {
		p.Fatal(err)
	}
}

func (p *pod) start() {
	p.Helper()
	var err error
	if p.log, err = net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}); err != nil {
		p.Fatal(err)
	}
	ctx, stop := context.WithCancel(p.Context())
	p.Cleanup(stop)
	p.ended = make(chan error, 1)
	counts := &Counter{}
	go counts.Receive(p.log)
	go func() {
		defer p.log.Close()
		p.ended <- Run(ctx, counts, p.files, time.Millisecond)
	}()
}

// request sends requests until the container ends, or for a moment.
func (p *pod) request(status string) (ended bool) {
	p.Helper()
	c, err := (&net.Dialer{}).DialContext(p.Context(), "udp", p.log.LocalAddr().String())
	if err != nil {
		p.Fatal(err)
	}
	for range 200 {
		_, _ = c.Write([]byte("<190>Nov 28 22:00:00 nginx: " + status)) // after the end, it is not received
		select {
		case err := <-p.ended:
			if err != nil {
				p.Error(err)
			}
			return true
		case <-time.After(time.Millisecond):
		}
	}
	time.Sleep(3 * batch) // until all are counted
	return false
}

func (p *pod) message() string {
	raw, _ := os.ReadFile(p.files.Message) // there may be none
	return string(raw)
}

func TestRun(t *testing.T) {
	held := Settings{Template: "abc", MaxErrorRatio: "5%", MinRequests: 20, HoldSeconds: 0}
	other := held
	other.Template = "def"

	p := newPod(t)
	p.start()
	if p.request("500") {
		t.Error("judged without settings")
	}
	p.write(CanaryFile, other.Encode())
	if p.request("500") {
		t.Error("judged although it is not of the canary")
	}
	p.write(CanaryFile, held.Encode())
	if !p.request("404") || !strings.Contains(p.message(), "0 of ") || !strings.HasSuffix(p.message(), "within the limit of 5%") {
		t.Errorf("a pod of the canary: %q", p.message())
	}
	p.start()
	if p.request("500") {
		t.Error("judged twice")
	}

	p = newPod(t)
	p.write(CanaryFile, held.Encode())
	p.start()
	if !p.request("502") || !strings.HasSuffix(p.message(), "more than the limit of 5%") {
		t.Errorf("a pod with errors: %q", p.message())
	}
	p.start()
	if !p.request("200") || !strings.HasSuffix(p.message(), "more than the limit of 5%") {
		t.Errorf("a pod with errors is ready again: %q", p.message())
	}
	p.write(CanaryFile, other.Encode())
	p.start()
	if p.request("500") {
		t.Error("ended after the promotion")
	}
}

func TestCounter_ServeHTTP(t *testing.T) {
	c := &Counter{}
	for _, line := range []string{"<190>Nov 28 22:00:00 nginx: 200", "<190>Nov 28 22:00:00 nginx: 204\n", "nginx: 503", "nginx: 000", "nginx: -", ""} {
		c.count([]byte(line))
	}
	w := httptest.NewRecorder()
	c.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	want := `# HELP webserver_http_responses_total Responses by class of the status.
# TYPE webserver_http_responses_total counter
webserver_http_responses_total{code="1xx"} 0
webserver_http_responses_total{code="2xx"} 2
webserver_http_responses_total{code="3xx"} 0
webserver_http_responses_total{code="4xx"} 0
webserver_http_responses_total{code="5xx"} 1
`
	if diff := cmp.Diff(want, w.Body.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
