package converge

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

// settle is how long counts, such as the number of ready replicas, may lag in
// the status and in the messages of conditions. It reduces the many steps of a
// rollout to few status writes, or to none if the rollout takes less time. A
// condition's new status or reason, which is what users wait for, is written
// immediately, together with the counts. The exceptions are Available when it
// becomes True while Ready does not change, and the start of a rollout.
const settle = 5 * time.Second

// startup is how long the status may lag after the object was created or its spec
// was changed, as long as everything is in order. If the pods are ready within
// this time, one status is written instead of two
// (docs/decisions/0002-status-writes.md).
const startup = time.Second

// writeStatus writes the status if it differs. If the difference may soon become
// another one, it writes nothing and returns how long to wait. An urgent status, and
// one that reports a problem, is always written. before has no spec.
func (r *Reconciler) writeStatus(ctx context.Context, before, after Object, urgent bool, problem fault.Verdict) (wait time.Duration, err error) {
	key := client.ObjectKeyFromObject(after)
	after = withoutSpec(after)
	keepTransitions(before.GetStatus(), after.GetStatus())
	written := func(m *memory) { m.postponed = postponed{} }
	if sameStatus(before, after) {
		r.change(key, written)
		return 0, nil
	}
	decided := cmp.Or(r.unwritten(key, before), before)
	if left := r.postpone(key, before, after, mayLag(before.GetStatus(), after.GetStatus(), urgent, problem)); left > 0 {
		return left, nil
	}
	// The resource version rejects the write of a former leader that was
	// suspended and resumed.
	err = r.client.Status().Patch(ctx, after, apply.IfUnchanged(before), client.FieldOwner(naming.FieldManager))
	if apierrors.IsNotFound(err) {
		return 0, nil // deleted meanwhile
	}
	if err != nil {
		return 0, fmt.Errorf("writing the status: %w", err)
	}
	r.change(key, written)
	r.announce(decided, after, observesSpec(before.GetStatus(), after.GetStatus()), problem)
	return 0, nil
}

// observesSpec reports whether a status is the first one of a generation of the spec.
func observesSpec(before, after *common.Status) bool {
	return before.ObservedGeneration != after.ObservedGeneration
}

// keepTransitions keeps the times of conditions whose status is that in the API
// server: a change that was undone before it was written is no transition.
func keepTransitions(before, after *common.Status) {
	for i := range after.Conditions {
		c := &after.Conditions[i]
		if written := meta.FindStatusCondition(before.Conditions, c.Type); written != nil && written.Status == c.Status {
			c.LastTransitionTime = written.LastTransitionTime
		}
	}
}

// mayLag returns how long a changed status may remain unwritten, or 0.
func mayLag(before, after *common.Status, urgent bool, problem fault.Verdict) time.Duration {
	started := observesSpec(before, after)
	unserved := meta.IsStatusConditionTrue(before.Conditions, common.ConditionAvailable) && !meta.IsStatusConditionTrue(after.Conditions, common.ConditionAvailable)
	switch {
	case urgent:
		return 0
	case !started && sameButMessages(before.Conditions, after.Conditions, problem):
		return settle
	case started && problem.Class == fault.None && meta.IsStatusConditionTrue(after.Conditions, common.ConditionReconciling) && !unserved:
		return startup
	default:
		return 0
	}
}

// withoutSpec returns a copy of an object without its spec, which may be large.
// Only the status is compared, and patched.
func withoutSpec(o Object) Object {
	shallow := reflect.New(reflect.TypeOf(o).Elem())
	shallow.Elem().Set(reflect.ValueOf(o).Elem())
	shallow.Elem().FieldByName("Spec").SetZero()
	return shallow.Interface().(Object).DeepCopyObject().(Object)
}

func statusOf(o Object) reflect.Value { return reflect.ValueOf(o).Elem().FieldByName("Status") }

func sameStatus(a, b Object) bool {
	return equality.Semantic.DeepEqual(statusOf(a).Interface(), statusOf(b).Interface())
}

