// Package webhookserver is the HTTP server of the admission webhooks, with limits on what
// requests cost.
package webhookserver

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/platform-operator/platform-operator/pkg/httplimit"
)

// Everything that can connect to the webhook server can send requests to it. Without
// limits, a few requests at a time exceed the memory limit of the operator, and
// objects cannot be created or changed until it has restarted.
const (
	// maxBody is the maximum size of a request: the new and the old object, each
	// of which etcd limits to 1.5 MiB, and what the API server adds.
	maxBody = 7 << 19
	// maxValues is the maximum number of JSON values of a request. The API server
	// checks the schema, with its limits of lists, before it calls the webhooks; other
	// clients may send a million empty elements.
	maxValues = 100_000
	// maxNumber is the maximum length of a number. The time to decode a quantity grows
	// with the square of its length: one of 1 MiB takes a second of a processor, and
	// those of this length that fit into a request take 60 ms together.
	maxNumber = 16 << 10
	// CostPerByte is how many bytes are allocated, at most, for each byte of a request.
	CostPerByte = 5
	// CostPerValue is how many bytes are allocated, at most, for each JSON value of a
	// request in addition: for the value itself, and for the error that it may cause.
	CostPerValue = 450
	// maxCost is the maximum cost of all requests at a time, and ordinary the part of
	// each that counts against maxOrdinary instead, so that a few expensive requests do
	// not hold up usual ones, which have some hundred values.
	maxCost     = CostPerByte*maxBody + CostPerValue*maxValues
	ordinary    = 512 << 10
	maxOrdinary = 32 << 20
	// patience is how long a request may take to arrive, and bytesPerSecond what has to
	// arrive in each second after it: what it costs is taken meanwhile.
	patience       = 2 * time.Second
	bytesPerSecond = 1 << 20
	// maxConnections is the maximum number of connections. The API server uses one for
	// each request at a time.
	maxConnections = 512
	// heldFor is how long the answer to a refused request is held. The rest of the
	// request is not read, so that the connection has to be closed: otherwise, a client
	// could keep a processor busy with TLS handshakes and the reading of requests that
	// are refused. The API server waits as long before it tries again in any case.
	heldFor = time.Second
	// maxHeld is the maximum number of answers that are held. Each needs the memory of
	// a connection.
	maxHeld = 256
	// drain is how long each answer ends its connection before all others are closed. A
	// request that arrives on a kept connection while it is closed would be refused. The API
	// server keeps 25, and uses the one that was used last first.
	drain = 2 * time.Second
)

// limitedServer is a webhook server that limits what requests cost.
type limitedServer struct {
	webhook.Server // registers the hooks
	address        string
	tls            *tls.Config
	started        atomic.Bool
	draining       atomic.Bool

	small shared
	large budget
	held  chan struct{} // contains an element for each answer that is held
}

// New returns a webhook server that limits what requests cost.
func New(address string, config *tls.Config) webhook.Server {
	return &limitedServer{
		Server:  webhook.NewServer(webhook.Options{WebhookMux: http.NewServeMux()}),
		address: address, tls: config,
		small: shared{limit: maxOrdinary, by: map[string]int64{}}, large: budget{limit: maxCost},
		held: make(chan struct{}, maxHeld),
	}
}

// Start serves until ctx ends, and then the requests that were accepted.
func (s *limitedServer) Start(ctx context.Context) error {
	l, err := httplimit.Listen(ctx, s.address, maxConnections)
	if err != nil {
		return err //nolint:wrapcheck // it is complete
	}
	s.started.Store(true)
	server := manager.Server{Name: "webhooks", Server: httplimit.NewServer(s.WebhookMux()), Listener: tls.NewListener(l, s.tls)}
	serving, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	defer context.AfterFunc(ctx, func() {
		s.draining.Store(true)
		time.AfterFunc(drain, end)
	})()
	return server.Start(serving) //nolint:wrapcheck // it is complete
}

// StartedChecker fails until the server listens.
func (s *limitedServer) StartedChecker() healthz.Checker {
	return func(*http.Request) error {
		if !s.started.Load() {
			return errors.New("the webhook server has not started")
		}
		return nil
	}
}

// Register adds a hook behind the limits, which all hooks share.
func (s *limitedServer) Register(path string, hook http.Handler) {
	s.Server.Register(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, hook) }))
}

