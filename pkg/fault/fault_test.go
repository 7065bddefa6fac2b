package fault

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/testkit/messages"
)

var deployments = schema.GroupResource{Group: "apps", Resource: "deployments"}

func invalid(fields ...string) error {
	var errs field.ErrorList
	for _, f := range fields {
		errs = append(errs, &field.Error{Type: field.ErrorTypeInvalid, Field: f, BadValue: 30010, Detail: "provided port is already allocated"})
	}
	return apierrors.NewInvalid(schema.GroupKind{Kind: "Service"}, "web-service", errs)
}

func terminating() error {
	err := apierrors.NewForbidden(deployments, "web", errors.New("being terminated"))
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause, Field: "metadata.namespace"}}
	return err
}

// span is the range of a jittered time. The zero span is exactly 0.
type span struct{ from, to time.Duration }

var (
	never      span
	aProbe     = span{54 * time.Second, 66 * time.Second}
	aLostRace  = span{90 * time.Millisecond, 110 * time.Millisecond}
	fiveSecond = span{5 * time.Second, 5 * time.Second}
)

func TestClassify(t *testing.T) {
	type want struct {
		Class   Class
		Reason  string
		Message string // a part of the verdict's message
		Fails   bool
		after   span
	}
	quota := apierrors.NewForbidden(deployments, "web", errors.New(`exceeded quota: small, requested: count/deployments.apps=1, used: 1, limited: 1`))
	forbidden := apierrors.NewForbidden(deployments, "web", errors.New("denied by policy"))
	broken := errors.New("connection refused")

	for name, tc := range map[string]struct {
		err  error
		want want
	}{
		"nothing":              {nil, want{Class: None}},
		"waiting, with a time": {Waiting(5*time.Second, messages.New(common.ReasonWaiting, "for {what}"), "it"), want{Wait, common.ReasonWaiting, "for it", false, fiveSecond}},
		"waiting for an event": {Waiting(0, messages.New(common.ReasonWaiting, "for it")), want{Wait, common.ReasonWaiting, "for it", false, never}},
		"stalled":              {Stalled(messages.New(common.ReasonConflict, "is {owner}'s"), "Ann"), want{Stall, common.ReasonConflict, "is Ann's", false, aProbe}},
		"conflicts are all reported": {
			errors.Join(Stalled(messages.New(common.ReasonConflict, "a is taken.")), Stalled(messages.New("R", "r")), Stalled(messages.New(common.ReasonConflict, "b is taken.")), Stalled(messages.New(common.ReasonConflict, "a is taken."))),
			want{Stall, common.ReasonConflict, "a is taken. b is taken.", false, aProbe},
		},
		"wrapped keeps class": {fmt.Errorf("applying: %w", Stalled(messages.New(common.ReasonConflict, "taken"))), want{Stall, common.ReasonConflict, "taken", false, aProbe}},
		"wrapped join: the worst counts": {
			fmt.Errorf("observing: %w", errors.Join(apierrors.NewConflict(deployments, "web", nil), Waiting(0, messages.New(common.ReasonWaiting, "later")), fmt.Errorf("reading: %w", Stalled(messages.New("R", "taken"))))),
			want{Stall, "R", "taken", false, aLostRace},
		},
		"a join within an Error": {&Error{Class: Wait, Reason: "R", Message: "m", Err: errors.Join(broken, quota)}, want{Wait, "R", "m", false, never}},
		"own time wins":          {&Error{Class: Stall, Reason: "R", Message: "m", After: 5 * time.Second}, want{Stall, "R", "m", false, fiveSecond}},
		"a quiet Error":          {&Error{Class: Quiet, Err: broken}, want{Class: Quiet, after: aLostRace}},
		"cancelled":              {fmt.Errorf("get: %w", context.Canceled), want{Class: Quiet, after: aLostRace}},
		"conflict":               {apierrors.NewConflict(deployments, "web", errors.New("modified")), want{Class: Quiet, after: aLostRace}},
		"already exists":         {apierrors.NewAlreadyExists(deployments, "web"), want{Class: Quiet, after: aLostRace}},
		"another UID":            {invalid("metadata.uid"), want{Class: Quiet, after: aLostRace}},
		"namespace terminating":  {terminating(), want{Wait, common.ReasonWaiting, "namespace is being deleted", false, aProbe}},
		"no address":             {apierrors.NewInternalError(errors.New("failed to allocate a serviceIP: range is full")), want{Stall, common.ReasonAddressesExhausted, "no free address or node port for a Service: Internal error occurred: failed to allocate a serviceIP: range is full.", false, aProbe}},
		"quota":                  {quota, want{Stall, common.ReasonQuotaExceeded, "exceeded quota: small", false, aProbe}},
		"Pod Security": {
			apierrors.NewForbidden(deployments, "web", errors.New(`violates PodSecurity "restricted:latest": runAsNonRoot != true`)),
			want{Stall, common.ReasonAdmissionRefused, `runAsNonRoot != true. Set spec.security.profile to Restricted`, false, aProbe},
		},
		"RBAC": {
			apierrors.NewForbidden(deployments, "web", errors.New(`User "system:serviceaccount:o:o" cannot patch resource "deployments" in API group "apps" in the namespace "shop"`)),
			want{Stall, common.ReasonForbidden, `User "system:serviceaccount:o:o" cannot patch`, false, aProbe},
		},
		"forbidden": {forbidden, want{Stall, common.ReasonAdmissionRefused, "denied by policy", false, aProbe}},
		"ValidatingAdmissionPolicy": {
			deniedBy(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, `ValidatingAdmissionPolicy 'platform-operator-account' with binding 'platform-operator-account' denied request: the operator has no children in kube-system`),
			want{Stall, common.ReasonAdmissionRefused, "the operator has no children in kube-system", false, aProbe},
		},
		"webhook that answers 422": {
			deniedBy(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, `admission webhook "policy.example.com" denied the request: no`),
			want{Stall, common.ReasonAdmissionRefused, "denied the request: no", false, aProbe},
		},
		"webhook that answers 400": {
			deniedBy(http.StatusBadRequest, metav1.StatusReasonBadRequest, `admission webhook "policy.example.com" denied the request: no`),
			want{Stall, common.ReasonAdmissionRefused, "denied the request: no", false, aProbe},
		},
		"node port":          {invalid("spec.ports[0].nodePort"), want{Stall, common.ReasonNodePortUnavailable, "already allocated", false, aProbe}},
		"node port and more": {invalid("spec.ports[0].nodePort", "spec.type"), want{Stall, common.ReasonInvalid, "spec.type", false, aProbe}},
		"invalid":            {invalid("spec.type"), want{Stall, common.ReasonInvalid, "spec.type", false, aProbe}},
		"bad request":        {apierrors.NewBadRequest("unknown field"), want{Stall, common.ReasonInvalid, "unknown field", false, aProbe}},
		"deadline":           {context.DeadlineExceeded, want{Retry, common.ReasonError, "no answer", true, never}},
		"webhook that does not answer": {
			fmt.Errorf(`applying Deployment "web": %w`, apierrors.NewInternalError(errors.New(`failed calling webhook "policy.example.com": failed to call webhook: Post "https://policy.other.svc:443/?timeout=10s": read tcp 10.0.0.1:34567->10.96.0.9:443: connection reset by peer`))),
			want{Retry, common.ReasonWebhookFailed, `webhook of the cluster: applying Deployment "web": failed calling webhook "policy.example.com": failed to call webhook: Post "https://policy.other.svc:443/?timeout=10s": read tcp 10.96.0.9:443: connection reset by peer. The request is retried`, true, never},
		},
		"webhook whose certificate expired": {
			apierrors.NewInternalError(errors.New(`failed calling webhook "p": x509: certificate has expired or is not yet valid: current time 2026-11-27T17:52:00Z is after 2026-11-01T00:00:00Z`)),
			want{Retry, common.ReasonWebhookFailed, `failed calling webhook "p": x509: certificate has expired or is not yet valid. The request`, true, never},
		},
		"webhook that denies with 500": {
			deniedBy(http.StatusInternalServerError, metav1.StatusReasonInternalError, `admission webhook "policy.example.com" denied the request: at 2026/11/27 18:12:26 no`),
			want{Stall, common.ReasonAdmissionRefused, "denied the request: at  no", false, aProbe},
		},
		"server error":  {apierrors.NewInternalError(broken), want{Retry, common.ReasonError, "InternalError", true, never}},
		"anything else": {broken, want{Retry, common.ReasonError, "no answer", true, never}},

		"the worst of a join speaks": {errors.Join(Waiting(5*time.Second, messages.New(common.ReasonWaiting, "w")), Stalled(messages.New("S", "s"))), want{Stall, "S", "s", false, fiveSecond}},
		"in any order":               {errors.Join(Stalled(messages.New("S", "s")), Waiting(5*time.Second, messages.New(common.ReasonWaiting, "w"))), want{Stall, "S", "s", false, fiveSecond}},
		"the first of equals speaks": {errors.Join(Stalled(messages.New("A", "a")), Stalled(messages.New("B", "b"))), want{Stall, "A", "a", false, aProbe}},
		"a retry backs off though another waits": {
			errors.Join(Waiting(5*time.Second, messages.New(common.ReasonWaiting, "w")), broken), want{Retry, common.ReasonError, "no answer", true, never},
		},
		"a stall speaks though another retries": {errors.Join(broken, Stalled(messages.New("S", "s"))), want{Stall, "S", "s", true, never}},
		"joins of joins": {
			errors.Join(errors.Join(nil, Waiting(0, messages.New(common.ReasonWaiting, "w"))), errors.Join(Stalled(messages.New("S", "s")))), want{Stall, "S", "s", false, aProbe},
		},
		"a lost race together with a stall is retried soon": {
			errors.Join(apierrors.NewConflict(deployments, "web", broken), Stalled(messages.New("S", "s"))), want{Stall, "S", "s", false, aLostRace},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := Classify(tc.err)
			if got.Class != tc.want.Class || got.Reason != tc.want.Reason || !strings.Contains(got.Message, tc.want.Message) {
				t.Errorf("got class %d, reason %q, message %q, want %+v", got.Class, got.Reason, got.Message, tc.want)
			}
			if (got.Err != nil) != tc.want.Fails {
				t.Errorf("returned error is %v, want one: %v", got.Err, tc.want.Fails)
			}
			if a := got.Result.RequeueAfter; a < tc.want.after.from || a > tc.want.after.to {
				t.Errorf("comes back after %s, want within %s-%s", a, tc.want.after.from, tc.want.after.to)
			}
			if got.Err != nil && got.Result.RequeueAfter != 0 {
				t.Error("a time and an error together: controller-runtime ignores the time, and says so in the log")
			}
			if tc.err != nil && (got.Result.Priority == nil || *got.Result.Priority != 0) {
				t.Errorf("priority is %v; a retry must not keep the one of the event that led to it", got.Result.Priority)
			}
		})
	}
}

