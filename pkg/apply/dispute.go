package apply

import (
	"reflect"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/pkg/fault"
)

// Another client may change a child again each time it has been restored, such as a
// HorizontalPodAutoscaler that a user created for a Deployment whose replicas the
// spec states. Neither side would ever stop. So fields that keep changing are
// restored at a low rate, and the dispute is reported
// (docs/decisions/0042-disputes.md).
const (
	// promptRepairs is how many times in a row the same fields are restored at
	// once. People who change a child by hand stop earlier.
	promptRepairs = 5
	// disputeInterval is the time between two repairs of disputed fields.
	disputeInterval = time.Minute
	// disputeEnds is the time without a repair after which fields are no longer
	// disputed. It is a multiple of the interval of autoscalers, which is 15 s for
	// a HorizontalPodAutoscaler (--horizontal-pod-autoscaler-sync-period).
	disputeEnds = 2 * time.Minute
)

// dispute remembers the repairs of a child.
type dispute struct {
	fields  string // that were restored
	repairs int    // consecutive ones of these fields
	last    time.Time
}

// isOngoing reports whether another client has changed the fields again after all
// prompt repairs.
func (d dispute) isOngoing() bool { return d.repairs > promptRepairs }

// differing returns the fields of a child that an apply would restore, in order.
func (t *attempt) differing(live client.Object, bound bool) string {
	var fields []string
	w := t.compare.walk(t.in.Exclusive)
	w.report = func(path, _ string, _ reflect.Value) { fields = append(fields, path) }
	w.reportExtra = func(path string, _ reflect.Value) { fields = append(fields, path) }
	w.root(live, t.fields)
	if bound {
		fields = append(fields, "metadata.ownerReferences")
	}
	slices.Sort(fields)
	return strings.Join(slices.Compact(fields), ", ")
}

// postponesRepair returns the dispute if the fields that differ are to be restored
// later, and nil if they are to be restored now.
func (t *attempt) postponesRepair() error {
	if t.drift != DriftFields {
		return nil
	}
	d := t.disputeOf(t.owner, t.in)
	if d.repairs < promptRepairs || d.fields != t.differs {
		return nil
	}
	if left := disputeInterval - t.now().Sub(d.last); left > 0 {
		return disputed(t.in, d, left)
	}
	return nil
}

// repaired records that fields were restored. The caller holds mu.
func (m *memory) repaired(child childKey, fields string, now time.Time) {
	d := m.disputes[child]
	if d.fields != fields || now.Sub(d.last) >= disputeEnds {
		d = dispute{fields: fields}
	}
	d.repairs++
	d.last = now
	if m.disputes == nil { // few owners have any
		m.disputes = map[childKey]dispute{}
	}
	m.disputes[child] = d
}

// disputeOf returns what is remembered about the repairs of a child, and forgets it
// if there was none for a while.
func (a *Applier) disputeOf(owner Owner, in Intent) dispute {
	a.mu.Lock()
	defer a.mu.Unlock()
	m := a.owners[owner.Object.GetUID()]
	if m == nil {
		return dispute{}
	}
	d := m.disputes[keyOf(in)]
	if a.now().Sub(d.last) >= disputeEnds {
		delete(m.disputes, keyOf(in))
		return dispute{}
	}
	return d
}

// ongoingDispute returns the dispute about a child that matches the intent now, or
// nil.
func (a *Applier) ongoingDispute(owner Owner, in Intent) error {
	d := a.disputeOf(owner, in)
	if !d.isOngoing() {
		return nil
	}
	return disputed(in, d, disputeEnds-a.now().Sub(d.last))
}

func disputed(in Intent, d dispute, after time.Duration) error {
	return &fault.Error{Class: fault.Stall, Reason: msgDisputed.Reason(), Message: msgDisputed.With(d.fields, in), After: after}
}
