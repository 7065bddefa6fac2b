package certificates

import (
	"net/http"
	"sync/atomic"
	"time"
)

// tolerance is the difference between the local clock and that of the API
// server above which the latter is used. The Date header has a resolution of
// one second, and a response may take some time.
const tolerance = time.Minute

// clock is the clock of the API server, which is in the Date header of every
// response. The API server verifies the certificates by that clock, and all
// replicas agree on it. Before the first response, and if a proxy removes the
// header, the local clock is used.
type clock struct {
	local func() time.Time
	last  atomic.Pointer[reading]
}

// reading is the time of both clocks when a response arrived.
type reading struct{ server, local time.Time }

// now returns the current time. Between two responses it advances with the
// monotonic reading of the local clock, so that setting the local clock has no
// effect.
func (c *clock) now() time.Time {
	local, r := c.local(), c.last.Load()
	if r == nil {
		return local
	}
	server := r.server.Add(local.Sub(r.local))
	if server.Sub(local).Abs() <= tolerance {
		return local
	}
	return server
}

// observe records the time of a Date header. It ignores one that cannot be
// parsed.
func (c *clock) observe(date string) {
	if server, err := http.ParseTime(date); err == nil {
		c.last.Store(&reading{server: server, local: c.local()})
	}
}

// wrap returns the client with an observer of every response.
func (c *clock) wrap(h *http.Client) *http.Client {
	wrapped := *h
	next := h.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	wrapped.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
		res, err := next.RoundTrip(r)
		if err == nil {
			c.observe(res.Header.Get("Date"))
		}
		return res, err
	})
	return &wrapped
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip sends the request.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
