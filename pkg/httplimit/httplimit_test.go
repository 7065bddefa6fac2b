package httplimit

import (
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// TestListen_SharesItsConnections lets one address take all it can, without a request.
func TestListen_SharesItsConnections(t *testing.T) {
	const limit = 8
	l, err := Listen(t.Context(), "127.0.0.1:0", limit)
	if err != nil {
		t.Fatal(err)
	}
	server := NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	dial := func(from string) net.Conn {
		t.Helper()
		c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).DialContext(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	// served reports whether a connection is open and served.
	served := func(c net.Conn) bool {
		_ = c.SetDeadline(time.Now().Add(2 * time.Second))
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		_, err := c.Read(make([]byte, 1))
		return err == nil
	}
	var neighbour []net.Conn
	for range 3 * limit {
		neighbour = append(neighbour, dial("127.0.0.2"))
	}
	if served(neighbour[3*limit-1]) {
		t.Error("more connections than the limit are open")
	}
	for i := range limit/2 - 1 {
		if !served(dial("127.0.0.3")) {
			t.Errorf("connection %d of another address is closed", i)
		}
	}
	if own := dial("127.0.0.3"); served(own) && served(dial("127.0.0.3")) {
		t.Error("the other address took more than a half")
	}
	open := 0
	for _, c := range neighbour[:limit] {
		if served(c) {
			open++
		}
	}
	if open < limit/2 {
		t.Errorf("the first address keeps %d", open)
	}
	for _, c := range neighbour {
		_ = c.Close()
	}
}
