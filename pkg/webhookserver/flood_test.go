package webhookserver

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	floodFor         = 5 * time.Second
	floodConnections = 32
	// envFlood is the URL that a process floods which a benchmark has started.
	envFlood = "FLOOD_URL"
)

// BenchmarkWebhookServer_Flood measures what it costs to refuse requests that are
// as expensive as they may be, with TLS, from another process. The hook decodes
// them.
func BenchmarkWebhookServer_Flood(b *testing.B) {
	url, _ := serveTLS(b)
	for b.Loop() {
		cmd := exec.CommandContext(b.Context(), os.Args[0], "-test.run=^TestFlood$")
		cmd.Env = append(os.Environ(), envFlood+"="+url)
		cmd.Stderr = os.Stderr
		before := cpuTime(b)
		out, err := cmd.Output()
		if err != nil {
			b.Fatal(err)
		}
		used := cpuTime(b) - before
		answers := map[int]int{}
		if err := json.NewDecoder(bufio.NewReader(bytes.NewReader(out))).Decode(&answers); err != nil {
			b.Fatalf("%v in %s", err, out)
		}
		refused := answers[http.StatusTooManyRequests]
		b.Logf("answers: %v", answers)
		b.ReportMetric(used.Seconds()*1000/float64(max(refused, 1)), "cpu-ms/refused")
		b.ReportMetric(used.Seconds()/floodFor.Seconds(), "cores")
		b.ReportMetric(float64(refused)/floodConnections/floodFor.Seconds(), "refused/s/connection")
		b.ReportMetric(float64(answers[http.StatusOK])/floodFor.Seconds(), "served/s")
	}
}

// TestFlood is the process that floods.
func TestFlood(t *testing.T) {
	url := os.Getenv(envFlood)
	if url == "" {
		t.Skip("it is started by a benchmark")
	}
	ctx, cancel := context.WithTimeout(t.Context(), floodFor)
	defer cancel()
	body := []byte(`["` + strings.Repeat("x", 3_450_000) + `"` + strings.Repeat(",{}", 49_000) + `]`)
	var mu sync.Mutex
	answers := map[int]int{}
	var wg sync.WaitGroup
	for range floodConnections {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // of this benchmark
		wg.Go(func() {
			for ctx.Err() == nil {
				code := 0
				q, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				if a, err := client.Do(q); err == nil {
					code = a.StatusCode
					_, _ = io.Copy(io.Discard, a.Body) // so that the connection is used again
					_ = a.Body.Close()
				}
				mu.Lock()
				answers[code]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	raw, err := json.Marshal(answers)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(string(raw))
}

// serveTLS starts the webhook server and returns the URL of its only hook, and what ends it.
func serveTLS(tb testing.TB) (url string, end func()) {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		tb.Fatal(err)
	}
	l, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	if err := l.Close(); err != nil {
		tb.Fatal(err)
	}
	s := New(l.Addr().String(), &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
	s.Register("/hook", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var decoded any
		if err := errors.Join(err, json.Unmarshal(body, &decoded)); err != nil {
			tb.Error(err)
		}
	}))
	ctx, cancel := context.WithCancel(tb.Context())
	ended := make(chan error)
	go func() { ended <- s.Start(ctx) }()
	tb.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			tb.Error(err)
		}
	})
	for s.StartedChecker()(nil) != nil {
		time.Sleep(10 * time.Millisecond)
	}
	return "https://" + l.Addr().String() + "/hook", cancel
}

// cpuTime returns the processor time that this process has used.
func cpuTime(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
