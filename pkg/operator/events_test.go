package operator

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestExpectRefusedEvents(t *testing.T) {
	terminating := apierrors.NewForbidden(schema.GroupResource{Group: "events.k8s.io", Resource: "events"}, "e", errors.New("being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	const refused = "Server rejected event (will not retry!)"
	for name, tc := range map[string]struct {
		err     error
		message string
		level   int
		want    string // contained in the log line, "" for none
	}{
		"in a namespace that is being deleted":        {terminating, refused, 0, ""},
		"in a namespace that is being deleted, debug": {terminating, refused, 1, `"level"=1`},
		"for another reason":                          {errors.New("malformed"), refused, 0, `"error"="malformed"`},
		"something else":                              {terminating, "Writing failed", 0, "Writing failed"},
	} {
		t.Run(name, func(t *testing.T) {
			var lines []string
			l := expectRefusedEvents(funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{Verbosity: tc.level}))
			l.WithName("events").WithValues("a", "b").WithCallDepth(1).Error(tc.err, tc.message, "event", "e")
			got := strings.Join(lines, "\n")
			if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
				t.Errorf("logged %q, want %q", got, tc.want)
			}
		})
	}
}
