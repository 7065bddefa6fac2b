package model

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/platform-operator/platform-operator/pkg/testkit"
)

// A faultKind is what happens to a write.
type faultKind int

const (
	// crashBefore kills the operator before the write is sent.
	crashBefore faultKind = iota
	// crashAfter kills it after the write, before the response arrives.
	crashAfter
	// refuse answers the write with a status code and does not execute it.
	refuse
	// lose executes the write and loses the response.
	lose
	// hold delays the write until release.
	hold
)

// A fault is injected into the n-th write from now on.
type fault struct {
	kind faultKind
	at   int
	code int
}

// write is one write of an operator, with its response.
type write struct {
	Method, Resource, Name string
	Code                   int
	At                     time.Time
}

func (w write) String() string {
	return fmt.Sprintf("%s %s/%s → %d", w.Method, w.Resource, w.Name, w.Code)
}

var errCrashed = errors.New("the operator has crashed")

// wire is the transport of one operator.
type wire struct {
	mu     sync.Mutex
	flying int       // requests that have no response yet and are not held
	last   time.Time // of the last request, response or event
	dead   bool
	held   chan struct{} // closed when a held write may continue
	isHeld bool
	heldAt time.Time
	sent   int
	armed  []fault
	writes []write

	frozen map[string]chan struct{} // by resource, "" for all: closed on thaw
	broken int                      // how often all watches were ended
}

func newWire() *wire {
	return &wire{last: time.Now(), held: make(chan struct{}), frozen: map[string]chan struct{}{}}
}

func (w *wire) wrap(cfg *rest.Config) { testkit.Intercept(cfg, w.send) }

// arm has a fault injected into a future write.
func (w *wire) arm(f fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f.at += w.sent
	w.armed = append(w.armed, f)
}

// disarm removes injected faults that have not taken effect.
func (w *wire) disarm() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed = nil
}

// kill closes the operator's connection: none of its requests arrives any more.
func (w *wire) kill() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.die()
}

func (w *wire) die() {
	if !w.dead {
		w.dead = true
		w.thawLocked()
		w.releaseLocked()
	}
}

func (w *wire) isDead() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dead
}

// resumable returns when a held write may continue, which is the past if none is
// held: another leader takes over no earlier than a reconcile has to stop writing.
func (w *wire) resumable() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.isHeld {
		return time.Time{}
	}
	return w.heldAt.Add(takeover)
}

// release lets a held write continue.
func (w *wire) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.releaseLocked()
}

func (w *wire) releaseLocked() {
	select {
	case <-w.held:
	default:
		close(w.held)
	}
}

// freeze delays the events of a resource, "" for all.
func (w *wire) freeze(resource string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.frozen[resource] == nil {
		w.frozen[resource] = make(chan struct{})
	}
}

// breakWatches ends all watches, like an API server that restarts: changes until
// they are open again are only visible in lists.
func (w *wire) breakWatches() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken++
}

// thaw delivers all events that were delayed.
func (w *wire) thaw() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.thawLocked()
}

func (w *wire) thawLocked() {
	for r, c := range w.frozen {
		close(c)
		delete(w.frozen, r)
	}
	w.last = time.Now()
}

func (w *wire) send(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	resource, name := target(r)
	if resource == "events" || resource == "leases" {
		return next.RoundTrip(r)
	}
	watch := r.URL.Query().Get("watch") != ""
	answer, err, done := w.leave(r, isWrite(r))
	if done {
		if r.Body != nil {
			_ = r.Body.Close() // required of a RoundTripper
		}
		return answer, err
	}
	answer, err = next.RoundTrip(r)
	if watch {
		w.mu.Lock()
		w.flying--
		w.mu.Unlock()
		if err == nil {
			w.mu.Lock()
			answer.Body = &events{ReadCloser: answer.Body, wire: w, resource: resource, broken: w.broken}
			w.mu.Unlock()
		}
		return answer, err
	}
	return w.arrive(r, resource, name, answer, err)
}

