package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Class is a way to fail.
type Class string

const (
	// Connect is a connection that was refused, or to which there was no way.
	Connect Class = "connect"
	// Handshake is one whose TLS one of the two sides gave up.
	Handshake Class = "handshake"
	// Reset is a connection that was established and broke before the whole response
	// was read.
	Reset Class = "reset"
	// Retried is a request that the transport would have sent twice, because
	// the connection that it was sent on had been kept and was being closed.
	Retried Class = "retried"
	// ConnectTimeout is a connection that was not made within the limit.
	ConnectTimeout Class = "connect timeout"
	// Timeout is a request on a connection that took longer than the limit.
	Timeout Class = "timeout"
	// Status is an answer other than 2xx.
	Status Class = "status"
	// Unsent is an arrival beyond [Config].Concurrency.
	Unsent Class = "unsent"
	// Other is anything else; the samples say what.
	Other Class = "other"
)

// classify names the way in which a request failed, if it did.
func classify(status int, err error, retried, connected, late bool) (Class, error) {
	switch {
	case retried:
		// Whatever came of it afterwards came of our having stopped it.
		return Retried, errors.New("the connection was closed under the request")
	case late, errors.Is(err, context.DeadlineExceeded), errors.Is(err, syscall.ETIMEDOUT):
		switch {
		case err == nil:
			return Timeout, errors.New("answered too late")
		case !connected:
			return ConnectTimeout, err
		}
		return Timeout, err
	case err != nil && !connected && alert(err):
		return Handshake, err
	case err != nil && !connected:
		return Connect, err
	case err != nil && broken(err):
		return Reset, err
	case err != nil:
		return Other, err
	case status < 200 || status > 299:
		return Status, fmt.Errorf("%d %s", status, http.StatusText(status))
	}
	return "", nil
}

// alert reports whether the error is a TLS alert. crypto/tls does not export the
// type, and wraps it.
func alert(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && (op.Op == "remote error" || op.Op == "local error")
}

// broken reports whether the server or the network closed the connection.
func broken(err error) bool {
	for _, is := range []error{
		io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE,
		syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.ECONNREFUSED,
	} {
		if errors.Is(err, is) {
			return true
		}
	}
	// net/http keeps this one to itself.
	return strings.Contains(err.Error(), "server closed idle connection")
}

// Sample is one failure.
type Sample struct {
	At    time.Duration // since the load began
	Class Class
	Err   string
}

func (s Sample) String() string {
	return fmt.Sprintf("%7.3fs %s: %s", s.At.Seconds(), s.Class, s.Err)
}

// Result is what came of a load.
type Result struct {
	Requests int
	Failures map[Class]int
	// Samples are the first failures of each class, by time.
	Samples []Sample
	// FailedAt is when the requests were due that failed, since the load began.
	FailedAt []time.Duration
	// Percentiles of the time from the moment at which a request was due to
	// the end of its answer, of those that succeeded.
	P50, P99, Max time.Duration
	// Late is the load's own worst delay in sending: when it is not small, the
	// machine was too busy for the latencies to mean something.
	Late    time.Duration
	Elapsed time.Duration
}

// Failed is how many requests failed, without the given classes.
func (r Result) Failed(except ...Class) int {
	n := 0
	for class, count := range r.Failures {
		if !slices.Contains(except, class) {
			n += count
		}
	}
	return n
}

// FailedAfter is how many requests failed that were due after some time.
func (r Result) FailedAfter(since time.Duration) int {
	n := 0
	for _, at := range r.FailedAt {
		if at > since {
			n++
		}
	}
	return n
}

// NotAccepted are the classes of requests that no server ever had.
var NotAccepted = []Class{Connect, ConnectTimeout}

// Classes is "0", or the failures by class, such as "7 (connect 5, reset 2)".
func (r Result) Classes() string {
	if r.Failed() == 0 {
		return "0"
	}
	var parts []string
	for _, class := range slices.Sorted(maps.Keys(r.Failures)) {
		parts = append(parts, fmt.Sprintf("%s %d", class, r.Failures[class]))
	}
	return fmt.Sprintf("%d (%s)", r.Failed(), strings.Join(parts, ", "))
}

func (r Result) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d requests in %.1fs, %s failed, p50 %s, p99 %s, max %s, sent late by at most %s", r.Requests, r.Elapsed.Seconds(),
		r.Classes(), round(r.P50), round(r.P99), round(r.Max), round(r.Late))
	for _, s := range r.Samples {
		fmt.Fprintf(&b, "\n  %s", s)
	}
	return b.String()
}

func round(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }

// samplesPerClass is how many failures of a class are kept in words.
const samplesPerClass = 5

// tally collects outcomes.
type tally struct {
	mu        sync.Mutex
	outcomes  int
	failures  map[Class]int
	samples   []outcome
	failedAt  []time.Time
	latencies []time.Duration
	late      time.Duration
	last      time.Time
}

func (t *tally) add(o outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.outcomes++
	t.late = max(t.late, o.late)
	if now := time.Now(); now.After(t.last) {
		t.last = now
	}
	if o.class == "" {
		t.latencies = append(t.latencies, o.late+o.took)
		return
	}
	if t.failures == nil {
		t.failures = map[Class]int{}
	}
	t.failures[o.class]++
	t.failedAt = append(t.failedAt, o.due)
	if t.failures[o.class] <= samplesPerClass {
		t.samples = append(t.samples, o)
	}
}

func (t *tally) result(start time.Time) Result {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := Result{Requests: t.outcomes, Failures: maps.Clone(t.failures), Late: t.late}
	if !t.last.IsZero() {
		r.Elapsed = t.last.Sub(start)
	}
	slices.Sort(t.latencies)
	r.P50, r.P99, r.Max = percentile(t.latencies, 0.5), percentile(t.latencies, 0.99), percentile(t.latencies, 1)
	for _, o := range t.samples {
		r.Samples = append(r.Samples, Sample{At: o.due.Sub(start), Class: o.class, Err: o.err.Error()})
	}
	for _, at := range t.failedAt {
		r.FailedAt = append(r.FailedAt, at.Sub(start))
	}
	slices.Sort(r.FailedAt)
	slices.SortFunc(r.Samples, func(a, b Sample) int { return int(a.At - b.At) })
	return r
}

// percentile is the least of the sorted values that a share p of them does not
// exceed.
func percentile(sorted []time.Duration, p float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(int(math.Ceil(p*float64(len(sorted))))-1, 0)]
}
