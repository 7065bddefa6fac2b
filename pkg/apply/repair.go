package apply

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/hash"
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

// postponesRepair returns the dispute if a child that differs is to be restored later,
// and nil if it is to be restored now.
func (t *attempt) postponesRepair() error {
	r := t.recall(t.owner, t.in).repairs.recent(t.now())
	left := disputeInterval - t.now().Sub(r.last)
	if t.drift != DriftFields || r.count < promptRepairs || left <= 0 {
		return nil
	}
	return disputed(t.in, r, left)
}

// ongoingDispute returns the dispute about a child that matches the intent now, or
// nil. It has been changed again after all prompt repairs.
func (a *Applier) ongoingDispute(owner Owner, in Intent) error {
	r := a.recall(owner, in).repairs.recent(a.now())
	if r.count <= promptRepairs {
		return nil
	}
	return disputed(in, r, disputeEnds-a.now().Sub(r.last))
}

func disputed(in Intent, r repairs, after time.Duration) error {
	return &fault.Error{Class: fault.Stall, Reason: msgDisputed.Reason(), Message: msgDisputed.With(r.fields, in), After: after}
}

// isAnswered reports whether a child differs from the intent exactly as it did in the
// answer of the last write of this intent.
func (t *attempt) isAnswered(how string) bool {
	return how != "" && how == t.recall(t.owner, t.in).written.answer
}

// differences returns the fields of a live child that an apply would restore, in order,
// and a hash of how they differ, which is "" if none does.
func (t *attempt) differences(live client.Object) (fields []string, how string) {
	var found []string
	w := t.compare.walk(t.in.Exclusive)
	w.report = func(path, verb string, live reflect.Value) {
		fields = append(fields, path)
		found = append(found, fmt.Sprintf("%s would %s: %s", path, verb, encode(live)))
	}
	w.reportExtra = func(path string, live reflect.Value) {
		fields = append(fields, path)
		found = append(found, fmt.Sprintf("%s has more: %s", path, encode(live)))
	}
	w.root(live, t.fields)
	if len(found) == 0 {
		return nil, ""
	}
	slices.Sort(fields)
	slices.Sort(found)
	return slices.Compact(fields), hash.Bytes(t.hash, []byte(strings.Join(found, "\n")))
}

func encode(v reflect.Value) []byte {
	if !v.IsValid() {
		return nil
	}
	raw, err := json.Marshal(v.Interface())
	if err != nil {
		return []byte(err.Error()) // the values of API types can be encoded
	}
	return raw
}
