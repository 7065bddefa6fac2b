package load

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// site is a server that counts what it gets.
type site struct {
	*httptest.Server
	requests, connections atomic.Int32
}

func serve(t *testing.T, h http.HandlerFunc) *site {
	t.Helper()
	s := &site{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		h(w, r)
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.connections.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func page(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "page") }

// shoot runs a load to its end.
func shoot(t *testing.T, c Config) Result {
	t.Helper()
	l, err := Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	r := l.Wait()
	t.Log(r)
	return r
}

// hangUp breaks the connection of a request; hard with a reset, else with an end.
func hangUp(w http.ResponseWriter, hard bool) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	if tcp, ok := conn.(*net.TCPConn); ok && hard {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

func TestLoad_HealthyServerHasNoFailures(t *testing.T) {
	for name, keep := range map[string]bool{"kept connections": true, "one connection a request": false} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, page)
			// The turn of each client comes every 140 ms, in which a busy machine answers, too.
			r := shoot(t, Config{URL: s.URL, Rate: 50, Most: 100, Clients: 7, KeepAlive: keep})
			if r.Requests != 100 || r.Failed() != 0 || r.Classes() != "0" || s.requests.Load() != 100 {
				t.Errorf("the server had %d requests, the result is %v", s.requests.Load(), r)
			}
			if r.P50 <= 0 || r.P99 < r.P50 || r.Max < r.P99 {
				t.Errorf("percentiles %s, %s, %s", r.P50, r.P99, r.Max)
			}
			// A client whose last request is not answered yet when its turn
			// comes opens a second connection.
			conns := s.connections.Load()
			if keep && (conns < 7 || conns > 50) || !keep && conns != 100 {
				t.Errorf("%d connections", conns)
			}
		})
	}
}

// TestLoad_ClassifiesEachFailure has every second request fail.
func TestLoad_ClassifiesEachFailure(t *testing.T) {
	for name, tc := range map[string]struct {
		fault http.HandlerFunc
		keep  bool
		want  Class
		says  string
	}{
		"an error":    {fault: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, want: Status, says: "502"},
		"a redirect":  {fault: func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", http.StatusFound) }, want: Status, says: "302"},
		"a reset":     {fault: func(w http.ResponseWriter, _ *http.Request) { hangUp(w, true) }, want: Reset, says: "reset"},
		"an end":      {fault: func(w http.ResponseWriter, _ *http.Request) { hangUp(w, false) }, want: Reset, says: "EOF"},
		"half a page": {fault: halfAPage, want: Reset, says: "EOF"},
		"no answer":   {fault: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, want: Timeout, says: "deadline"},
		"half an answer": {fault: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "10")
			page(w, nil)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, want: Timeout, says: "deadline"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var n atomic.Int32
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if n.Add(1)%2 == 0 {
					tc.fault(w, r)
					return
				}
				page(w, r)
			})
			// A page has to be answered within the limit on a busy machine, too.
			r := shoot(t, Config{URL: s.URL, Rate: 500, Most: 40, Limit: 2 * time.Second})
			if r.Requests != 40 || r.Failures[tc.want] != 20 || r.Failed() != 20 {
				t.Errorf("%v", r)
			}
			if len(r.Samples) != samplesPerClass || !strings.Contains(r.Samples[0].Err, tc.says) || r.Samples[4].At < r.Samples[0].At {
				t.Errorf("samples %v", r.Samples)
			}
			// The second, and every other from there on.
			if first := r.FailedAt[0]; len(r.FailedAt) != 20 || r.FailedAfter(first-1) != 20 || r.FailedAfter(first) != 19 {
				t.Errorf("failed at %v", r.FailedAt)
			}
			if got := s.requests.Load(); got != 40 {
				t.Errorf("the server had %d requests", got)
			}
		})
	}
}

func halfAPage(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "10")
	page(w, nil)
	w.(http.Flusher).Flush()
	hangUp(w, false)
}

