// Package load asks a web server for a page at a constant rate and counts what
// did not come.
//
// The load is open: an arrival does not wait for the answer to an earlier one,
// so a server that stalls for a second is charged with a second of requests.
// Nothing is asked twice. [net/http.Transport] does ask again, without a word,
// when a connection that it kept is closed under a request; here that is a
// failure of a class of its own, [Retried], and the second try is not made.
//
// A load is bounded in count ([Config].Most), and by that and its rate in time,
// and in requests under way ([Config].Concurrency). An arrival that finds no
// room is a failure, [Unsent]: it is always counted in the results.
//
// Of a library of that kind, such as vegeta, only the loop over a ticker would
// be left: its answers to the three questions that matter here (was it asked
// twice, which step failed, when) are a status code and the text of an error.
package load

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// Limit is how long a request may take: later is a failure.
const Limit = 5 * time.Second

// Config says what is asked, and how often.
type Config struct {
	URL  string
	Rate int // arrivals a second
	// Least is how many requests are sent even when [Load.End] is called
	// before, Most how many there are at the utmost.
	Least, Most int
	// KeepAlive makes each client keep its connection from one request to the
	// next, as browsers and proxies do. Without it each request has a
	// connection of its own.
	KeepAlive bool
	// Clients are served by turns; each has at most one idle connection. A
	// single pool would use only as many connections as there are requests at
	// the same moment, at most one of which leads to a given pod. Default 25.
	Clients int
	// Concurrency bounds the requests under way. The default is what Rate can
	// bring to be under way within the limit of time and a second: a busy machine
	// does not end a request at the moment at which its time is over.
	Concurrency int
	// Limit is the time for a request, if not the package's [Limit].
	Limit time.Duration
	// TLS is for https.
	TLS *tls.Config
	// Ask replaces the HTTP request, for other protocols; URL is not used then. n counts
	// the arrivals.
	Ask func(ctx context.Context, n int) error
	// Observe is called for each request when it has ended, and may be called at the same
	// time for several. class is "" if it succeeded.
	Observe func(due, ended time.Time, class Class, err error)
}

func (c Config) withDefaults() Config {
	if c.Limit == 0 {
		c.Limit = Limit
	}
	if c.Clients == 0 {
		c.Clients = 25
	}
	if c.Concurrency == 0 {
		c.Concurrency = int(float64(c.Rate)*(c.Limit+time.Second).Seconds()) + c.Clients
	}
	return c
}

func (c Config) check() error {
	u, err := url.Parse(c.URL)
	switch {
	case err != nil:
		return err
	case c.Ask != nil:
	case u.Host == "" || (u.Scheme != "http" && u.Scheme != "https"):
		return errors.New("load: URL must be http://host/ or https://host/")
	}
	switch {
	case c.Rate <= 0:
		return errors.New("load: Rate must be positive")
	case c.Most <= 0:
		return errors.New("load: Most must be positive: a load is bounded")
	case c.Least > c.Most:
		return errors.New("load: Least is more than Most")
	}
	return nil
}

// Load is one that runs.
type Load struct {
	config  Config
	clients []*http.Client
	start   time.Time
	ending  chan struct{}
	end     sync.Once
	done    chan struct{}
	arrived atomic.Int64
	tally   tally
}

// Start begins a load. It ends when [Config].Most requests were sent, when
// [Load.End] was called, or with the context, which also gives up the requests
// under way and does not count them.
func Start(ctx context.Context, c Config) (*Load, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	l := &Load{config: c, start: time.Now(), ending: make(chan struct{}), done: make(chan struct{})}
	for range c.Clients {
		l.clients = append(l.clients, client(c))
	}
	go l.run(ctx)
	return l, nil
}

