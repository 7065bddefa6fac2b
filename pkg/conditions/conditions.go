// Package conditions turns what a kind found out about its children, and the
// error of the pass if there was one, into the conditions that every kind
// reports. It is pure: same input, same conditions, so that a pass in which
// nothing changed writes nothing.
package conditions

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/fault"
)

// Finding is one statement: whether it holds, why, and a sentence.
type Finding struct {
	Holds   bool
	Reason  string
	Message string
}

// State is what a kind says about its children.
type State struct {
	// Available: something healthy serves now.
	Available Finding
	// Ready: the current spec is what serves, completely.
	Ready Finding
	// Stalled: the children themselves cannot get on, whatever we do.
	Stalled Finding
}

// Report writes the conditions and the observed generation into status.
// problem is what became of the pass: with its class None the state decides;
// else Ready is False for the problem's reason, because the spec may not have
// reached the cluster. Available always speaks about the children alone.
func Report(status *common.Status, generation int64, now time.Time, s State, problem fault.Verdict) {
	status.ObservedGeneration = generation
	if problem.Class > fault.Quiet {
		s.Ready = Finding{Reason: problem.Reason, Message: problem.Message}
		s.Stalled = Finding{Holds: problem.Class == fault.Stall, Reason: problem.Reason, Message: problem.Message}
	}
	// That an earlier revision serves again is more than that the rollout failed.
	if s.Stalled.Holds && (s.Ready.Holds || s.Ready.Reason != common.ReasonRolledBack) {
		s.Ready = Finding{Reason: s.Stalled.Reason, Message: s.Stalled.Message}
	}
	set := func(kind string, f Finding) {
		v := metav1.ConditionFalse
		if f.Holds {
			v = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{
			Type: kind, Status: v, Reason: f.Reason, Message: f.Message,
			ObservedGeneration: generation, LastTransitionTime: metav1.NewTime(now),
		})
	}
	set(common.ConditionAvailable, s.Available)
	set(common.ConditionReady, s.Ready)
	// These two are present only while they hold: kstatus and kubectl users
	// take their mere presence for bad news.
	if s.Stalled.Holds {
		set(common.ConditionStalled, s.Stalled)
	} else {
		meta.RemoveStatusCondition(&status.Conditions, common.ConditionStalled)
	}
	if !s.Ready.Holds && !s.Stalled.Holds {
		set(common.ConditionReconciling, Finding{Holds: true, Reason: s.Ready.Reason, Message: s.Ready.Message})
	} else {
		meta.RemoveStatusCondition(&status.Conditions, common.ConditionReconciling)
	}
}

// ReportUnobserved writes the conditions of an object of which nothing could be
// observed because of problem, or whose deletion is held up by it. Ready is Unknown, and everything else that an
// earlier reconcile reported stays, status.observedGeneration included.
func ReportUnobserved(status *common.Status, generation int64, now time.Time, problem fault.Verdict) {
	set := func(kind string, holds metav1.ConditionStatus) {
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{
			Type: kind, Status: holds, Reason: problem.Reason, Message: problem.Message,
			ObservedGeneration: generation, LastTransitionTime: metav1.NewTime(now),
		})
	}
	present, absent := common.ConditionReconciling, common.ConditionStalled
	if problem.Class == fault.Stall {
		present, absent = absent, present
	}
	set(common.ConditionReady, metav1.ConditionUnknown)
	set(present, metav1.ConditionTrue)
	meta.RemoveStatusCondition(&status.Conditions, absent)
}

// Own writes a condition that only some kinds have, as a sentence of status,
// reason and message. It is there while it applies: with "" as status it goes.
func Own(status *common.Status, generation int64, now time.Time, kind string, holds metav1.ConditionStatus, reason, message string) {
	if holds == "" {
		meta.RemoveStatusCondition(&status.Conditions, kind)
		return
	}
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type: kind, Status: holds, Reason: reason, Message: message,
		ObservedGeneration: generation, LastTransitionTime: metav1.NewTime(now),
	})
}