// TestLoad_ClassifiesFailedHandshakes: a server without a certificate.
func TestLoad_ClassifiesFailedHandshakes(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(page))
	s.TLS = &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return nil, errors.New("the key is another one's")
	}}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	r := shoot(t, Config{URL: s.URL, Rate: 500, Most: 10, TLS: &tls.Config{InsecureSkipVerify: true}}) //nolint:gosec // there is none to verify
	if r.Failures[Handshake] != 10 || !strings.Contains(r.Samples[0].Err, "tls") {
		t.Errorf("%v", r)
	}
}

// TestLoad_CountsARetryAsAFailure: net/http would ask again and hide what happened.
func TestLoad_CountsARetryAsAFailure(t *testing.T) {
	for name, hard := range map[string]bool{"ended": false, "reset": true} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			seen := map[string]int{} // requests on a connection
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				seen[r.RemoteAddr]++
				second := seen[r.RemoteAddr] == 2
				mu.Unlock()
				if second {
					hangUp(w, hard)
					return
				}
				page(w, r)
			})
			r := shoot(t, Config{URL: s.URL, Rate: 200, Most: 40, Clients: 1, KeepAlive: true})
			// Half of them, but on a busy machine, where a connection comes back
			// too late to be used for the next one.
			if r.Failures[Retried] < 3 || r.Failures[Retried] != r.Failed() {
				t.Errorf("%v", r)
			}
			if got := s.requests.Load(); got != 40 {
				t.Errorf("got %d requests at the server, want 40: requests were retried", got)
			}
		})
	}
}

func TestLoad_ClassifiesRefusedConnections(t *testing.T) {
	s := serve(t, page)
	s.Close()
	if r := shoot(t, Config{URL: s.URL, Rate: 500, Most: 20}); r.Failures[Connect] != 20 || r.Failed() != 20 || r.P99 != 0 {
		t.Errorf("%v", r)
	}
}

func TestLoad_ClassifiesConnectionTimeouts(t *testing.T) {
	// Connections are not accepted, and the shortest possible backlog is full.
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(fd) }()
	if err := errors.Join(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), syscall.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	url := fmt.Sprintf("http://127.0.0.1:%d/", name.(*syscall.SockaddrInet4).Port)
	r := shoot(t, Config{URL: url, Rate: 500, Most: 20, Limit: 300 * time.Millisecond})
	if r.Failures[ConnectTimeout] < 15 || r.Failed(Timeout, ConnectTimeout) != 0 {
		t.Errorf("%v", r)
	}
}