// client is one user's.
func client(c Config) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			// No proxy: what is asked is inside of the cluster.
			DialContext:         (&net.Dialer{KeepAlive: -1}).DialContext,
			DisableKeepAlives:   !c.KeepAlive,
			DisableCompression:  true,
			MaxIdleConnsPerHost: 1,
			TLSClientConfig:     c.TLS.Clone(),
		},
		// A redirect is not the page, and following it would be a second request.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Arrived is how many requests have been due until now.
func (l *Load) Arrived() int { return int(l.arrived.Load()) }

// End lets the load end once [Config].Least requests were sent.
func (l *Load) End() { l.end.Do(func() { close(l.ending) }) }

// Done is closed when the last answer is in.
func (l *Load) Done() <-chan struct{} { return l.done }

// Wait returns the result when the last answer is in.
func (l *Load) Wait() Result {
	<-l.done
	return l.tally.result(l.start)
}

// run lets requests arrive. Each is due at a moment that follows from its
// number alone, so that a late one does not delay the rest.
func (l *Load) run(ctx context.Context) {
	defer close(l.done)
	var under sync.WaitGroup
	defer func() {
		under.Wait()
		for _, c := range l.clients {
			c.CloseIdleConnections()
		}
	}()
	room := make(chan struct{}, l.config.Concurrency)
	gap := time.Second / time.Duration(l.config.Rate)
	timer := time.NewTimer(0)
	defer timer.Stop()
	<-timer.C
	for n := range l.config.Most {
		if n >= l.config.Least && isClosed(l.ending) {
			return
		}
		due := l.start.Add(time.Duration(n) * gap)
		timer.Reset(time.Until(due))
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		l.arrived.Add(1)
		select {
		case room <- struct{}{}:
		default:
			l.add(outcome{due: due, sent: due, class: Unsent, err: errors.New("as many requests are under way as may be")})
			continue
		}
		under.Go(func() {
			defer func() { <-room }()
			o := l.ask(ctx, n)
			if ctx.Err() != nil {
				return // it was given up, not failed
			}
			o.due = due
			o.late = o.sent.Sub(due)
			l.add(o)
		})
	}
}

// ask sends the request that arrived as number n.
func (l *Load) ask(parent context.Context, n int) outcome {
	if l.config.Ask == nil {
		return ask(parent, l.clients[n%len(l.clients)], l.config)
	}
	o := outcome{sent: time.Now()}
	ctx, cancel := context.WithTimeout(parent, l.config.Limit)
	defer cancel()
	err := l.config.Ask(ctx, n)
	o.took = time.Since(o.sent)
	op, isOp := errors.AsType[*net.OpError](err)
	o.class, o.err = classify(http.StatusOK, err, false, !isOp || op.Op != "dial", o.took >= l.config.Limit)
	return o
}

func (l *Load) add(o outcome) {
	l.tally.add(o)
	if l.config.Observe != nil {
		l.config.Observe(o.due, o.sent.Add(o.took), o.class, o.err)
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// outcome is what became of one request. class is empty when it was answered
// with 2xx, wholly and in time.
type outcome struct {
	due, sent time.Time
	late      time.Duration // the load's own delay
	took      time.Duration // since it was sent
	class     Class
	err       error
}

// ask sends one request, once.
func ask(parent context.Context, client *http.Client, c Config) outcome {
	o := outcome{sent: time.Now()}
	ctx, cancel := context.WithTimeout(parent, c.Limit)
	defer cancel()
	var tries, connected atomic.Int32
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		// The transport looks for a connection once a try.
		GetConn: func(string) {
			if tries.Add(1) > 1 {
				cancel()
			}
		},
		GotConn: func(httptrace.GotConnInfo) { connected.Add(1) },
	})
	status, err := get(ctx, client, c.URL)
	o.took = time.Since(o.sent)
	o.class, o.err = classify(status, err, tries.Load() > 1, connected.Load() > 0, o.took >= c.Limit)
	return o
}

// get reads the whole page: one that breaks off is not an answer.
func get(ctx context.Context, client *http.Client, url string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	res, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = res.Body.Close() }()
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, err
}
