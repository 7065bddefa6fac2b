package message

import (
	"strings"
	"testing"
)

func TestMessage_WithReplacesPlaceholdersInOrder(t *testing.T) {
	m := New("R", `{child} belongs to {kind} "{name}".`)
	if got, want := m.With("Service {x}", "Web", 1), `Service {x} belongs to Web "1".`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if m.Placeholders() != 3 || m.Reason() != "R" {
		t.Errorf("got %d placeholders, reason %q", m.Placeholders(), m.Reason())
	}
	if got := m.With("Service"); !strings.Contains(got, "{kind}") {
		t.Errorf("got %q, want the placeholder of a missing value", got)
	}
}

func TestJoin(t *testing.T) {
	for want, parts := range map[string][]string{
		"":                        {"", ""},
		"It waits.":               {"", "It waits"},
		"It waits. For what?":     {"It waits.", "For what?"},
		"It waits: a…. Retry it.": {"It waits: a….", "Retry it"},
		"It waits: a… Retry it.":  {"It waits: a…", "Retry it"},
	} {
		if got := Join(parts...); got != want {
			t.Errorf("Join(%q): got %q, want %q", parts, got, want)
		}
	}
}

func TestQuote(t *testing.T) {
	for _, tc := range []struct{ sentence, text, want string }{
		{"It fails.", "", "It fails."},
		{"It fails.", "no such file", "It fails: no such file."},
		{"It fails.", "no such file.\n", "It fails: no such file."},
		{"It fails.", "a\nb", "It fails: a\nb."},
	} {
		if got := Quote(tc.sentence, tc.text); got != tc.want {
			t.Errorf("Quote(%q, %q): got %q, want %q", tc.sentence, tc.text, got, tc.want)
		}
	}
}

func TestCheck(t *testing.T) {
	old := defined
	t.Cleanup(func() { defined = old })
	defined = nil
	Define(Message{In: Waits, Reasons: []string{"Progressing"}, Text: "It waits for {number} pods."})
	Define(Message{In: []string{LastActions}, Reasons: []string{"Crash"}, Kinds: []string{"WebServer"}, Text: "It crashes.", Quote: "log"})
	Define(Message{In: Stalls, Reasons: []string{"Failed"}, Text: "Change the spec."})
	for text, tc := range map[string]struct {
		kind, place, status, reason, want string
	}{
		"It waits for 3 pods.":                     {"WebServer", "Ready", "False", "Progressing", ""},
		"It waits for 3 pods":                      {"WebServer", "Ready", "False", "Progressing", "not a defined message"},
		"It waits for 4 pods.":                     {"WebServer", "Ready", "False", "Failed", "no defined message has this place"},
		"It waits for 5 pods.":                     {"WebServer", "Stalled", "True", "Progressing", "no defined message has this place"},
		"It waits for 6 pods. It crashes.":         {"WebServer", "Reconciling", "True", "Progressing", ""},
		"It crashes: a.\nb. Change the spec.":      {"WebServer", LastActions, "", "Crash", ""},
		"It crashes. Change the spec.":             {"WebServer", "Ready", "Unknown", "Failed", ""},
		"It crashes: by itself. Change the spec..": {"Memcached", "Ready", "False", "Failed", "not one of this kind"},
		"It waits for 7 pods. Somehow.":            {"WebServer", "Ready", "False", "Progressing", `"Somehow."`},
	} {
		err := Check([]string{tc.kind, "Web"}, tc.place, tc.status, tc.reason, text)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%q: got %v, want %q", text, err, tc.want)
		}
	}
}