// leave decides what happens to a request before it is sent.
func (w *wire) leave(r *http.Request, isWrite bool) (*http.Response, error, bool) { //nolint:revive // the last result reports whether the others are used
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dead {
		return nil, errCrashed, true
	}
	w.last = time.Now()
	if isWrite {
		w.sent++
		for _, f := range w.armed {
			if f.at != w.sent {
				continue
			}
			switch f.kind {
			case crashBefore:
				w.die()
				return nil, errCrashed, true
			case refuse:
				return refusal(r, f.code), nil, true
			case hold:
				w.isHeld, w.heldAt = true, time.Now()
				w.mu.Unlock()
				<-w.held
				w.mu.Lock()
				w.isHeld = false
				if w.dead {
					return nil, errCrashed, true
				}
			case crashAfter, lose:
			}
		}
	}
	w.flying++
	return nil, nil, false
}

func (w *wire) arrive(r *http.Request, resource, name string, answer *http.Response, err error) (*http.Response, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flying--
	w.last = time.Now()
	if err != nil || !isWrite(r) {
		return answer, err
	}
	w.writes = append(w.writes, write{r.Method, resource, name, answer.StatusCode, w.last})
	for _, f := range w.armed {
		if f.at != w.sent {
			continue
		}
		switch f.kind {
		case crashAfter:
			w.die()
			_ = answer.Body.Close()
			return nil, errCrashed
		case lose:
			_ = answer.Body.Close()
			return nil, errors.New("connection reset by peer")
		case crashBefore, refuse, hold:
		}
	}
	if w.dead {
		_ = answer.Body.Close()
		return nil, errCrashed
	}
	return answer, nil
}

// quiet reports whether nothing was sent, answered or delivered for that long.
func (w *wire) quiet(long time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dead || w.flying == 0 && time.Since(w.last) >= long
}

// delivers reports whether events reach the operator.
func (w *wire) delivers() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.dead && len(w.frozen) == 0
}

// done returns the writes that were answered.
func (w *wire) done() []write {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]write(nil), w.writes...)
}

// changes returns how many writes were accepted.
func (w *wire) changes() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, d := range w.writes {
		if d.Code < http.StatusMultipleChoices {
			n++
		}
	}
	return n
}

// events is the body of a watch, which can be frozen.
type events struct {
	io.ReadCloser
	wire     *wire
	resource string
	broken   int // how often watches had been ended when this one began
}

func (e *events) Read(p []byte) (int, error) {
	n, err := e.ReadCloser.Read(p)
	e.wire.mu.Lock()
	broken := e.broken != e.wire.broken
	e.wire.mu.Unlock()
	if broken {
		return 0, io.ErrUnexpectedEOF
	}
	for {
		e.wire.mu.Lock()
		gate := e.wire.frozen[e.resource]
		if gate == nil {
			gate = e.wire.frozen[""]
		}
		if gate == nil {
			e.wire.last = time.Now()
			dead := e.wire.dead
			e.wire.mu.Unlock()
			if dead {
				return 0, errCrashed
			}
			return n, err
		}
		e.wire.mu.Unlock()
		<-gate
	}
}

// target returns the resource of a request, including the subresource, and the
// name.
func target(r *http.Request) (resource, name string) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	for i, p := range parts {
		if p == "namespaces" && i+2 < len(parts) {
			resource = parts[i+2]
			if i+3 < len(parts) {
				name = parts[i+3]
			}
			if i+4 < len(parts) {
				resource += "/" + parts[i+4]
			}
			return resource, name
		}
	}
	return parts[len(parts)-1], ""
}

func isWrite(r *http.Request) bool {
	switch r.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		return true
	}
	return false
}

// refusal returns the response of an API server that rejects a request.
func refusal(r *http.Request, code int) *http.Response {
	reason := map[int]string{http.StatusConflict: "Conflict", http.StatusTooManyRequests: "TooManyRequests", http.StatusInternalServerError: "InternalError"}[code]
	body := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"injected","reason":%q,"code":%d}`, reason, code)
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": []string{"application/json"}}, Body: io.NopCloser(bytes.NewReader([]byte(body))), ContentLength: int64(len(body)),
	}
}
