package judge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
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

// Run counts requests until there is a verdict, and returns: that the container ends is
// what the API server learns. When it is started again, it only receives the log, because
// the server would log errors otherwise, unless the pod exceeded the limit: while it is a
// canary, it returns again, so that the pod is not ready most of the time.
func Run(ctx context.Context, log *net.UDPConn, files Files, every time.Duration) error {
	defer log.Close()
	c := &counter{}
	go c.receive(log)
	ended, err := read(files.Verdict)
	if err != nil {
		return err
	}
	verdict, known := Parse(ended)
	var began time.Time
	for {
		settings, err := files.held()
		switch {
		case err != nil:
			return err
		case settings == nil:
			began = time.Time{}
		case known && verdict.Exceeded:
			return files.end(verdict)
		case known:
		case began.IsZero():
			began = time.Now()
			c.reset()
		default:
			if v, ok := settings.decide(c.errors.Load(), c.requests.Load(), time.Since(began)); ok {
				return files.end(v)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(every):
		}
	}
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

// end records the verdict.
func (f Files) end(v Verdict) error {
	for _, file := range []string{f.Verdict, f.Message} {
		if err := os.WriteFile(file, []byte(v.String()), 0o600); err != nil {
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

// counter counts requests.
type counter struct{ requests, errors atomic.Int64 }

func (c *counter) reset() {
	c.requests.Store(0)
	c.errors.Store(0)
}

// batch is how long lines are collected: reading each one when it arrives costs ten times as
// much. The kernel keeps a few hundred.
const batch = 10 * time.Millisecond

// receive reads the log until it is closed.
func (c *counter) receive(log *net.UDPConn) {
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
func (c *counter) count(line []byte) {
	line = bytes.TrimSpace(line)
	status := line[bytes.LastIndexByte(line, ' ')+1:]
	if len(status) != len("200") {
		return
	}
	c.requests.Add(1) // first, so that there are never more errors
	if status[0] == '5' {
		c.errors.Add(1)
	}
}
