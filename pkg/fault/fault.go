// Package fault classifies the errors of a reconcile, and decides in a single
// function how the controller reacts to them.
//
//	Wait    the cause will end without intervention; requeue without an error
//	Stall   a person has to intervene; requeue at a low rate, because no event
//	        reports some remedies (a raised quota, a deleted unowned object)
//	Quiet   a write lost a race; read again and continue without a report
//	Retry   any other error; retried with back-off
package fault

import (
	"context"
	"errors"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/message"
)

// Probe is how long after a Stall the object is reconciled again, because some
// remedies cause no event. It is jittered by up to 10 %, so that many stalled
// objects are not reconciled in the same second.
const Probe = 60 * time.Second

// quiet is the delay before a write that lost a race is retried: long enough
// for the cache to observe the competing write.
const quiet = 100 * time.Millisecond

// Class is the class of an error.
type Class int

// The classes, in ascending order of their importance to the user.
const (
	None Class = iota
	Quiet
	Wait
	Retry
	Stall
)

// Error is an error with a class. Its message is written into a condition, so
// it is deterministic: it contains no times, counters or generated names.
type Error struct {
	Class   Class
	Reason  string        // the reason of a condition
	Message string        // for the user (see pkg/message)
	After   time.Duration // when to reconcile again; 0 means the default of the class
	Err     error         // the cause, for the log; may be nil
	// Shared reports that the cause is outside of the object and concerns others in the
	// same way, in all namespaces.
	Shared bool
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

// Waiting returns an error of class Wait. The object is reconciled again after
// the given time, or on the next event.
func Waiting(after time.Duration, m *message.Message, values ...any) error {
	return &Error{Class: Wait, Reason: m.Reason(), Message: m.With(values...), After: after}
}

// Stalled returns an error of class Stall.
func Stalled(m *message.Message, values ...any) error {
	return &Error{Class: Stall, Reason: m.Reason(), Message: m.With(values...)}
}

// Verdict is the reaction to an error.
type Verdict struct {
	// Class is the most important class among the errors.
	Class Class
	// LostRace reports that one of the errors has class Quiet, whatever Class is.
	LostRace bool
	// Reason and Message are those of the most important error, for a condition.
	// They are empty if Class is None or Quiet.
	Reason, Message string
	// Shared is that of the most important error.
	Shared bool
	// Result is returned by the reconcile if Err is nil.
	Result reconcile.Result
	// Err is returned by the reconcile. A non-nil error requests a retry with
	// back-off.
	Err error
}

// Classify returns the reaction to err, which may be a join of several errors.
func Classify(err error) Verdict { return classify(err, false) }

// ClassifyLasting is Classify for errors of which those of class Quiet keep
// occurring. A write that is refused again and again did not just lose a race, so
// they have class Retry.
func ClassifyLasting(err error) Verdict { return classify(err, true) }

func classify(err error, lasting bool) Verdict {
	if err == nil {
		return Verdict{}
	}
	var v Verdict
	var soonest time.Duration
	for _, e := range leaves(err) {
		f := classifyOne(e)
		if f.Class == Quiet {
			if v.LostRace = true; lasting {
				f = &Error{Class: Retry, Reason: msgConflicts.Reason(), Message: msgConflicts.With()}
			}
		}
		switch {
		case f.Class > v.Class || v.Class == None:
			v.Class, v.Reason, v.Message, v.Shared = f.Class, f.Reason, f.Message, f.Shared
		case v.adds(f):
			v.Message = Clip(message.Join(v.Message, f.Message), maxMessage)
		}
		if f.Class == Retry {
			v.Err = errors.Join(v.Err, e)
		}
		if f.After > 0 && (soonest == 0 || f.After < soonest) {
			soonest = f.After
		}
	}
	// A retry must not keep the priority of the event that triggered it: failing
	// objects would overtake healthy ones.
	v.Result = reconcile.Result{RequeueAfter: soonest, Priority: new(0)}
	if v.Err != nil {
		v.Result = reconcile.Result{Priority: new(0)} // never both a time and an error: the back-off of the error decides
	}
	return v
}

// adds reports whether an error is reported in addition to the verdict: each conflict has to
// be resolved by another action of the user.
func (v Verdict) adds(f *Error) bool {
	return f.Class == v.Class && f.Reason == common.ReasonConflict && f.Reason == v.Reason && !strings.Contains(v.Message, f.Message)
}

// leaves splits joined errors, including wrapped ones, because each error of a
// join has a class of its own. An Error is not split, because it already has
// its class.
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
			f.Reason, f.Message = "", "" // not reported
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
			Class: Wait, Reason: msgNamespaceDeleted.Reason(), After: jitter(Probe),
			Message: msgNamespaceDeleted.With(),
		}
	case apierrors.IsForbidden(err), denied(err):
		return refused(forbidden(err), err)
	case strings.Contains(err.Error(), "range is full"): // the API server answers with InternalError
		f := refused(msgRangeFull, err)
		f.Shared = true
		return f
	case NodePort(err):
		return refused(msgNodePort, err)
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return refused(msgInvalid, err)
	case RefusalReason(err.Error()) == common.ReasonWebhookFailed:
		what := strings.Replace(err.Error(), "Internal error occurred: ", "", 1)
		return &Error{Class: Retry, Reason: msgWebhook.Reason(), Message: msgWebhook.Quoting(Clip(stable(what), maxMessage))}
	}
	reason := string(apierrors.ReasonForError(err))
	if reason == "" {
		reason = "no answer"
	}
	return &Error{
		Class: Retry, Reason: msgRefused.Reason(), Message: msgRefused.With(reason),
	}
}