// deniedBy returns a refusal by a policy of the cluster. The API server composes it
// as Forbidden and then replaces reason and code by those of the policy; Invalid is
// the default of a ValidatingAdmissionPolicy.
func deniedBy(code int32, reason metav1.StatusReason, why string) error {
	err := apierrors.NewForbidden(deployments, "web", errors.New(why))
	err.ErrStatus.Code, err.ErrStatus.Reason = code, reason
	return err
}

// The spec is correct: another namespace, or the policy, has to change.
func TestClassify_AsksForNoCorrectionIfAPolicyDenies(t *testing.T) {
	v := Classify(deniedBy(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid,
		`ValidatingAdmissionPolicy 'a' with binding 'b' denied request: the operator has no children in kube-system`))
	if strings.Contains(v.Message, "Correct the spec") {
		t.Errorf("got %q", v.Message)
	}
}

func TestClassify_ReturnsOnlyRetriedErrors(t *testing.T) {
	broken := errors.New("connection refused")
	v := Classify(errors.Join(Stalled(messages.New("S", "s")), fmt.Errorf("applying: %w", broken)))
	if !errors.Is(v.Err, broken) || strings.Contains(v.Err.Error(), "s\n") {
		t.Errorf("got %v, want only the refused connection", v.Err)
	}
}

