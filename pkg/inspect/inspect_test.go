package inspect

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/platform-operator/platform-operator/apis/common"
)

func TestFollow_ShowsOnlyDifferences(t *testing.T) {
	missing := errors.New("does not exist")
	type result struct {
		value string
		err   error
	}
	for name, tc := range map[string]struct {
		reads []result
		want  []string
		err   error
	}{
		"differences":            {[]result{{"a", nil}, {"a", nil}, {"b", nil}, {"b", nil}, {"a", nil}}, []string{"a", "b", "a"}, nil},
		"deleted":                {[]result{{"a", nil}, {"", missing}, {"", missing}, {"a", nil}}, []string{"a", "does not exist", "a"}, nil},
		"missing from the start": {[]result{{"", missing}}, nil, missing},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			changes := make(chan struct{}, len(tc.reads))
			for range tc.reads {
				changes <- struct{}{}
			}
			var got []string
			n := 0
			err := Follow(ctx, changes, func(context.Context) (string, error) {
				if n == len(tc.reads) {
					cancel()
					return "", ctx.Err()
				}
				n++
				return tc.reads[n-1].value, tc.reads[n-1].err
			}, func(s string) error { got = append(got, s); return nil }, func(err error) error { got = append(got, err.Error()); return nil })
			if !errors.Is(err, tc.err) {
				t.Errorf("error %v, want %v", err, tc.err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Informers retry without a word.
func TestOutage_IsReportedWhileTheAPIServerDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var down atomic.Bool
		changes := make(chan struct{}, 1)
		notes := outage(ctx, func(context.Context) error {
			if down.Load() {
				return errors.New("no route to host")
			}
			return nil
		}, func() { changes <- struct{}{} })
		if got := notes(); got != nil {
			t.Errorf("at the start: %q", got)
		}
		down.Store(true)
		<-changes
		if got := notes(); len(got) != 1 || !strings.Contains(got[0], "may be outdated: no route to host") {
			t.Errorf("during an outage: %q", got)
		}
		time.Sleep(10 * askEvery)
		if len(changes) > 0 {
			t.Error("the same outage is reported again")
		}
		down.Store(false)
		<-changes
		if got := notes(); got != nil {
			t.Errorf("after an outage: %q", got)
		}
	})
}

func TestPrinter_Report_Color(t *testing.T) {
	r := Report{Objects: []Object{{Reference: "webserver/a", State: StateStalled}, {Reference: "webserver/longer", State: StateReady}}}
	var plainText, colored strings.Builder
	for b, color := range map[*strings.Builder]bool{&plainText: false, &colored: true} {
		if err := (Printer{Now: time.Now(), Color: color}).Report(b, r, false); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(colored.String(), red+"Stalled"+plain) || !strings.Contains(colored.String(), green+"Ready"+plain) {
		t.Errorf("got %q", colored.String())
	}
	if diff := cmp.Diff(plainText.String(), strings.NewReplacer(red, "", green, "", plain, "").Replace(colored.String())); diff != "" {
		t.Errorf("colours change the columns (-plain +colored):\n%s", diff)
	}
}

// The condition quotes an excerpt of the log, and the remedy refers to the same
// container.
func TestProblemOf_QuotesTheLogAsTheConditionDoes(t *testing.T) {
	p := &corev1.Pod{Status: corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{{
		Name: "config-test",
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: 1, Reason: "Error", Message: "2026/11/27 18:12:26 [emerg] 1#1: unknown directive\nnginx: [emerg] unknown directive\n",
		}},
	}}}}
	p.Namespace, p.Name = "shop", "web-1"
	f := problemOf(p)
	if want := "container config-test: Error: the container exits with code 1: nginx: [emerg] unknown directive"; f.text() != want {
		t.Errorf("got %q, want %q", f.text(), want)
	}
	if !contains("The configuration is rejected: nginx: [emerg] unknown directive. Revision 1 is serving instead.", f.quote) {
		t.Errorf("the condition does not contain %q", f.quote)
	}
	// A container that was not restarted, as in a Job, has no previous one.
	for restarts, want := range []string{
		"See its log: kubectl -n shop logs web-1 -c config-test", "See its log: kubectl -n shop logs web-1 -c config-test --previous",
	} {
		p.Status.InitContainerStatuses[0].RestartCount = int32(restarts)
		if f := problemOf(p); f.remedy != want {
			t.Errorf("after %d restarts: got %q, want %q", restarts, f.remedy, want)
		}
	}
}

func TestObject_ReadinessCountsThePodsThatAreWanted(t *testing.T) {
	none := []metav1.Condition{{Type: common.ConditionAvailable, Status: metav1.ConditionFalse}}
	for want, o := range map[string]Object{
		"-":   {},
		"0/0": {State: StateReady, Conditions: none},
		"0/1": {State: StateProgressing, Conditions: none},
		"2/3": {Replicas: new(int32(3)), ReadyReplicas: new(int32(2))},
	} {
		if got := o.readiness(); got != want {
			t.Errorf("%+v: got %s, want %s", o, got, want)
		}
	}
}

func TestEscape(t *testing.T) {
	for text, want := range map[string]string{
		"a\033[2J\033[1;1Hall is well":         "a\ufffd[2J\ufffd[1;1Hall is well",
		"a\033]52;c;cm0gLXJmIH4=\a":            "a\ufffd]52;c;cm0gLXJmIH4=\ufffd",
		"a\u009b2J\rb\bc\x7f":                  "a\ufffd2J\ufffdb\ufffdc\ufffd",
		"\033\033[31m[2J":                      "\ufffd\033[31m[2J",
		"é\tö\n" + red + "Stalled" + plain:     "é\tö\n" + red + "Stalled" + plain,
		bold + "webserver/a" + plain + "\033c": bold + "webserver/a" + plain + "\ufffdc",
	} {
		if got := Escape(text); got != want {
			t.Errorf("%q is written as %q, want %q", text, got, want)
		}
	}
}

// On a terminal, texts are folded between words, and stay in their column.
func TestPrinter_FoldsLongTexts(t *testing.T) {
	o := Object{
		Namespace: "shop", Reference: "webserver/shop", State: StateStalled, Reason: "Conflict",
		Cause: `Service "shop" exists already and has no owner, so it is not changed. Delete it.`, Remedy: "See https://example.com/a-very-long-address-that-cannot-be-folded",
	}
	var out bytes.Buffer
	if err := (Printer{Width: 50}).Object(&out, o); err != nil {
		t.Fatal(err)
	}
	want := `webserver/shop in namespace shop: Stalled, Conflict
  Cause:   Service "shop" exists already and has
           no owner, so it is not changed. Delete
           it.
  Remedy:  See
           https://example.com/a-very-long-address-that-cannot-be-folded
  Age:     -, generation 0
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	out.Reset()
	if err := (Printer{Width: 40}).Report(&out, Report{Objects: []Object{o}}, false); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "\n  Service \"shop\" exists already and has\n  no owner, so it is not changed. Delete\n  it.\n") {
		t.Errorf("got\n%s", out.String())
	}
}
