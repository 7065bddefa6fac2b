package operator

import (
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// expectRefusedEvents returns a logger that does not log the rejection of an
// event as an error if its namespace is being deleted: each deletion of a
// namespace causes some, and nothing can be done about them.
func expectRefusedEvents(l logr.Logger) logr.Logger { return l.WithSink(eventSink{l.GetSink()}) }

type eventSink struct{ logr.LogSink }

// Error logs such a rejection at level 1.
func (s eventSink) Error(err error, message string, keysAndValues ...any) {
	// The message is that of the broadcaster in k8s.io/client-go/tools/events.
	if !strings.HasPrefix(message, "Server rejected event") || !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		s.LogSink.Error(err, message, keysAndValues...)
		return
	}
	if s.Enabled(1) {
		s.Info(1, message, append(keysAndValues, "error", err.Error())...)
	}
}

// WithName keeps the filter.
func (s eventSink) WithName(name string) logr.LogSink { return eventSink{s.LogSink.WithName(name)} }

// WithValues keeps the filter.
func (s eventSink) WithValues(keysAndValues ...any) logr.LogSink {
	return eventSink{s.LogSink.WithValues(keysAndValues...)}
}

// WithCallDepth keeps the filter.
func (s eventSink) WithCallDepth(depth int) logr.LogSink {
	if c, ok := s.LogSink.(logr.CallDepthLogSink); ok {
		return eventSink{c.WithCallDepth(depth)}
	}
	return s
}
