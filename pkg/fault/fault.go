// Package fault gives every error of a reconcile one of a few classes and
// decides, in one function, what follows from it.
//
//	Wait    something will change by itself; come back later, no error
//	Stall   only a person can help; come back slowly, because no event comes
//	        for what we cannot see (a quota raised, a foreign object deleted)
//	Quiet   a write lost a race; read again and go on, nobody needs to know
//	Retry   anything else; retried with back-off
package fault

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/platform-operator/platform-operator/apis/common"
)

// Probe is how long after a Stall the operator looks again, because no event
// comes for what it cannot see. It is jittered by a tenth, so that many stalled
// objects do not come back in the same second.
const Probe = 60 * time.Second

// quiet is how long after a lost race the next attempt comes: long enough for
// the cache to have seen the winner.
const quiet = 100 * time.Millisecond

// Class is what kind of error it is.
type Class int

// The classes, from the least to the most that a person must know.
const (
	None Class = iota
	Quiet
	Wait
	Retry
	Stall
)

// Error is an error that says its class. Its message is for a condition: it
// is deterministic, without times, counters and generated names.
type Error struct {
	Class   Class
	Reason  string        // a reason of a condition
	Message string        // one sentence for the user
	After   time.Duration // when to look again; 0 means the class's own time
	Err     error         // the cause, for the log; may be nil
}

