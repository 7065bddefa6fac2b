// The application of make campaign-traffic. It ends as an application should: when it is
// terminated, it asks its clients to open other connections for two seconds, says goodbye
// on the upgraded ones, and finishes what it has begun.
package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

func main() {
	listen := flag.String("listen", ":8080", "")
	flag.Parse()
	var ending atomic.Bool
	http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		if ending.Load() {
			w.Header().Set("Connection", "close")
		}
		fmt.Fprintln(w, "served")
	})
	// About 20 seconds.
	http.HandleFunc("/slow", func(w http.ResponseWriter, _ *http.Request) {
		for range 40 {
			fmt.Fprintln(w, strings.Repeat("x", 100))
			_ = http.NewResponseController(w).Flush()
			time.Sleep(500 * time.Millisecond)
		}
	})
	// The life of a WebSocket, without its frames.
	http.HandleFunc("/upgrade", func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		_, err = fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: tick\r\n\r\n")
		for ; err == nil && !ending.Load(); time.Sleep(200 * time.Millisecond) {
			_, err = fmt.Fprintln(conn, "tick")
		}
		_, _ = fmt.Fprintln(conn, "bye")
	})
	http.HandleFunc("/exit", func(http.ResponseWriter, *http.Request) { os.Exit(1) })
	server := &http.Server{Addr: *listen, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		if err := server.ListenAndServe(); err != http.ErrServerClosed {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}()
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	<-terminated
	ending.Store(true)
	time.Sleep(2 * time.Second)
	_ = server.Shutdown(context.Background())
}
