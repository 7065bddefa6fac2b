package crash

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/platform-operator/platform-operator/pkg/testkit"
)

// crashingTransport is the transport of one operator. It can crash the operator at a write: from
// then on none of its requests reaches the server.
type crashingTransport struct {
	name      string // which operator of a run, for the list of requests
	namespace string
	lines     *lines

	mu       sync.Mutex
	flying   int       // requests without a response yet
	last     time.Time // when a request was last sent or answered
	writes   int       // writes since arm
	answered int       // all writes that the server has answered
	at       int       // the write whose answer is lost in the crash, 0 for none
	dead     bool
	crashed  chan struct{}
	point    string // the write it crashed at
}

// errCrashed is the error of the requests of a killed operator.
var errCrashed = errors.New("the operator has crashed")

func newWire(name, namespace string, l *lines) *crashingTransport {
	return &crashingTransport{name: name, namespace: namespace, lines: l, last: time.Now(), crashed: make(chan struct{})}
}

// wrap adds the crashing transport to the configuration of an operator.
func (w *crashingTransport) wrap(cfg *rest.Config) { testkit.Intercept(cfg, w.send) }

// arm counts writes from now on, and crashes after the given one.
func (w *crashingTransport) arm(at int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writes, w.at = 0, at
}

// kill simulates a crash between two requests.
func (w *crashingTransport) kill() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.die("between two requests")
}

// die is called with mu held.
func (w *crashingTransport) die(point string) {
	if !w.dead {
		w.dead, w.point = true, point
		close(w.crashed)
	}
}

func (w *crashingTransport) send(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	aside := isAside(r)
	i, err := w.leave(r, aside)
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // required of a RoundTripper; nothing was read
		}
		return nil, err
	}
	answer, err := next.RoundTrip(r)
	if aside {
		return answer, err
	}
	if w.arrive(r, i, answer, err) {
		if answer != nil {
			_ = answer.Body.Close() // nothing will read it
		}
		return nil, errCrashed
	}
	return answer, err
}

// leave decides whether a request reaches the server, and numbers the writes.
func (w *crashingTransport) leave(r *http.Request, aside bool) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dead {
		return 0, errCrashed
	}
	if aside {
		return 0, nil
	}
	i := 0
	if isWrite(r) {
		w.writes++
		i = w.writes
	}
	w.flying++
	w.last = time.Now()
	return i, nil
}

// arrive records a response, and reports whether it is lost in a crash.
func (w *crashingTransport) arrive(r *http.Request, i int, answer *http.Response, err error) (lost bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flying--
	w.last = time.Now()
	outcome := fmt.Sprint(err)
	if err == nil {
		outcome = strconv.Itoa(answer.StatusCode)
		if i > 0 {
			w.answered++
		}
	}
	if i > 0 && i == w.at {
		w.die("after " + w.describe(r))
		outcome += ": crash before the answer arrives"
	}
	w.lines.add("%s: %s → %s", w.name, w.describe(r), outcome)
	return w.dead
}

func (w *crashingTransport) describe(r *http.Request) string {
	path := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/api/"), "/apis/")
	return r.Method + " " + strings.Replace(path, "namespaces/"+w.namespace+"/", "", 1)
}

// quiet reports whether nothing was sent or answered for that long.
func (w *crashingTransport) quiet(long time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.flying == 0 && time.Since(w.last) >= long
}

// idle reports whether no request is waiting for its response.
func (w *crashingTransport) idle() bool { return w.quiet(0) }

// writesSent returns the number of writes since arm.
func (w *crashingTransport) writesSent() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.writes
}

// writesAnswered returns the number of all writes that the server has answered.
func (w *crashingTransport) writesAnswered() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.answered
}

// isAside reports whether a request is neither counted nor waited for: watches,
// which stay open, and Leases and Events, which do not affect the objects.
func isAside(r *http.Request) bool {
	parts := strings.SplitSeq(r.URL.Path, "/")
	for p := range parts {
		if p == "leases" || p == "events" {
			return true
		}
	}
	return r.URL.Query().Get("watch") != ""
}

func isWrite(r *http.Request) bool {
	switch r.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		return true
	}
	return false
}

// lines is the list of requests of a run, in the order of their responses.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, fmt.Sprintf(format, args...))
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.all, "\n")
}