// Error returns the message and the cause.
func (e *Error) Error() string {
	if e.Err == nil {
		return e.Message
	}
	return e.Message + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Waiting returns an error of class Wait: come back after that time, or on the
// next event.
func Waiting(after time.Duration, format string, args ...any) error {
	return &Error{Class: Wait, Reason: common.ReasonWaiting, Message: fmt.Sprintf(format, args...), After: after}
}

// Stalled returns an error of class Stall.
func Stalled(reason, format string, args ...any) error {
	return &Error{Class: Stall, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// Verdict is what follows from an error.
type Verdict struct {
	// Class is the worst class among the errors.
	Class Class
	// Reason and Message belong to the worst error and are fit for a
	// condition. Empty when Class is None or Quiet.
	Reason, Message string
	// Result is what the reconcile returns when Err is nil.
	Result reconcile.Result
	// Err is what the reconcile returns: non-nil asks for back-off.
	Err error
}

// Classify decides what follows from err, which may be a join of several.
func Classify(err error) Verdict {
	if err == nil {
		return Verdict{}
	}
	var v Verdict
	var soonest time.Duration
	for _, e := range leaves(err) {
		f := classifyOne(e)
		if f.Class > v.Class || v.Class == None {
			v.Class, v.Reason, v.Message = f.Class, f.Reason, f.Message
		}
		if f.Class == Retry {
			v.Err = errors.Join(v.Err, e)
		}
		if f.After > 0 && (soonest == 0 || f.After < soonest) {
			soonest = f.After
		}
	}
	// A retry must not keep the priority of the event that led to it: an
	// object in trouble would overtake everybody who is not.
	v.Result = reconcile.Result{RequeueAfter: soonest, Priority: new(0)}
	if v.Err != nil {
		v.Result = reconcile.Result{Priority: new(0)} // never a time and an error together: the error's back-off decides
	}
	return v
}

// Lasting decides what follows from an error of class Quiet that occurs again and
// again: a write that keeps losing its race is not losing a race.
func Lasting(err error) Verdict {
	return Verdict{
		Class: Retry, Reason: common.ReasonError, Err: err, Result: reconcile.Result{Priority: new(0)},
		Message: "The API server keeps refusing a write as a conflict with another one. It is retried; the operator's log has the details.",
	}
}

// leaves takes joins apart, also those that are wrapped: each error of a join
// has a class of its own. An Error stays whole, because it has its class.
func leaves(err error) []error {
	for inner := err; inner != nil; {
		if _, ok := inner.(*Error); ok { //nolint:errorlint // the errors inside are visited one by one
			break
		}
		switch w := inner.(type) { //nolint:errorlint // as above
		case interface{ Unwrap() []error }:
			var all []error
			for _, e := range w.Unwrap() {
				all = append(all, leaves(e)...)
			}
			return all
		case interface{ Unwrap() error }:
			inner = w.Unwrap()
		default:
			inner = nil
		}
	}
	return []error{err}
}

func classifyOne(err error) *Error {
	if own, ok := errors.AsType[*Error](err); ok {
		f := *own
		if f.Class == Quiet {
			f.Reason, f.Message = "", "" // nobody needs to know
		}
		switch {
		case f.After > 0:
		case f.Class == Stall:
			f.After = jitter(Probe)
		case f.Class == Quiet:
			f.After = jitter(quiet)
		}
		return &f
	}
	switch {
	case errors.Is(err, context.Canceled):
		return &Error{Class: Quiet, After: jitter(quiet)}
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err),
		// a write fenced by UID met another object of that name
		OnlyCause(err, func(field string) bool { return field == "metadata.uid" }):
		return &Error{Class: Quiet, After: jitter(quiet)}
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return &Error{
			Class: Wait, Reason: common.ReasonWaiting, After: jitter(Probe),
			Message: "the namespace is being deleted",
		}
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota"):
		return &Error{Class: Stall, Reason: common.ReasonQuotaExceeded, After: jitter(Probe), Message: message(err)}
	case apierrors.IsForbidden(err):
		return &Error{Class: Stall, Reason: common.ReasonForbidden, After: jitter(Probe), Message: message(err) + Advice(err.Error())}
	case NodePort(err):
		return &Error{Class: Stall, Reason: common.ReasonNodePortUnavailable, After: jitter(Probe), Message: message(err)}
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return &Error{Class: Stall, Reason: common.ReasonInvalid, After: jitter(Probe), Message: message(err)}
	}
	reason := string(apierrors.ReasonForError(err))
	if reason == "" {
		reason = "no answer"
	}
	return &Error{
		Class: Retry, Reason: common.ReasonError,
		Message: fmt.Sprintf("the API server refused a request (%s); it is retried", reason),
	}
}

// OfNamespace tells whether pods are refused for what their namespace enforces:
// a quota, a LimitRange, a Pod Security Standard. That ends without any change
// of what is refused.
func OfNamespace(message string) bool {
	return strings.Contains(message, "exceeded quota") || strings.Contains(message, podSecurity) || limitRange.MatchString(message)
}

// Advice is what to do about a refusal of pods that says only what is wrong: an
// end of a sentence, "" for none.
func Advice(message string) string {
	if !strings.Contains(message, podSecurity) {
		return ""
	}
	return "; set spec.security.profile to Restricted, or let the namespace enforce less by its label pod-security.kubernetes.io/enforce"
}

const podSecurity = "violates PodSecurity"

var limitRange = regexp.MustCompile(`(minimum|maximum) \S+ usage per \S+ is|max limit to request ratio per \S+ is`)

// maxMessage keeps a message within what a person reads and what a condition holds (32 KiB).
const maxMessage = 1024

// message is the server's own sentence, which names the object and the field.
func message(err error) string {
	m := err.Error()
	var s apierrors.APIStatus
	if errors.As(err, &s) {
		if st := s.Status(); st.Message != "" {
			m = st.Message
		}
	}
	return Clip(m, maxMessage)
}

// Clip shortens a text to a number of bytes, between characters.
func Clip(text string, most int) string {
	const cut = "…"
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len(cut)], "") + cut
}

// NodePort tells whether err is a 422 about nothing but node ports: taken, or
// outside the cluster's range.
func NodePort(err error) bool { return OnlyCause(err, nodePortField.MatchString) }

var nodePortField = regexp.MustCompile(`^spec\.ports\[\d+\]\.nodePort$`)

// OnlyCause tells whether err is a 422 all of whose causes are about a field
// that match accepts. It is false when there is no cause at all.
func OnlyCause(err error, match func(field string) bool) bool {
	var s apierrors.APIStatus
	if !errors.As(err, &s) || !apierrors.IsInvalid(err) {
		return false
	}
	var causes []metav1.StatusCause
	if d := s.Status().Details; d != nil {
		causes = d.Causes
	}
	for _, c := range causes {
		if !match(c.Field) {
			return false
		}
	}
	return len(causes) > 0
}

func jitter(d time.Duration) time.Duration {
	return d - d/10 + rand.N(d/5) //nolint:gosec // it spreads load and guards no secret
}
