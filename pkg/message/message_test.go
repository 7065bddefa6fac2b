package message

import (
	"strings"
	"testing"
)

func TestMessage_WithReplacesPlaceholdersInOrder(t *testing.T) {
	m := &Message{Reasons: []string{"R"}, Text: `{child} belongs to {kind} "{name}".`}
	if got, want := m.With("Service {x}", "Web", 1), `Service {x} belongs to Web "1".`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if m.Reason() != "R" {
		t.Errorf("got reason %q", m.Reason())
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