// denied reports whether an admission policy or a webhook of the cluster refuses the
// request. They choose the reason of the refusal; that of a
// ValidatingAdmissionPolicy is Invalid unless it sets one, although the child is
// valid and no change of the spec may help.
func denied(err error) bool {
	var s apierrors.APIStatus
	return errors.As(err, &s) && denial.MatchString(s.Status().Message)
}

var denial = regexp.MustCompile(`ValidatingAdmissionPolicy '[^']+' with binding '[^']+' denied request|admission webhook "[^"]+" denied the request`)

// refused returns a Stall that quotes the API server.
func refused(m *message.Message, err error) *Error {
	return &Error{Class: Stall, Reason: m.Reason(), After: jitter(Probe), Message: message.Join(m.Quoting(answer(err)), Advice(err.Error()))}
}

// forbidden returns the message about a request that is not allowed.
func forbidden(err error) *message.Message {
	switch RefusalReason(err.Error()) {
	case common.ReasonQuotaExceeded:
		return msgQuota
	case common.ReasonAdmissionRefused:
		return msgAdmission
	}
	return msgForbidden
}

// RefusalReason returns the reason of a condition that a refusal of the API server has by
// its message, or "".
func RefusalReason(message string) string {
	for _, r := range refusals {
		if r.text.MatchString(message) {
			return r.reason
		}
	}
	return ""
}

// refusals are the texts of k8s.io/apiserver 1.36 (pkg/admission, pkg/endpoints/handlers)
// and of the quota controller, the more specific ones first.
var refusals = []struct {
	text   *regexp.Regexp
	reason string
}{
	{regexp.MustCompile(`failed calling webhook "`), common.ReasonWebhookFailed},
	{regexp.MustCompile(`(?:exceeded|failed|unknown for) quota: `), common.ReasonQuotaExceeded},
	{regexp.MustCompile(` denied (?:the )?request`), common.ReasonAdmissionRefused},
	{regexp.MustCompile(` is forbidden: [Uu]ser "`), common.ReasonForbidden},
	{regexp.MustCompile(` is forbidden: `), common.ReasonAdmissionRefused},
}

// OfPods reports whether the API server refuses pods because of what they are: they are
// invalid, or an admission webhook or policy denies them. Every other refusal comes from the
// surroundings, such as a quota, a webhook that does not answer or a missing ServiceAccount.
// It would meet other pods too, and can end without any change to them.
func OfPods(message string) bool {
	return slices.ContainsFunc([]string{" is invalid: ", " denied the request", " denied request: "}, func(text string) bool {
		return strings.Contains(message, text)
	})
}

// Advice returns what to do about a refusal whose message names only the cause. It is a
// sentence, or "" if there is no advice.
func Advice(message string) string {
	for _, a := range advice {
		if a.cause.MatchString(message) {
			return a.remedy.With()
		}
	}
	return ""
}

var advice = []struct {
	cause  *regexp.Regexp
	remedy *message.Message
}{
	{regexp.MustCompile(`violates PodSecurity`), msgPodSecurity},
	{regexp.MustCompile(`exceeded quota: .*requested: \S*services\.(nodeports|loadbalancers)=`), msgServiceQuota},
	{regexp.MustCompile(`exceeded quota: .*requested: \S*(configmaps|controllerrevisions\.apps)=`), msgHistoryQuota},
}

// maxMessage is the maximum length of a message in bytes, which keeps it
// readable. A condition can hold 32 KiB.
const maxMessage = 1024

// answer returns the API server's message, which names the object and the
// field, clipped to maxMessage.
func answer(err error) string {
	m := err.Error()
	var s apierrors.APIStatus
	if errors.As(err, &s) {
		if st := s.Status(); st.Message != "" {
			m = st.Message
		}
	}
	return Clip(stable(m), maxMessage)
}

// stable removes from a message what differs between two attempts: times, and the local
// addresses of connections.
func stable(message string) string { return unstable.ReplaceAllString(message, "") }

var unstable = regexp.MustCompile(`(: current time \S+ is (before|after) )?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[-+]\d\d:\d\d)?|(\d+(\.\d+){3}|\[[0-9a-f:]+\]):\d+->`)

// Clip shortens a text to at most the given number of bytes, without splitting
// a character.
func Clip(text string, most int) string {
	const cut = "…"
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len(cut)], "") + cut
}

// NodePort reports whether err is a 422 whose only causes are node ports that
// are allocated already or outside the cluster's range.
func NodePort(err error) bool { return OnlyCause(err, nodePortField.MatchString) }

var nodePortField = regexp.MustCompile(`^spec\.ports\[\d+\]\.nodePort$`)

// OnlyCause reports whether err is a 422 all of whose causes are about fields
// that match accepts. It returns false if there is no cause.
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