var (
	errBusy   = errors.New("busy")
	errBytes  = errors.New("too many bytes")
	errValues = errors.New("too many values")
	errNumber = errors.New("a number is too long")
	errType   = errors.New("the Content-Type is not application/json") // which a hook would log whole
)

func (s *limitedServer) serve(w http.ResponseWriter, r *http.Request, hook http.Handler) {
	if s.draining.Load() {
		w.Header().Set("Connection", "close")
	}
	taken := &allotment{server: s, address: httplimit.Host(r.RemoteAddr)}
	body, err := taken.read(w, r)
	if err != nil {
		taken.release() // the answer is held without it
		s.refuse(w, r, err)
		return
	}
	r.Body = io.NopCloser(body)
	began := time.Now()
	hook.ServeHTTP(w, r)
	if len(s.held) == 0 {
		taken.release()
		return
	}
	// While there are more large requests than can be served, they take no more than
	// half of the time of a processor.
	taken.releaseAfter(time.Since(began))
}

// read reads a request, and takes what it costs.
func (a *allotment) read(w http.ResponseWriter, r *http.Request) (*bytes.Buffer, error) {
	if r.ContentLength > maxBody {
		return nil, errBytes
	}
	if r.Header.Get("Content-Type") != "application/json" {
		return nil, errType
	}
	// The cost counts only as the request arrives: a client that announces a large one
	// and does not send it takes nothing. But what cannot be afforded is not read.
	if !a.server.affords(r.ContentLength) {
		return nil, errBusy
	}
	var body bytes.Buffer
	_, err := io.Copy(io.MultiWriter(a, &body), io.LimitReader(hurried(w, r.Body), maxBody+1))
	if err == nil && body.Len() > maxBody {
		err = errBytes
	}
	return &body, err
}

