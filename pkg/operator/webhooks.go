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

// Everything that can connect to the webhook server can send requests to it, and
// decoding an object takes up to 25 times its size in memory. Without limits, a
// few large requests at a time exceed the memory limit of the operator, and
// objects cannot be created or changed until it has restarted.
const (
	// maxBody is the maximum size of a request: the new and the old object, each
	// of which etcd limits to 1.5 MiB, and what the API server adds.
	maxBody = 7 << 19
	// maxBytes is the maximum size of all requests at a time, and ordinary the
	// part of each that counts against maxOrdinary instead, so that a few large
	// requests do not hold up those of the usual size.
	maxBytes    = 2 * maxBody
	ordinary    = 64 << 10
	maxOrdinary = 4 << 20
	// maxReading is how long a request may take to arrive.
	maxReading = 5 * time.Second
)

// limitedServer is a webhook server that limits the sizes of requests.
type limitedServer struct {
	webhook.Server
	small, large budget
}

func newWebhookServer(o webhook.Options) webhook.Server {
	return &limitedServer{Server: webhook.NewServer(o), small: budget{limit: maxOrdinary}, large: budget{limit: maxBytes}}
}

// Register adds a hook behind the limits, which all hooks share.
func (s *limitedServer) Register(path string, hook http.Handler) {
	s.Server.Register(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, hook) }))
}

var errBusy = errors.New("busy")

func (s *limitedServer) serve(w http.ResponseWriter, r *http.Request, hook http.Handler) {
	if r.ContentLength > maxBody {
		tooLarge(w)
		return
	}
	taken := &allotment{server: s}
	defer taken.release()
	// A test server has no deadlines.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(maxReading))
	var body bytes.Buffer
	// The size counts only as it arrives: a client that announces a large request
	// and does not send it takes nothing.
	_, err := io.Copy(io.MultiWriter(taken, &body), io.LimitReader(r.Body, maxBody+1))
	switch {
	case errors.Is(err, errBusy):
		busy := apierrors.NewTooManyRequests("the admission webhook of the platform operator is processing too many large requests; try again in a second", 1)
		w.Header().Set("Retry-After", "1") // the API server tries again by itself
		refuse(w, busy.Status())
	case err != nil:
		refuse(w, apierrors.NewBadRequest("the request could not be read: "+err.Error()).Status())
	case body.Len() > maxBody:
		tooLarge(w)
	default:
		r.Body = io.NopCloser(&body)
		hook.ServeHTTP(w, r)
	}
}

func tooLarge(w http.ResponseWriter) {
	refuse(w, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf(
		"the object and its previous version must have at most %d KiB as JSON: move long values to a ConfigMap or a Secret", maxBody>>10)).Status())
}

// refuse answers with a Status, whose message the API server passes on.
func refuse(w http.ResponseWriter, s metav1.Status) {
	s.Kind, s.APIVersion = "Status", "v1"
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Connection", "close") // the rest of the request is not read
	w.WriteHeader(int(s.Code))
	_ = json.NewEncoder(w).Encode(s) // the client may be gone
}

// budget limits a number of bytes.
type budget struct {
	limit int64
	used  atomic.Int64
}

// take reports whether n bytes are left, and takes them.
func (b *budget) take(n int64) bool {
	if b.used.Add(n) <= b.limit {
		return true
	}
	b.used.Add(-n)
	return false
}

// allotment is the part of the budgets that one request has taken. Writing to it
// takes as many bytes.
type allotment struct {
	server       *limitedServer
	small, large int64
}

func (a *allotment) Write(p []byte) (int, error) {
	small := min(int64(len(p)), ordinary-a.small)
	if !a.server.small.take(small) {
		return 0, errBusy
	}
	a.small += small
	large := int64(len(p)) - small
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
