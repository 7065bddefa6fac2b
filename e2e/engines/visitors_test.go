//go:build e2e

package engines

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// visitors send requests, each with a connection of its own.
type visitors struct {
	stop     context.CancelFunc
	running  sync.WaitGroup
	mu       sync.Mutex
	answered map[string]int
	failed   []string
}

// visit sends five requests each second to each of the addresses: of a web server, or of a memcached.
func visit(ctx context.Context, addresses ...string) *visitors {
	ctx, stop := context.WithCancel(ctx)
	v := &visitors{stop: stop, answered: map[string]int{}}
	for _, address := range addresses {
		v.running.Go(func() {
			for tick := time.NewTicker(200 * time.Millisecond); ctx.Err() == nil; {
				v.ask(ctx, address)
				select {
				case <-tick.C:
				case <-ctx.Done():
				}
			}
		})
	}
	return v
}

func (v *visitors) ask(ctx context.Context, address string) {
	limited, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err := request(limited, address)
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case ctx.Err() != nil: // the request was cut off
	case err != nil:
		v.failed = append(v.failed, fmt.Sprintf("%s %s: %v", time.Now().UTC().Format("15:04:05.0"), address, err))
	default:
		v.answered[address]++
	}
}

// leave returns how many requests were answered, and those that failed.
func (v *visitors) leave() (int, []string) {
	v.stop()
	v.running.Wait()
	answered := 0
	for _, n := range v.answered {
		answered += n
	}
	return answered, v.failed
}

func request(ctx context.Context, address string) error {
	if strings.HasSuffix(address, ":11211") {
		return requestVersion(ctx, address)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address, http.NoBody)
	if err != nil {
		return err
	}
	r.Close = true
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("status %s", response.Status)
	}
	return nil
}

func requestVersion(ctx context.Context, address string) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return err
	}
	if _, err := io.WriteString(conn, "version\r\n"); err != nil {
		return err
	}
	_, err = conn.Read(make([]byte, 64))
	return err
}