// hurried returns a reader of a body that fails when it arrives too slowly.
func hurried(w http.ResponseWriter, body io.Reader) io.Reader {
	c, deadline := http.NewResponseController(w), time.Now().Add(patience)
	return readerFunc(func(p []byte) (int, error) {
		_ = c.SetReadDeadline(deadline) // a test server has none
		n, err := body.Read(p)
		deadline = deadline.Add(time.Duration(n) * time.Second / bytesPerSecond)
		return n, err //nolint:wrapcheck // io.Copy examines it
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// affords reports whether a request of a length could be served if it arrived now.
// The API server announces the length of all requests.
func (s *limitedServer) affords(length int64) bool {
	if length < 0 {
		length = maxBody
	}
	return s.large.used.Load()+max(0, CostPerByte*length-ordinary) <= s.large.limit
}

// hold waits, and reports whether it did: not if too many answers are held.
func (s *limitedServer) hold(ctx context.Context) bool {
	select {
	case s.held <- struct{}{}:
		defer func() { <-s.held }()
	default:
		return false
	}
	select {
	case <-time.After(heldFor):
	case <-ctx.Done():
	}
	return true
}

// refuse holds the answer to a request that was not read, and then sends it.
func (s *limitedServer) refuse(w http.ResponseWriter, r *http.Request, err error) {
	wait := heldFor
	if s.hold(r.Context()) {
		wait = 0
	}
	var why *apierrors.StatusError
	switch {
	case errors.Is(err, errBusy):
		why = apierrors.NewTooManyRequests("the admission webhook of the platform operator is processing too many large requests; try again in a second", int(wait.Seconds()))
		w.Header().Set("Retry-After", strconv.Itoa(int(wait.Seconds()))) // the API server tries again by itself
	case errors.Is(err, errValues):
		why = apierrors.NewRequestEntityTooLargeError(tooManyValues)
	case errors.Is(err, errNumber):
		why = apierrors.NewRequestEntityTooLargeError(tooLongNumber)
	case errors.Is(err, errBytes):
		why = apierrors.NewRequestEntityTooLargeError(tooManyBytes)
	default:
		why = apierrors.NewBadRequest("the request could not be read: " + err.Error())
	}
	status := why.Status()
	status.Kind, status.APIVersion = "Status", "v1"
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Connection", "close") // the rest of the request is not read
	w.WriteHeader(int(status.Code))
	_ = json.NewEncoder(w).Encode(status) // the client may be gone
}

var (
	tooManyBytes = fmt.Sprintf("the object and its previous version must have at most %d KiB as JSON: "+
		"move long values to a ConfigMap or a Secret", maxBody>>10)
	tooManyValues = fmt.Sprintf("the object and its previous version must have at most %d JSON values: "+
		"remove elements from the longest lists", maxValues)
	tooLongNumber = fmt.Sprintf("a number or a quantity must have at most %d characters: "+
		"shorten it, or add a line break to a text that has only digits", maxNumber)
)

// budget limits a cost.
type budget struct {
	limit int64
	used  atomic.Int64
}

// take reports whether n is left, and takes it.
func (b *budget) take(n int64) bool {
	if b.used.Add(n) <= b.limit {
		return true
	}
	b.used.Add(-n)
	return false
}

// shared is a budget of which each address takes at most as much as it leaves: a client
// that takes all it can leaves a half for the others.
type shared struct {
	limit int64

	mu   sync.Mutex
	used int64
	by   map[string]int64
}

// take reports whether n is left for an address, and takes it.
func (b *shared) take(address string, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.by[address]+n > b.limit-b.used-n {
		return false
	}
	b.used += n
	b.by[address] += n
	return true
}

func (b *shared) release(address string, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	b.by[address] -= n
	if b.by[address] == 0 {
		delete(b.by, address)
	}
}

// allotment is the part of the budgets that one request has taken. Writing the
// request to it takes what it costs.
type allotment struct {
	server       *limitedServer
	address      string
	small, large int64
	values       values
}

func (a *allotment) Write(p []byte) (int, error) {
	before := a.values.n
	a.values.count(p)
	if a.values.n > maxValues {
		return 0, errValues
	}
	if a.values.longest > maxNumber {
		return 0, errNumber
	}
	cost := CostPerByte*int64(len(p)) + CostPerValue*int64(a.values.n-before)
	small := min(cost, ordinary-a.small)
	if !a.server.small.take(a.address, small) {
		return 0, errBusy
	}
	a.small += small
	large := cost - small
	if !a.server.large.take(large) {
		return 0, errBusy
	}
	a.large += large
	return len(p), nil
}

func (a *allotment) release() {
	a.server.small.release(a.address, a.small)
	a.server.large.used.Add(-a.large)
}

// releaseAfter is release, but the part that only large requests take is released
// when a time has passed.
func (a *allotment) releaseAfter(pause time.Duration) {
	a.server.small.release(a.address, a.small)
	time.AfterFunc(pause, func() { a.server.large.used.Add(-a.large) })
}

// values counts the values of JSON text that arrives in pieces: commas and
// opening brackets, of which there are at least as many, except for the first value.
type values struct {
	n                int
	quoted, escaping bool
	// number is the length so far of a possible number or quantity, or -1 in a quoted
	// text that cannot be one.
	number int
	// longest is the length of the longest of them.
	longest int
}

func (v *values) count(text []byte) {
	for len(text) > 0 {
		if v.quoted && !v.escaping && v.number < 0 && text[0] != '"' {
			text = v.skip(text) // most of a large request is such text
			continue
		}
		switch c := text[0]; {
		case v.escaping:
			v.escaping = false
			v.extend(c == 'u')
		case c == '"':
			v.quoted = !v.quoted
			v.end()
		case v.quoted:
			v.escaping = c == '\\'
			v.extend(v.escaping || inNumber(c))
		case inNumber(c):
			v.number++
		default:
			v.end()
			if c == ',' || c == '{' || c == '[' {
				v.n++
			}
		}
		text = text[1:]
	}
}

// extend adds a character of a quoted text, which may be that of a number.
func (v *values) extend(number bool) {
	switch {
	case !number:
		v.number = -1
	case v.number >= 0:
		v.number++
	}
}

// end ends what may be a number.
func (v *values) end() {
	v.longest = max(v.longest, v.number)
	v.number = 0
}

// inNumber reports whether quantities, or the escape sequences for their characters,
// contain a character.
func inNumber(c byte) bool {
	return strings.IndexByte("+-.0123456789abcdefABCDEFikmnuGKMPT", c) >= 0
}

// skip returns what follows in a quoted text: from its end on, or after an escaped
// quote.
func (v *values) skip(text []byte) []byte {
	quote := bytes.IndexByte(text, '"')
	if quote < 0 {
		quote = len(text)
	}
	at := 0
	for at < quote {
		escape := bytes.IndexByte(text[at:quote], '\\')
		if escape < 0 {
			return text[quote:]
		}
		at += escape + 2
	}
	if at > len(text) { // the escaped character arrives later
		v.escaping = true
		return nil
	}
	return text[at:]
}
