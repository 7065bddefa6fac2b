// The program http3 sends requests over HTTP/3 to a URL until its standard input ends, and prints what
// became of them as JSON. It is a module of its own, because the operator needs no QUIC.
package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// result is what became of the requests.
type result struct {
	Requests    int            `json:"requests"`
	Connections int            `json:"connections"`
	Again       int            `json:"again"`  // sent again, because the server had closed the connection without processing them
	Failed      map[string]int `json:"failed"` // by the error
	Slowest     time.Duration  `json:"slowest"`
}

func main() {
	url := flag.String("url", "", "what is requested")
	kept := flag.Int("kept", 0, "how many connections are kept; 0 for a connection for each request")
	rate := flag.Int("rate", 10, "requests per second")
	port := flag.Int("port", 10000, "the first of 5000 local ports")
	limit := flag.Duration("limit", 5*time.Second, "how long a request may take")
	flag.Parse()
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	l := load{url: *url, port: *port, limit: *limit, result: result{Failed: map[string]int{}}}
	for range *kept {
		l.clients = append(l.clients, l.client())
	}
	l.send(*rate, ended)
	if err := json.NewEncoder(os.Stdout).Encode(l.result); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type load struct {
	url     string
	port    int
	limit   time.Duration
	clients []*http3.Transport
	mu      sync.Mutex
	result  result
}

func (l *load) client() *http3.Transport {
	return &http3.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // certificates of the test
		Dial:            l.dial,
	}
}

// dial uses one port after the other: for two or three minutes, the packet filter sends what comes from a
// port that was used before to the same pod, also if that is about to end.
func (l *load) dial(ctx context.Context, address string, t *tls.Config, q *quic.Config) (*quic.Conn, error) {
	l.mu.Lock()
	local := &net.UDPAddr{Port: l.port + l.result.Connections%5000}
	l.result.Connections++
	l.mu.Unlock()
	remote, err := net.ResolveUDPAddr("udp", address)
	if err != nil {
		return nil, err
	}
	socket, err := net.ListenUDP("udp", local)
	if err != nil {
		return nil, err
	}
	transport := &quic.Transport{Conn: socket}
	end := func() { _ = errors.Join(transport.Close(), socket.Close()) }
	c, err := transport.Dial(ctx, remote, t, q)
	if err != nil {
		end()
		return nil, err
	}
	context.AfterFunc(c.Context(), end)
	return c, nil
}

// send sends requests until the end, but at least one.
func (l *load) send(rate int, ended <-chan struct{}) {
	var all sync.WaitGroup
	defer all.Wait()
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	for n := 0; ; n++ {
		all.Go(func() {
			begin := time.Now()
			err := l.one(n)
			again := isShutdown(err)
			if again {
				err = l.one(n)
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			l.result.Requests++
			l.result.Slowest = max(l.result.Slowest, time.Since(begin))
			if again {
				l.result.Again++
			}
			if err != nil {
				l.result.Failed[err.Error()]++
			}
		})
		select {
		case <-ended:
			return
		case <-tick.C:
		}
	}
}

// isShutdown reports whether the server has closed the connection after GOAWAY, so that it has not
// processed the request, and a client may send it again (RFC 9114, 5.2). The library does so only for
// requests that it has not sent when it gets to know.
func isShutdown(err error) bool {
	var closed *http3.Error
	return errors.As(err, &closed) && closed.Remote && closed.ErrorCode == http3.ErrCodeNoError
}

// one sends a request.
func (l *load) one(n int) (err error) {
	ctx, stop := context.WithTimeout(context.Background(), l.limit)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, l.url, nil)
	if err != nil {
		return err
	}
	client := (*http3.Transport)(nil)
	if len(l.clients) > 0 {
		client = l.clients[n%len(l.clients)]
	} else {
		client = l.client()
		defer func() { err = errors.Join(err, client.Close()) }()
	}
	res, err := client.RoundTrip(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return err
	}
	if header := res.Header.Get("Connection"); header != "" {
		return fmt.Errorf("malformed response (RFC 9114, 4.2): Connection: %s in HTTP/3", header)
	}
	if res.StatusCode != http.StatusOK {
		return errors.New(res.Status)
	}
	return nil
}
