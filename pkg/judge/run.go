package judge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// Files are the paths that Run uses.
type Files struct {
	// Settings is the folder with CanaryFile and TemplateFile.
	Settings string
	// Verdict keeps the verdict over restarts of the container, and Message is the
	// termination message.
	Verdict, Message string
}

// Source counts the requests to a pod.
type Source interface {
	// total returns how many there were since any time, and how many failed with 5xx.
	total(ctx context.Context, s *Settings) (requests, failed int64, err error)
}

// Run judges by the counts until there is a verdict, and returns: that the container ends is
// what the API server learns. When it is started again, it does not judge, unless the pod
// exceeded the limit: while it is a canary, it returns again, so that the pod is not ready
// most of the time. Counts that cannot be read during the whole hold are reported in the
// same way, and so is that they can be read afterwards.
func Run(ctx context.Context, source Source, files Files, every time.Duration) error {
	ended, err := read(files.Verdict)
	if err != nil {
		return err
	}
	verdict, known := Parse(ended)
	h := hold{source: source, reported: ParseUncounted(ended) != ""}
	for {
		settings, err := files.held()
		switch {
		case err != nil:
			return err
		case settings == nil:
			h = hold{source: source, reported: h.reported}
		case known && verdict.Exceeded:
			return files.end(ended)
		case known:
		default:
			if report := h.judge(ctx, settings); report != "" {
				return files.end(report)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(every):
		}
	}
}

// hold is that of a canary.
type hold struct {
	source           Source
	began            time.Time
	requests, failed int64 // when it began
	reads            int64
	reported         bool // why the counts are not known
}

// judge returns the termination message, or "".
func (h *hold) judge(ctx context.Context, s *Settings) string {
	requests, failed, err := h.source.total(ctx, s)
	after := time.Since(h.began)
	switch {
	case err == nil && h.reported:
		return counted
	case h.began.IsZero():
		h.began, h.requests, h.failed = time.Now(), requests, failed
	case err == nil:
		h.reads++
		s.MinRequests += h.own(s, after) // they are no success of the canary
		if v, ok := s.decide(failed-h.failed, requests-h.requests, after); ok {
			return v.String()
		}
	case h.reads == 0 && !h.reported && after >= time.Duration(s.HoldSeconds)*time.Second:
		return uncounted + err.Error()
	}
	return ""
}

// own returns how many requests the kubelet and the judge may have sent themselves.
func (h *hold) own(s *Settings, after time.Duration) int64 {
	if s.Metrics == nil {
		return 0
	}
	return h.reads + s.Metrics.Probes*int64(after/time.Second)/60
}

// held returns the settings if the pod is one of a canary, and nil otherwise.
func (f Files) held() (*Settings, error) {
	raw, err := read(filepath.Join(f.Settings, CanaryFile))
	if err != nil || raw == "" {
		return nil, err
	}
	own, err := read(filepath.Join(f.Settings, TemplateFile))
	if err != nil {
		return nil, err
	}
	s := &Settings{}
	if err := json.Unmarshal([]byte(raw), s); err != nil {
		return nil, fmt.Errorf("reading %s: %w", CanaryFile, err)
	}
	if own == "" || s.Template != own {
		return nil, nil
	}
	return s, nil
}

// end records the verdict, or why there is none.
func (f Files) end(report string) error {
	for _, file := range []string{f.Verdict, f.Message} {
		if err := os.WriteFile(file, []byte(report), 0o600); err != nil {
			return fmt.Errorf("writing the verdict: %w", err)
		}
	}
	return nil
}

// read returns the content of a file, or "" if it does not exist.
func read(file string) (string, error) {
	raw, err := os.ReadFile(file) //nolint:gosec // a flag of the operator's own template
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("reading the settings: %w", err)
	}
	return strings.TrimSpace(string(raw)), nil
}

// Counter counts requests by the first digit of their status.
type Counter [6]atomic.Int64

// total implements Source.
func (c *Counter) total(context.Context, *Settings) (requests, failed int64, _ error) {
	failed = c[5].Load() // first, so that there are never more
	for i := range c {
		requests += c[i].Load()
	}
	return requests, failed, nil
}

// ServeHTTP writes the counts in the text format of Prometheus.
func (c *Counter) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	var text strings.Builder
	text.WriteString("# HELP " + metric + " Responses by class of the status.\n# TYPE " + metric + " counter\n")
	for class := 1; class < len(c); class++ {
		fmt.Fprintf(&text, "%s{code=\"%dxx\"} %d\n", metric, class, c[class].Load())
	}
	_, _ = io.WriteString(w, text.String()) // the client sees an error
}

const metric = "webserver_http_responses_total"

// batch is how long lines are collected: reading each one when it arrives costs ten times as
// much. The kernel keeps more than 250, which are 5,000 requests a second.
const batch = 50 * time.Millisecond

// Receive reads the log until it is closed.
func (c *Counter) Receive(log *net.UDPConn) {
	line := make([]byte, 1024)
	raw, err := log.SyscallConn()
	for err == nil {
		err = raw.Read(func(fd uintptr) bool {
			for n := 0; ; n++ {
				size, _, err := syscall.Recvfrom(int(fd), line, 0)
				if err != nil {
					return n > 0 || !errors.Is(err, syscall.EAGAIN)
				}
				c.count(line[:size])
			}
		})
		time.Sleep(batch)
	}
}

// count counts a line, whose last word is the status.
func (c *Counter) count(line []byte) {
	line = bytes.TrimSpace(line)
	status := line[bytes.LastIndexByte(line, ' ')+1:]
	if isStatus(string(status)) {
		c[status[0]-'0'].Add(1)
	}
}
