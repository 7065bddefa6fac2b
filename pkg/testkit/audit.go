package testkit

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const markerUser = "audit-marker"

// Request is a request of the operator as recorded in the audit log of the API
// server.
type Request struct {
	Verb      string
	Resource  string // including the subresource: "webservers/status"
	Namespace string
	Name      string
	Code      int
	Body      json.RawMessage // of writes
}

// String returns the request as one line of a list.
func (r Request) String() string {
	return fmt.Sprintf("%s %s %s/%s → %d", r.Verb, r.Resource, r.Namespace, r.Name, r.Code)
}

// IsWrite reports whether the request may have changed something.
func (r Request) IsWrite() bool { return r.Verb != "get" && r.Verb != "list" && r.Verb != "watch" }

// version returns the resource version that is a precondition of a write, or "".
func (r Request) version() string {
	var body metav1.PartialObjectMetadata
	if json.Unmarshal(r.Body, &body) != nil {
		return "" // there is no body, or it is a JSON patch
	}
	return body.ResourceVersion
}

// Succeeded reports whether the server executed the request.
func (r Request) Succeeded() bool { return r.Code < 300 }

// Audit reads the audit log of the API server, which records what the operator
// really requested.
type Audit struct {
	path   string
	marker client.Client
	count  atomic.Int64

	mu      sync.Mutex // guards the fields below, which cache the part of the log that was read
	offset  int64
	read    map[string][]Request // by namespace, without events
	events  map[string]int       // requests for events, by namespace
	markers map[string]bool
	refused map[string]bool // requests that the admission policy refused, and why
}

// newAudit returns an Audit of the requests that the server logs from now on. The
// log of a shared server already contains the requests of other packages' tests.
func newAudit(path string, marker client.Client) (*Audit, error) {
	a := &Audit{path: path, marker: marker, read: map[string][]Request{}, events: map[string]int{}, markers: map[string]bool{}, refused: map[string]bool{}}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("opening the audit log: %w", err)
	}
	a.offset = info.Size()
	return a, nil
}

// Requests returns the operator's requests in a namespace so far, oldest first,
// without watches, Leases and Events.
func (a *Audit) Requests(ctx context.Context, namespace string) ([]Request, error) {
	// The server logs a request after it has responded. A request that is sent now
	// is logged after all requests that were answered before.
	name := fmt.Sprintf("marker-%d-%d", os.Getpid(), a.count.Add(1))
	_ = a.marker.Get(ctx, client.ObjectKey{Namespace: "default", Name: name}, &corev1.ConfigMap{})
	var found []Request
	err := Eventually(ctx, "the audit log", func(context.Context) (bool, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if err := a.advance(); err != nil {
			return false, err
		}
		found = slices.Clone(a.read[namespace])
		return a.markers[name], nil
	})
	return found, err
}

// Events returns the number of requests for events in a namespace, as of the last
// call of Requests.
func (a *Audit) Events(namespace string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.events[namespace]
}

// advance reads what was logged since the last call. The log of a campaign is long,
// and many runs wait for it at the same time, so no part of it is read twice.
func (a *Audit) advance() error {
	f, err := os.Open(a.path)
	if err != nil {
		return fmt.Errorf("opening the audit log: %w", err)
	}
	defer func() { _ = f.Close() }()
	if _, err := f.Seek(a.offset, io.SeekStart); err != nil {
		return fmt.Errorf("reading the audit log: %w", err)
	}
	log := bufio.NewReader(f)
	for {
		line, err := log.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil // what follows the last newline is incomplete
		}
		if err != nil {
			return fmt.Errorf("reading the audit log: %w", err)
		}
		a.offset += int64(len(line))
		if err := a.take(line); err != nil {
			return err
		}
	}
}

func (a *Audit) take(line []byte) error {
	var e struct {
		Verb      string `json:"verb"`
		User      struct{ Username string }
		ObjectRef struct{ Resource, Subresource, Namespace, Name string }
		Response  struct {
			Code    int
			Message string
		} `json:"responseStatus"`
		Body json.RawMessage `json:"requestObject"`
	}
	if err := json.Unmarshal(line, &e); err != nil {
		return fmt.Errorf("reading a line of the audit log: %w", err)
	}
	switch e.User.Username {
	case markerUser:
		a.markers[e.ObjectRef.Name] = true
	case OperatorUser:
		r := Request{Verb: e.Verb, Resource: e.ObjectRef.Resource, Namespace: e.ObjectRef.Namespace, Name: e.ObjectRef.Name, Code: e.Response.Code, Body: e.Body}
		if e.ObjectRef.Subresource != "" {
			r.Resource += "/" + e.ObjectRef.Subresource
		}
		if r.Resource == "events" {
			a.events[r.Namespace]++
		} else {
			a.read[r.Namespace] = append(a.read[r.Namespace], r)
		}
		if strings.Contains(e.Response.Message, "ValidatingAdmissionPolicy '"+accountPolicy+"'") {
			a.refused[r.String()+": "+e.Response.Message] = true
		}
	}
	return nil
}

// Refused returns an error if the policy that confines the operator's account has
// refused a request so far. The operator must send none, and a test may not notice one
// that is sent again with another content.
func (a *Audit) Refused(ctx context.Context) error {
	if _, err := a.Requests(ctx, ""); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.refused) == 0 {
		return nil
	}
	all := slices.Sorted(maps.Keys(a.refused))
	return fmt.Errorf("requests of the operator that its admission policy refused:\n%s", strings.Join(all, "\n"))
}

// Lines returns the requests as text, one per line, for failure messages.
func Lines(rs []Request) string {
	var b strings.Builder
	for _, r := range rs {
		fmt.Fprintln(&b, r)
	}
	return b.String()
}

// Quiet returns the same as Requests, once the operator has sent none for that
// long.
func (a *Audit) Quiet(ctx context.Context, namespace string, long time.Duration) ([]Request, error) {
	before := -1
	var rs []Request
	err := Eventually(ctx, "the operator to be quiet", func(ctx context.Context) (bool, error) {
		var err error
		if rs, err = a.Requests(ctx, namespace); err != nil || len(rs) == before {
			return err == nil, err
		}
		before = len(rs)
		select {
		case <-ctx.Done():
		case <-time.After(long): // absence of requests can only be observed over time
		}
		return false, nil
	})
	return rs, err
}
