// Package httplimit makes HTTP servers to which every pod of the cluster can connect.
// Before a handler runs, a connection costs memory for its handshake and its headers, so
// both are limited, and so are the connections.
package httplimit

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/lru"
)

const (
	// headerBytes limits the headers of a request, to which net/http adds 4 KiB. A token
	// has one or two KiB. Those of a connection may need twenty times as much memory.
	headerBytes = 8 << 10
	// headerTime is how long a handshake and the headers may take to arrive.
	headerTime = 5 * time.Second
	// requestTime is how long a request may take to arrive, and the answer to be received.
	// It is longer than the timeout of a webhook, and than the reviews of a token.
	requestTime = 30 * time.Second
	// acceptRate and acceptBurst limit how many connections of one address are accepted per
	// second and at once: each handshake costs half a millisecond of a processor. The API
	// server keeps 25 connections, and opens others for more requests at a time.
	acceptRate, acceptBurst = 100, 512
	// maxRates is the number of addresses whose rates are known.
	maxRates = 1024
	// idleTime is how long a connection is kept between requests: longer than by
	// http.DefaultTransport, so that its client closes it, and not while it sends a request.
	idleTime = 2 * time.Minute
)

// NewServer returns a server with limits for each connection.
func NewServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, MaxHeaderBytes: headerBytes,
		ReadHeaderTimeout: headerTime, ReadTimeout: requestTime, WriteTimeout: requestTime, IdleTimeout: idleTime,
		// It logs each failed handshake.
		ErrorLog: log.New(&sampled{rate: rate.Sometimes{Interval: time.Second}}, "", log.LstdFlags),
	}
}

// sampled writes some of the lines to the standard error.
type sampled struct{ rate rate.Sometimes }

func (s *sampled) Write(line []byte) (n int, err error) {
	s.rate.Do(func() { n, err = os.Stderr.Write(line) })
	return cmp.Or(n, len(line)), err //nolint:wrapcheck // a logger drops it
}

// Listen returns a listener with limited connections. A connection above the limit
// replaces one of the client address that has the most, unless that is its own: the
// clients at one address cannot keep out those at another. Addresses that connect too
// often are refused.
func Listen(ctx context.Context, address string, limit int) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	return &listener{Listener: l, limit: limit, open: map[*conn]bool{}, by: map[string]int{}, rates: lru.New(maxRates)}, nil
}

type listener struct {
	net.Listener
	limit int
	rates *lru.Cache // of type *rate.Limiter, by address; only Accept uses it

	mu   sync.Mutex
	open map[*conn]bool
	by   map[string]int // number of open, by address
}

// conn is a connection that counts until it is closed.
type conn struct {
	net.Conn
	of      *listener
	address string
}

func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err //nolint:wrapcheck // http.Server examines it
		}
		counted := &conn{c, l, Host(c.RemoteAddr().String())}
		if !l.allows(counted.address) {
			_ = c.Close()
			continue
		}
		closing := l.add(counted)
		if closing != nil {
			_ = closing.Close()
		}
		if closing != counted {
			return counted, nil
		}
	}
}

// allows reports whether the address may open a connection now.
func (l *listener) allows(address string) bool {
	r, ok := l.rates.Get(address)
	if !ok {
		r = rate.NewLimiter(acceptRate, acceptBurst)
		l.rates.Add(address, r)
	}
	return r.(*rate.Limiter).Allow()
}

// add counts a connection, and returns the one to close instead, if any.
func (l *listener) add(c *conn) (closing *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) >= l.limit {
		closing = cmp.Or(l.surplus(c.address), c)
	}
	l.open[c] = true
	l.by[c.address]++
	return closing
}

// surplus returns a connection of the address that has the most, if it has more than
// another one would have with one more.
func (l *listener) surplus(address string) (most *conn) {
	n := l.by[address] + 1
	for c := range l.open {
		if l.by[c.address] > n {
			most, n = c, l.by[c.address]
		}
	}
	return most
}

// Close may be called more than once.
func (c *conn) Close() error {
	c.of.remove(c)
	return c.Conn.Close() //nolint:wrapcheck // http.Server examines it
}

func (l *listener) remove(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.open[c] {
		return
	}
	delete(l.open, c)
	l.by[c.address]--
	if l.by[c.address] == 0 {
		delete(l.by, c.address)
	}
}

// Host returns the part of a client's address that identifies it: without the port.
func Host(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}
