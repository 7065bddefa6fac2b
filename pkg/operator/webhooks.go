package operator

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
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
	// maxReading is how long a request may take to arrive.
	maxReading = 5 * time.Second
)

// limitedServer is a webhook server that limits what requests cost.
type limitedServer struct {
	webhook.Server
	small, large budget
}

func newWebhookServer(o webhook.Options) webhook.Server {
	return &limitedServer{Server: webhook.NewServer(o), small: budget{limit: maxOrdinary}, large: budget{limit: maxCost}}
}

// Register adds a hook behind the limits, which all hooks share.
func (s *limitedServer) Register(path string, hook http.Handler) {
	s.Server.Register(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, hook) }))
}

var (
	errBusy   = errors.New("busy")
	errValues = errors.New("too many values")
)

func (s *limitedServer) serve(w http.ResponseWriter, r *http.Request, hook http.Handler) {
	if r.ContentLength > maxBody {
		tooLarge(w, tooManyBytes)
		return
	}
	taken := &allotment{server: s}
	defer taken.release()
	// A test server has no deadlines.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(maxReading))
	var body bytes.Buffer
	// The cost counts only as the request arrives: a client that announces a large one
	// and does not send it takes nothing.
	_, err := io.Copy(io.MultiWriter(taken, &body), io.LimitReader(r.Body, maxBody+1))
	switch {
	case errors.Is(err, errBusy):
		busy := apierrors.NewTooManyRequests("the admission webhook of the platform operator is processing too many large requests; try again in a second", 1)
		w.Header().Set("Retry-After", "1") // the API server tries again by itself
		refuse(w, busy.Status())
	case errors.Is(err, errValues):
		tooLarge(w, tooManyValues)
	case err != nil:
		refuse(w, apierrors.NewBadRequest("the request could not be read: "+err.Error()).Status())
	case body.Len() > maxBody:
		tooLarge(w, tooManyBytes)
	default:
		r.Body = io.NopCloser(&body)
		hook.ServeHTTP(w, r)
	}
}

var (
	tooManyBytes = fmt.Sprintf("the object and its previous version must have at most %d KiB as JSON: "+
		"move long values to a ConfigMap or a Secret", maxBody>>10)
	tooManyValues = fmt.Sprintf("the object and its previous version must have at most %d JSON values: "+
		"remove elements from the longest lists", maxValues)
)

func tooLarge(w http.ResponseWriter, why string) {
	refuse(w, apierrors.NewRequestEntityTooLargeError(why).Status())
}

// refuse answers with a Status, whose message the API server passes on.
func refuse(w http.ResponseWriter, s metav1.Status) {
	s.Kind, s.APIVersion = "Status", "v1"
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Connection", "close") // the rest of the request is not read
	w.WriteHeader(int(s.Code))
	_ = json.NewEncoder(w).Encode(s) // the client may be gone
}

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

// allotment is the part of the budgets that one request has taken. Writing the
// request to it takes what it costs.
type allotment struct {
	server       *limitedServer
	small, large int64
	values       values
}

func (a *allotment) Write(p []byte) (int, error) {
	before := a.values.n
	a.values.count(p)
	if a.values.n > maxValues {
		return 0, errValues
	}
	cost := CostPerByte*int64(len(p)) + CostPerValue*int64(a.values.n-before)
	small := min(cost, ordinary-a.small)
	if !a.server.small.take(small) {
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
	a.server.small.used.Add(-a.small)
	a.server.large.used.Add(-a.large)
}

// values counts the values of JSON text that arrives in pieces: commas and
// opening brackets, of which there are at least as many, except for the first value.
type values struct {
	n                int
	quoted, escaping bool
}

func (v *values) count(text []byte) {
	for _, c := range text {
		switch {
		case v.escaping:
			v.escaping = false
		case v.quoted && c == '\\':
			v.escaping = true
		case c == '"':
			v.quoted = !v.quoted
		case v.quoted:
		case c == ',' || c == '{' || c == '[':
			v.n++
		}
	}
}