// A message that differs between reconciles would cause a status write in each
// of them.
func TestClassify_MessagesAreDeterministic(t *testing.T) {
	for name, make := range map[string]func() error{
		"server error": func() error {
			return apierrors.NewInternalError(fmt.Errorf("dial tcp: port %d", time.Now().Nanosecond()))
		},
		"webhook": func() error {
			return apierrors.NewInternalError(fmt.Errorf(`failed calling webhook "x": read tcp [::1]:%d->[::2]:443: EOF`, 10000+time.Now().Nanosecond()%10000))
		},
		"no answer": func() error { return fmt.Errorf("read tcp 10.0.0.1:%d", time.Now().Nanosecond()) },
		"node port": func() error { return invalid("spec.ports[0].nodePort") },
		"joined":    func() error { return errors.Join(invalid("a", "b"), terminating()) },
	} {
		t.Run(name, func(t *testing.T) {
			a, b := Classify(make()), Classify(make())
			if diff := cmp.Diff([]string{a.Reason, a.Message}, []string{b.Reason, b.Message}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestClassify_CutsLongMessagesBetweenCharacters(t *testing.T) {
	for _, offset := range []string{"", "x", "xx"} {
		v := Classify(apierrors.NewBadRequest(offset + strings.Repeat("€", 1000)))
		_, quoted, _ := strings.Cut(v.Message, ": ")
		quoted, remedy := strings.CutSuffix(quoted, " Correct the spec.")
		if len(quoted) > maxMessage || !utf8.ValidString(v.Message) || !strings.HasSuffix(quoted, "€…") || !remedy {
			t.Errorf("got %d bytes, valid %v, end %q", len(v.Message), utf8.ValidString(v.Message), v.Message[len(v.Message)-8:])
		}
	}
}

func TestError_ContainsMessageAndCause(t *testing.T) {
	cause := errors.New("cause")
	err := error(&Error{Message: "what", Err: cause})
	if err.Error() != "what: cause" || !errors.Is(err, cause) {
		t.Errorf("got %q", err)
	}
	if got := Waiting(0, messages.New(common.ReasonWaiting, "for {number}"), 1).Error(); got != "for 1" {
		t.Errorf("got %q", got)
	}
}

func TestOnlyCause(t *testing.T) {
	isA := func(f string) bool { return f == "a" }
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"all match":           {invalid("a", "a"), true},
		"wrapped":             {fmt.Errorf("applying: %w", invalid("a")), true},
		"one does not match":  {invalid("a", "b"), false},
		"no causes":           {invalid(), false},
		"no details":          {&apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonInvalid, Code: 422}}, false},
		"not a 422":           {apierrors.NewBadRequest("a"), false},
		"not an API error":    {errors.New("a"), false},
		"cause of a conflict": {apierrors.NewConflict(deployments, "a", errors.New("a")), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := OnlyCause(tc.err, isA); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestNodePort(t *testing.T) {
	for name, tc := range map[string]struct {
		fields []string
		want   bool
	}{
		"one":             {[]string{"spec.ports[0].nodePort"}, true},
		"two digits":      {[]string{"spec.ports[10].nodePort"}, true},
		"several":         {[]string{"spec.ports[0].nodePort", "spec.ports[1].nodePort"}, true},
		"with another":    {[]string{"spec.ports[0].nodePort", "spec.ports[0].port"}, false},
		"longer path":     {[]string{"spec.ports[0].nodePort.x"}, false},
		"health check":    {[]string{"spec.healthCheckNodePort"}, false},
		"nothing at all":  {nil, false},
		"somewhere above": {[]string{"x.spec.ports[0].nodePort"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := NodePort(invalid(tc.fields...)); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestClassifyLasting(t *testing.T) {
	conflict := apierrors.NewConflict(deployments, "web", errors.New("modified"))
	for name, tc := range map[string]struct {
		err    error
		class  Class
		reason string
		fails  bool
	}{
		"nothing":                {},
		"a conflict":             {conflict, Retry, common.ReasonError, true},
		"next to one that waits": {errors.Join(conflict, Waiting(time.Minute, messages.New(common.ReasonWaiting, "w"))), Retry, common.ReasonError, true},
		"next to a stall":        {errors.Join(Stalled(messages.New("S", "s")), conflict), Stall, "S", true},
		"a stall alone":          {Stalled(messages.New("S", "s")), Stall, "S", false},
	} {
		t.Run(name, func(t *testing.T) {
			v := ClassifyLasting(tc.err)
			if v.Class != tc.class || v.Reason != tc.reason || (v.Err != nil) != tc.fails || tc.fails && v.Result.RequeueAfter != 0 {
				t.Errorf("got %+v", v)
			}
		})
	}
}

func TestClassify_ReportsNoReasonForConflicts(t *testing.T) {
	if v := Classify(&Error{Class: Quiet, Reason: "R", Message: "m"}); v.Reason != "" || v.Message != "" {
		t.Errorf("got %q, %q", v.Reason, v.Message)
	}
}

func TestOfPods(t *testing.T) {
	for message, want := range map[string]bool{
		`pods "web-1" is forbidden: exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0`:                                             false,
		`pods "web-1" is forbidden: failed quota: q: must specify limits.cpu for: web`:                                                               false,
		`pods "web-1" is forbidden: maximum cpu usage per Container is 1, but limit is 2`:                                                            false,
		`pods "web-1" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true`:                                                  false,
		`pods "web-1" is forbidden: error looking up service account shop/web: serviceaccount "web" not found`:                                       false,
		`pods "web-1" is forbidden: status unknown for quota: q, resources: pods`:                                                                    false,
		`Internal error occurred: resource quota evaluation timed out`:                                                                               false,
		`Internal error occurred: failed calling webhook "namespace.sidecar-injector.istio.io": failed to call webhook: connect: connection refused`: false,
		`Pod "web-1" is invalid: spec.containers[0].image: Required value`:                                                                           true,
		`admission webhook "validate.kyverno.svc-fail" denied the request: tag latest is not allowed`:                                                true,
		`pods "web-1" is forbidden: ValidatingAdmissionPolicy 'images' with binding 'images' denied request: images come from registry.example.com`:  true,
	} {
		if got := OfPods(message); got != want {
			t.Errorf("%s: got %t, want %t", message, got, want)
		}
	}
}

func TestAdvice_NamesWhatRequestsLess(t *testing.T) {
	exceeded := func(requested string) string {
		return `services "web" is forbidden: exceeded quota: q, requested: ` + requested + `, used: ` + requested + `, limited: ` + requested
	}
	for cause, want := range map[string]string{
		exceeded("services.nodeports=1"):             "spec.service.type",
		exceeded("services=1,services.nodeports=1"):  "spec.service.type",
		exceeded("services.loadbalancers=1"):         "spec.service.type",
		exceeded("configmaps=1"):                     "spec.rollout.revisionHistoryLimit",
		exceeded("count/controllerrevisions.apps=1"): "spec.rollout.revisionHistoryLimit",
		exceeded("services=1"):                       "",
		exceeded("pods=1"):                           "",
	} {
		got := Classify(apierrors.NewForbidden(schema.GroupResource{}, "web", errors.New(cause))).Message
		if !strings.Contains(got, "Raise the quota") || strings.Contains(got, "Set ") != (want != "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want advice about %q", cause, got, want)
		}
	}
}
