// Package wire is the transport between an operator and the API server. It disturbs
// requests and events: it kills the operator at a write, refuses writes, loses answers,
// and delays or ends watches.
package wire

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/platform-operator/platform-operator/pkg/testkit"
)

// A FaultKind is what happens to a write.
type FaultKind int

const (
	// CrashBefore kills the operator before the write is sent.
	CrashBefore FaultKind = iota
	// CrashAfter kills it after the write, before the response arrives.
	CrashAfter
	// Refuse answers the write with a status code and does not execute it.
	Refuse
	// Lose executes the write and loses the response.
	Lose
)

// A Fault is injected into the n-th write from now on.
type Fault struct {
	Kind FaultKind
	At   int
	Code int // of Refuse
}

// Write is one write of an operator, with its response.
type Write struct {
	Method, Resource, Name string
	Code                   int
	At                     time.Time
}

// String returns the write as one line of a list.
func (w Write) String() string {
	return fmt.Sprintf("%s %s/%s → %d", w.Method, w.Resource, w.Name, w.Code)
}

var errCrashed = errors.New("the operator has crashed")

// Wire is the transport of one operator. It counts neither Leases nor Events, which do not
// affect the objects.
type Wire struct {
	// Observe, if not nil, is called with each request that was answered, and what became
	// of it.
	Observe func(r *http.Request, outcome string)

	mu     sync.Mutex
	flying int       // requests that have no response yet
	last   time.Time // of the last request, response or event
	dead   bool
	sent   int
	armed  []Fault
	writes []Write

	frozen map[string]chan struct{} // by resource, "" for all: closed on thaw
	broken int                      // how often all watches were ended
}

// New returns the transport of an operator.
func New() *Wire { return &Wire{last: time.Now(), frozen: map[string]chan struct{}{}} }

// Wrap adds the transport to the configuration of an operator.
func (w *Wire) Wrap(cfg *rest.Config) { testkit.Intercept(cfg, w.send) }

// Arm has a fault injected into a future write.
func (w *Wire) Arm(f Fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f.At += w.sent
	w.armed = append(w.armed, f)
}

// Disarm removes injected faults that have not taken effect.
func (w *Wire) Disarm() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed = nil
}

// Kill closes the operator's connection: none of its requests arrives any more.
func (w *Wire) Kill() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.die()
}

func (w *Wire) die() {
	if !w.dead {
		w.dead = true
		w.thawLocked()
	}
}

// IsDead reports whether the operator was killed.
func (w *Wire) IsDead() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dead
}

// Freeze delays the events of a resource, "" for all.
func (w *Wire) Freeze(resource string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.frozen[resource] == nil {
		w.frozen[resource] = make(chan struct{})
	}
}

// BreakWatches ends all watches, like an API server that restarts: changes until
// they are open again are only visible in lists.
func (w *Wire) BreakWatches() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken++
}

// Thaw delivers all events that were delayed.
func (w *Wire) Thaw() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.thawLocked()
}

func (w *Wire) thawLocked() {
	for r, c := range w.frozen {
		close(c)
		delete(w.frozen, r)
	}
	w.last = time.Now()
}

func (w *Wire) send(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	resource, name := target(r)
	if resource == "events" || resource == "leases" {
		return next.RoundTrip(r)
	}
	watch := r.URL.Query().Get("watch") != ""
	number, answer, err, done := w.leave(r)
	if done {
		if r.Body != nil {
			_ = r.Body.Close() // required of a RoundTripper
		}
		return answer, err
	}
	answer, err = next.RoundTrip(r)
	if watch {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.flying--
		if err == nil {
			answer.Body = &events{ReadCloser: answer.Body, wire: w, resource: resource, broken: w.broken}
		}
		return answer, err
	}
	return w.arrive(r, number, resource, name, answer, err)
}

// leave decides what happens to a request before it is sent, and numbers the writes.
func (w *Wire) leave(r *http.Request) (number int, answer *http.Response, err error, done bool) { //nolint:revive // the last result reports whether the others are used
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dead {
		return 0, nil, errCrashed, true
	}
	w.last = time.Now()
	if slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}, r.Method) {
		w.sent++
		number = w.sent
		f := w.faultAt(number)
		if f != nil && f.Kind == CrashBefore {
			w.die()
			return 0, nil, errCrashed, true
		}
		if f != nil && f.Kind == Refuse {
			return 0, refusal(r, f.Code), nil, true
		}
	}
	w.flying++
	return number, nil, nil, false
}

// faultAt returns what is injected into a write, or nil.
func (w *Wire) faultAt(number int) *Fault {
	if i := slices.IndexFunc(w.armed, func(f Fault) bool { return f.At == number }); i >= 0 {
		return &w.armed[i]
	}
	return nil
}

// arrive records a response, and decides whether the operator receives it.
func (w *Wire) arrive(r *http.Request, number int, resource, name string, answer *http.Response, err error) (*http.Response, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flying--
	w.last = time.Now()
	outcome := fmt.Sprint(err)
	if err == nil {
		outcome = strconv.Itoa(answer.StatusCode)
		if number > 0 {
			w.writes = append(w.writes, Write{r.Method, resource, name, answer.StatusCode, w.last})
		}
	}
	var lost error
	if f := w.faultAt(number); f != nil && f.Kind == Lose {
		lost = errors.New("connection reset by peer")
	} else if f != nil && f.Kind == CrashAfter {
		w.die()
		outcome += ": crash before the answer arrives"
	}
	if w.dead {
		lost = errCrashed
	}
	if w.Observe != nil {
		w.Observe(r, outcome)
	}
	if err == nil && lost != nil {
		_ = answer.Body.Close() // nothing will read it
		return nil, lost
	}
	return answer, err
}

// Quiet reports whether nothing was sent, answered or delivered for that long.
func (w *Wire) Quiet(long time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.flying == 0 && time.Since(w.last) >= long
}

// Delivers reports whether events reach the operator.
func (w *Wire) Delivers() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.dead && len(w.frozen) == 0
}

// Done returns the writes that were answered.
func (w *Wire) Done() []Write {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.writes)
}

// Sent returns how many writes were sent.
func (w *Wire) Sent() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sent
}

// Changes returns how many writes were accepted.
func (w *Wire) Changes() int {
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
	wire     *Wire
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
		gate := cmp.Or(e.wire.frozen[e.resource], e.wire.frozen[""])
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

// refusal returns the response of an API server that rejects a request.
func refusal(r *http.Request, code int) *http.Response {
	reason := map[int]string{http.StatusConflict: "Conflict", http.StatusTooManyRequests: "TooManyRequests", http.StatusInternalServerError: "InternalError"}[code]
	body := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"injected","reason":%q,"code":%d}`, reason, code)
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": []string{"application/json"}}, Body: io.NopCloser(bytes.NewReader([]byte(body))), ContentLength: int64(len(body)),
	}
}
