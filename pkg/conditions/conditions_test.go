package conditions

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/fault"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// brief formats conditions as "status reason: message", by type.
func brief(s *common.Status) map[string]string {
	m := map[string]string{}
	for _, c := range s.Conditions {
		m[c.Type] = string(c.Status) + " " + c.Reason + ": " + c.Message
	}
	return m
}

func TestReport(t *testing.T) {
	serves := Condition{Status: true, Reason: "Up", Message: "up"}
	down := Condition{Reason: "Down", Message: "down"}
	done := Condition{Status: true, Reason: "Done", Message: "done"}
	rolling := Condition{Reason: "Rolling", Message: "rolling"}
	stuck := Condition{Status: true, Reason: "Stuck", Message: "stuck"}

	for name, tc := range map[string]struct {
		state   State
		problem fault.Verdict
		want    map[string]string
	}{
		"all is well": {
			state: State{Available: serves, Ready: done},
			want:  map[string]string{"Available": "True Up: up", "Ready": "True Done: done"},
		},
		"on the way": {
			state: State{Available: serves, Ready: rolling},
			want:  map[string]string{"Available": "True Up: up", "Ready": "False Rolling: rolling", "Reconciling": "True Rolling: rolling"},
		},
		"the children are stuck": {
			state: State{Available: serves, Ready: rolling, Stalled: stuck},
			want:  map[string]string{"Available": "True Up: up", "Ready": "False Stuck: stuck", "Stalled": "True Stuck: stuck"},
		},
		"the reconcile is stalled; the children keep serving": {
			state:   State{Available: serves, Ready: done},
			problem: fault.Verdict{Class: fault.Stall, Reason: "Conflict", Message: "taken"},
			want:    map[string]string{"Available": "True Up: up", "Ready": "False Conflict: taken", "Stalled": "True Conflict: taken"},
		},
		"a stalled reconcile takes precedence over stalled children": {
			state:   State{Available: down, Ready: rolling, Stalled: stuck},
			problem: fault.Verdict{Class: fault.Stall, Reason: "Conflict", Message: "taken"},
			want:    map[string]string{"Available": "False Down: down", "Ready": "False Conflict: taken", "Stalled": "True Conflict: taken"},
		},
		"the reconcile waits": {
			state:   State{Available: serves, Ready: done},
			problem: fault.Verdict{Class: fault.Wait, Reason: "Waiting", Message: "for it"},
			want:    map[string]string{"Available": "True Up: up", "Ready": "False Waiting: for it", "Reconciling": "True Waiting: for it"},
		},
		"the reconcile is retried": {
			state:   State{Available: serves, Ready: done},
			problem: fault.Verdict{Class: fault.Retry, Reason: "Error", Message: "again"},
			want:    map[string]string{"Available": "True Up: up", "Ready": "False Error: again", "Reconciling": "True Error: again"},
		},
		"a lost race is nothing to report": {
			state:   State{Available: serves, Ready: done},
			problem: fault.Verdict{Class: fault.Quiet},
			want:    map[string]string{"Available": "True Up: up", "Ready": "True Done: done"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			// Conditions that no longer apply are removed.
			s := &common.Status{Conditions: []metav1.Condition{
				{Type: common.ConditionStalled, Status: metav1.ConditionTrue, Reason: "Old"},
				{Type: common.ConditionReconciling, Status: metav1.ConditionTrue, Reason: "Old"},
			}}
			Report(s, 7, noon, tc.state, tc.problem)
			if diff := cmp.Diff(tc.want, brief(s)); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			if s.ObservedGeneration != 7 {
				t.Errorf("observedGeneration is %d, want 7", s.ObservedGeneration)
			}
			for _, c := range s.Conditions {
				if c.ObservedGeneration != 7 {
					t.Errorf("%s speaks about generation %d, want 7", c.Type, c.ObservedGeneration)
				}
			}

			once := *s.DeepCopy()
			Report(s, 7, noon.Add(time.Hour), tc.state, tc.problem)
			if diff := cmp.Diff(once, *s); diff != "" {
				t.Errorf("a second reconcile changed the status, which causes a needless write (-first +second):\n%s", diff)
			}
		})
	}
}

func TestReport_ChangesTransitionTimeWithStatusOnly(t *testing.T) {
	s := &common.Status{}
	ready := func(f Condition, hour time.Duration) time.Time {
		Report(s, 1, noon.Add(hour*time.Hour), State{Available: f, Ready: f}, fault.Verdict{})
		for _, c := range s.Conditions {
			if c.Type == common.ConditionReady {
				return c.LastTransitionTime.Time
			}
		}
		return time.Time{}
	}
	got := []time.Time{
		ready(Condition{Reason: "A"}, 0),
		ready(Condition{Reason: "B"}, 1),
		ready(Condition{Status: true, Reason: "C"}, 2),
	}
	if diff := cmp.Diff([]time.Time{noon, noon, noon.Add(2 * time.Hour)}, got); diff != "" {
		t.Error(diff)
	}
}
