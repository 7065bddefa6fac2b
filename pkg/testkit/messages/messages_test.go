package messages

import (
	"strings"
	"testing"

	"github.com/platform-operator/platform-operator/pkg/message"
)

func TestCheck(t *testing.T) {
	message.Define(message.Message{In: message.Waits, Reasons: []string{"Progressing"}, Text: "It waits for {number} pods."})
	message.Define(message.Message{In: []string{message.LastActions}, Reasons: []string{"Crash"}, Kinds: []string{"WebServer"}, Text: "It crashes.", Quote: "log"})
	message.Define(message.Message{In: message.Stalls, Reasons: []string{"Failed"}, Text: "Change the spec."})
	for text, tc := range map[string]struct {
		kind, place, status, reason, want string
	}{
		"It waits for 3 pods.":                     {"WebServer", "Ready", "False", "Progressing", ""},
		"It waits for 3 pods":                      {"WebServer", "Ready", "False", "Progressing", "not a defined message"},
		"It waits for 4 pods.":                     {"WebServer", "Ready", "False", "Failed", "no defined message has this place"},
		"It waits for 5 pods.":                     {"WebServer", "Stalled", "True", "Progressing", "no defined message has this place"},
		"It waits for 6 pods. It crashes.":         {"WebServer", "Reconciling", "True", "Progressing", ""},
		"It crashes: a.\nb. Change the spec.":      {"WebServer", message.LastActions, "", "Crash", ""},
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
