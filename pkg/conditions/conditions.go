// Package conditions computes the conditions that every kind reports, from the
// observed state of the children and the error of the reconcile, if any. It is
// pure: equal inputs yield equal conditions, so a reconcile that finds no
// change writes nothing.
package conditions

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/message"
)

// Condition is the content of a condition: whether it is true, the reason, and a
// message.
type Condition struct {
	Status  bool
	Reason  string
	Message string
}

// True returns a condition that is true, with the first reason of the message.
func True(m *message.Message, values ...any) Condition {
	return Condition{Status: true, Reason: m.Reason(), Message: m.With(values...)}
}

// False returns a condition that is false, with the first reason of the message.
func False(m *message.Message, values ...any) Condition {
	return Condition{Reason: m.Reason(), Message: m.With(values...)}
}

// Holds returns the status of the condition.
func (c Condition) Holds() metav1.ConditionStatus {
	if c.Status {
		return metav1.ConditionTrue
	}
	return metav1.ConditionFalse
}

// Set writes one condition into status, with the status holds.
func Set(status *common.Status, generation int64, now time.Time, kind string, holds metav1.ConditionStatus, c Condition) {
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type: kind, Status: holds, Reason: c.Reason, Message: c.Message,
		ObservedGeneration: generation, LastTransitionTime: metav1.NewTime(now),
	})
}

// State is the state of an object's children.
type State struct {
	// Available is true if something healthy serves requests, even with an
	// earlier spec.
	Available Condition
	// Ready is true if the current spec is rolled out completely.
	Ready Condition
	// Stalled is true if the children cannot make progress, and the operator
	// cannot change that.
	Stalled Condition
}

// Report writes the conditions and the observed generation into status. problem
// is the result of the reconcile. If its class is None or Quiet, the state
// decides. Otherwise Ready is False with the reason of the problem, because the
// spec may not have been applied to the cluster. Available always depends on
// the children alone.
func Report(status *common.Status, generation int64, now time.Time, s State, problem fault.Verdict) {
	status.ObservedGeneration = generation
	if problem.Class > fault.Quiet {
		s.Ready = Condition{Reason: problem.Reason, Message: problem.Message}
		s.Stalled = Condition{Status: problem.Class == fault.Stall, Reason: problem.Reason, Message: problem.Message}
	}
	// RolledBack is more specific than a failed rollout: an earlier revision is
	// available again.
	if s.Stalled.Status && (s.Ready.Status || s.Ready.Reason != common.ReasonRolledBack) {
		s.Ready = Condition{Reason: s.Stalled.Reason, Message: s.Stalled.Message}
	}
	set := func(kind string, f Condition) { Set(status, generation, now, kind, f.Holds(), f) }
	set(common.ConditionAvailable, s.Available)
	set(common.ConditionReady, s.Ready)
	// Stalled and Reconciling are present only while they are true, because
	// kstatus and users of kubectl take their mere presence for a problem.
	if s.Stalled.Status {
		set(common.ConditionStalled, s.Stalled)
	} else {
		meta.RemoveStatusCondition(&status.Conditions, common.ConditionStalled)
	}
	if !s.Ready.Status && !s.Stalled.Status {
		set(common.ConditionReconciling, Condition{Status: true, Reason: s.Ready.Reason, Message: s.Ready.Message})
	} else {
		meta.RemoveStatusCondition(&status.Conditions, common.ConditionReconciling)
	}
}

// ReportUnobserved writes the conditions of an object that could not be
// observed, or whose deletion is blocked, because of problem. Ready is Unknown.
// Everything else that an earlier reconcile reported is kept, including
// status.observedGeneration.
func ReportUnobserved(status *common.Status, generation int64, now time.Time, problem fault.Verdict) {
	f := Condition{Reason: problem.Reason, Message: problem.Message}
	present, absent := common.ConditionReconciling, common.ConditionStalled
	if problem.Class == fault.Stall {
		present, absent = absent, present
	}
	Set(status, generation, now, common.ConditionReady, metav1.ConditionUnknown, f)
	Set(status, generation, now, present, metav1.ConditionTrue, f)
	meta.RemoveStatusCondition(&status.Conditions, absent)
}