// TestLoad_ArrivalsDoNotWaitForResponses: a closed loop would send a few requests
// only, and call the server well.
func TestLoad_ArrivalsDoNotWaitForResponses(t *testing.T) {
	release := make(chan struct{})
	var first atomic.Pointer[time.Time]
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		now := time.Now()
		first.CompareAndSwap(nil, &now)
		<-release
		page(w, r)
	})
	l, err := Start(t.Context(), Config{URL: s.URL, Rate: 500, Most: 100, Concurrency: 60, Limit: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	for l.Arrived() < 100 {
		time.Sleep(time.Millisecond)
	}
	for s.requests.Load() < 60 { // the last ones are still on their way
		time.Sleep(time.Millisecond)
	}
	waited := time.Since(*first.Load())
	close(release)
	r := l.Wait()
	if r.Requests != 100 || r.Failures[Unsent] != 40 || r.Failed() != 40 || s.requests.Load() != 60 {
		t.Errorf("%v", r)
	}
	if r.Max < waited {
		t.Errorf("the slowest request took %s, and the first one waited for %s", r.Max, waited)
	}
}

// Requests are due at the rate, however late the machine sends them: of a
// server to which none can connect, each says when it was due.
func TestLoad_KeepsTheRate(t *testing.T) {
	s := serve(t, page)
	s.Close()
	start := time.Now()
	r := shoot(t, Config{URL: s.URL, Rate: 200, Most: 100})
	for i, at := range r.FailedAt {
		if want := time.Duration(i) * 5 * time.Millisecond; at != want {
			t.Fatalf("request %d was due after %s, want %s", i, at, want)
		}
	}
	if took := time.Since(start); took < 99*5*time.Millisecond || len(r.FailedAt) != 100 {
		t.Errorf("%d requests were sent in %s: before they were due", len(r.FailedAt), took)
	}
}

func TestLoad_EndWaitsForTheMinimumAndForResponses(t *testing.T) {
	release := make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		<-release
		page(w, r)
	})
	l, err := Start(t.Context(), Config{URL: s.URL, Rate: 1000, Least: 50, Most: 1_000_000, Limit: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	l.End()
	l.End()
	most := max(50, l.Arrived()+1) // one may be under way
	for s.requests.Load() < 50 {
		time.Sleep(time.Millisecond)
	}
	if isClosed(l.Done()) {
		t.Error("it ended before the answers")
	}
	close(release)
	if r := l.Wait(); r.Requests < 50 || r.Requests > most || r.Failed() != 0 {
		t.Errorf("%v, want at most %d requests", r, most)
	}
}

func TestLoad_DoesNotCountCancelledRequests(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	l, err := Start(ctx, Config{URL: s.URL, Rate: 500, Most: 1_000_000})
	if err != nil {
		t.Fatal(err)
	}
	for l.Arrived() < 10 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if r := l.Wait(); r.Requests != 0 || r.Failed() != 0 {
		t.Errorf("%v", r)
	}
}

func TestConfig_RequiresABound(t *testing.T) {
	for name, c := range map[string]Config{
		"no bound":        {URL: "http://a/", Rate: 1},
		"no rate":         {URL: "http://a/", Most: 1},
		"no host":         {URL: "a", Rate: 1, Most: 1},
		"least over most": {URL: "http://a/", Rate: 1, Least: 2, Most: 1},
	} {
		if _, err := Start(t.Context(), c); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestPercentile(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(i + 1)
	}
	for _, tc := range []struct {
		of   []time.Duration
		p    float64
		want time.Duration
	}{
		{nil, 0.5, 0},
		{hundred[:1], 0.5, 1},
		{hundred[:1], 1, 1},
		{hundred, 0.5, 50},
		{hundred, 0.99, 99},
		{hundred, 1, 100},
		{hundred[:10], 0.99, 10},
	} {
		if got := percentile(tc.of, tc.p); got != tc.want {
			t.Errorf("percentile %v of %d values is %d, not %d", tc.p, len(tc.of), got, tc.want)
		}
	}
}

func TestResult_FailedExceptClasses(t *testing.T) {
	r := Result{Failures: map[Class]int{Connect: 5, Reset: 2}}
	if r.Failed() != 7 || r.Failed(Connect) != 2 || r.Failed(Connect, Reset) != 0 || r.Classes() != "7 (connect 5, reset 2)" {
		t.Errorf("%d %d %s", r.Failed(), r.Failed(Connect), r.Classes())
	}
}

func TestLoad_AsksOtherwise(t *testing.T) {
	var failed atomic.Int32
	r := shoot(t, Config{
		Rate: 500, Most: 50,
		Ask: func(_ context.Context, n int) error {
			if n%5 == 0 {
				return fmt.Errorf("reading: %w", syscall.ECONNRESET)
			}
			return nil
		},
		Observe: func(due, ended time.Time, class Class, err error) {
			if class != "" && err != nil && !ended.Before(due) {
				failed.Add(1)
			}
		},
	})
	if r.Requests != 50 || r.Failures[Reset] != 10 || failed.Load() != 10 {
		t.Errorf("%d failures were observed, the result is %v", failed.Load(), r)
	}
}
