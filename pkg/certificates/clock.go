package certificates

import (
	"net/http"
	"sync/atomic"
	"time"
)

// tolerance is how far the local clock may be from the API server's before the
// latter is used. The Date header has whole seconds, and a response may take a
// while.
const tolerance = time.Minute

// clock is the API server's clock, which it states in the Date header of every
// response. The API server verifies the certificates by that clock, and all
// replicas agree on it. Before the first response, and if a proxy removes the
// header, it is the local clock.
type clock struct {
	local func() time.Time
	last  atomic.Pointer[reading]
}

// reading is the time of both clocks at one response.
type reading struct{ server, local time.Time }

// now returns the current time. Between two responses it advances with the
// local clock's monotonic reading, so that a local clock that is set does not
// matter.
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

// observe takes the time from a Date header; one that cannot be parsed is
// ignored.
func (c *clock) observe(date string) {
	if server, err := http.ParseTime(date); err == nil {
		c.last.Store(&reading{server: server, local: c.local()})
	}
}

// wrap returns the client with every response observed.
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