// sameButMessages reports whether conditions are equal except for messages that
// describe progress, and for Available having become True. A message about a
// problem matters.
func sameButMessages(before, after []metav1.Condition, problem fault.Verdict) bool {
	return slices.EqualFunc(before, after, func(b, a metav1.Condition) bool {
		if problem.Class == fault.None {
			b.Message = a.Message
		}
		return problem.Class == fault.None && becameAvailable(b, a) || equality.Semantic.DeepEqual(b, a)
	})
}

// becameAvailable reports whether the first pods serve. All of them usually do
// a moment later, when Ready changes too.
func becameAvailable(b, a metav1.Condition) bool {
	return a.Type == common.ConditionAvailable && b.Type == a.Type &&
		b.Status == metav1.ConditionFalse && a.Status == metav1.ConditionTrue
}

// announce sends an event for every condition that changed its status or
// reason since the last decision, and that is not implied by another one. If the
// user has started a rollout, by creating or changing the object, it is announced
// when it ends, or when something holds it up. What needs a person, or an error, is a
// Warning.
func (r *Reconciler) announce(before, after Object, started bool, problem fault.Verdict) {
	started = started && problem.Class == fault.None
	for _, c := range after.GetStatus().Conditions {
		old := meta.FindStatusCondition(before.GetStatus().Conditions, c.Type)
		if old != nil && old.Status == c.Status && old.Reason == c.Reason {
			continue
		}
		kind := "Normal"
		switch {
		case c.Type == common.ConditionStalled:
			kind = "Warning"
		case c.Type == common.ConditionReady && c.Status == metav1.ConditionTrue:
		case c.Type == common.ConditionReconciling && problem.Class == fault.Retry:
			kind = "Warning"
		case c.Type == common.ConditionReconciling && old == nil && !started:
		default:
			continue // Reconciling or Stalled explain Ready=False, and Ready explains Available
		}
		r.event(after, nil, kind, c.Reason, "Reconcile", c.Type+": "+c.Message)
	}
}

// maxNote is the maximum length in bytes of the note of an event, as validated
// by events.k8s.io/v1. The API server rejects an event with a longer note.
const maxNote = 1024

// event records an event. Events that differ only in the note become one, so one about a child
// names it. The API server would reject an event without a reason; such causes concern no user.
func (r *Reconciler) event(obj, about client.Object, kind, reason, action, note string) {
	if reason != "" {
		r.events.Eventf(obj, about, kind, reason, action, "%s", fault.Clip(note, maxNote))
	}
}

// postpone records a status that is not written yet, and returns how long it may
// remain unwritten: lag, less the time since the first of the changes. Counts that
// changed before the user did do not matter to that.
func (r *Reconciler) postpone(key types.NamespacedName, before, after Object, lag time.Duration) (left time.Duration) {
	if lag == 0 {
		return 0
	}
	r.change(key, func(m *memory) {
		now := r.now()
		starts := observesSpec(before.GetStatus(), after.GetStatus())
		if last := m.postponed; last.to == nil || starts && !observesSpec(last.from.GetStatus(), last.to.GetStatus()) {
			m.postponed.since = now
		}
		m.postponed.from, m.postponed.to = before, after
		left = lag - now.Sub(m.postponed.since)
	})
	return left
}

// resumeStatus replaces the status of an object by the one that was decided last, if
// it has not been written yet. So decisions do not depend on whether it has. A status
// that was changed in the API server meanwhile is not replaced.
func (r *Reconciler) resumeStatus(key types.NamespacedName, obj Object) {
	if last := r.unwritten(key, obj); last != nil {
		statusOf(obj).Set(statusOf(last.DeepCopyObject().(Object)))
	}
}

// unwritten returns the object with the status that was decided last, or nil if that
// has been written, or if written has another status than the decision was based on.
func (r *Reconciler) unwritten(key types.NamespacedName, written Object) Object {
	last := r.recall(key).postponed
	if last.to == nil || !sameStatus(last.from, written) {
		return nil
	}
	return last.to
}
