package apply

import (
	"slices"
	"strings"
	"time"

	"github.com/platform-operator/platform-operator/pkg/apply/compare"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

// Something else may change a child again each time it has been restored, such as a
// HorizontalPodAutoscaler that a user created for a Deployment whose replicas the
// spec states. Neither side would ever stop. So a child that keeps changing is
// restored at a low rate, and the dispute is reported. What changes a child in the
// operator's own request, such as a mutating webhook, does the same again in the next
// one: such a child is not written again while it differs in the same way
// (docs/decisions/0042-disputes.md).
const (
	// promptRepairs is how many times in a row a child is restored at once. People who
	// change a child by hand stop earlier.
	promptRepairs = 5
	// disputeInterval is the time between two repairs of a disputed child.
	disputeInterval = time.Minute
	// disputeEnds is the time without a repair after which a child is no longer
	// disputed. It is a multiple of the interval of autoscalers, which is 15 s for
	// a HorizontalPodAutoscaler (--horizontal-pod-autoscaler-sync-period).
	disputeEnds = 2 * time.Minute
)

// repairs are consecutive repairs of a child, with less than disputeEnds between two.
type repairs struct {
	count  int
	last   time.Time
	fields string // that the last one restored
}

// recent returns the repairs, or none if the last one was long ago. r may be nil.
func (r *repairs) recent(now time.Time) repairs {
	if r == nil || now.Sub(r.last) >= disputeEnds {
		return repairs{}
	}
	return *r
}

// dispute returns an error to report if the child was repaired that often, and the last time
// less than the given duration ago.
func (t *attempt) dispute(often int, ago time.Duration) error {
	r := t.recall().repairs.recent(t.now())
	left := ago - t.now().Sub(r.last)
	if r.count < often || left <= 0 {
		return nil
	}
	return &fault.Error{Class: fault.Stall, Reason: msgDisputed.Reason(), Message: msgDisputed.With(r.fields, t.in), After: left}
}

// isAnswered reports whether a child differs from the intent exactly as it did in the
// answer of the last write of this intent.
func (t *attempt) isAnswered(differences []Difference) bool {
	last := t.recall().written
	return last.answer != "" && last.hash == t.hash && last.answer == compare.Fingerprint(differences)
}

// pathsOf returns the paths of differences as a list, with or without those of the
// operator's annotations.
func pathsOf(differences []Difference, annotations bool) string {
	var paths []string
	for _, d := range differences {
		if annotations || !strings.Contains(d.Path, naming.Domain+"/") {
			paths = append(paths, d.Path)
		}
	}
	return strings.Join(slices.Compact(paths), ", ")
}
