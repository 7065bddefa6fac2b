package rollout

import (
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

// rolledBack is a world in which revision 2 failed and revision 1 serves again.
func rolledBack(t *testing.T) *world {
	w := serving(t)
	w.image = "web:bad"
	w.reconcile()
	w.rolls(crashing)
	w.reconcile()
	w.reconcile()
	w.rolls()
	w.reconcile()
	if r := w.status.Revisions; w.deployed() != "web:1" || r.Current != 1 || r.LastHealthy != 1 || r.Failed != 2 {
		t.Fatalf("%s serves, revisions %+v", w.deployed(), r)
	}
	return w
}

// Which of three revisions serves depends on the spec, the Deployment and the
// recorded state.
func TestDecide_PicksTheRevision(t *testing.T) {
	type given struct {
		asked  int
		live   int  // 0: there is no Deployment
		proven bool // all pods of the Deployment's template are available
		marked int  // the failed revision in the annotation of the Deployment
		// The state recorded in the status, which is empty if current is 0.
		current, healthy, failed int
		halt                     bool
		pin                      int
		lost                     []int // no longer kept
	}
	for name, tc := range map[string]struct {
		given
		want  int  // 0: no template
		error bool // the revision that should serve is not available
	}{
		"a change":                            {given{asked: 3, live: 2, proven: true, current: 2, healthy: 2}, 3, false},
		"an earlier spec":                     {given{asked: 1, live: 2, proven: true, current: 2, healthy: 2}, 1, false},
		"in progress":                         {given{asked: 3, live: 3, current: 3, healthy: 2}, 3, false},
		"failed":                              {given{asked: 3, live: 3, current: 3, healthy: 2, failed: 3}, 2, false},
		"failed, and available for a moment":  {given{asked: 3, live: 3, proven: true, current: 3, healthy: 2, failed: 3}, 2, false},
		"failed, with nothing healthy":        {given{asked: 3, live: 3, current: 3, failed: 3}, 3, false},
		"failed, and was healthy itself":      {given{asked: 3, live: 3, current: 3, healthy: 3, failed: 3}, 3, false},
		"failed, and something else is asked": {given{asked: 1, live: 2, current: 2, healthy: 2, failed: 3}, 1, false},
		"rolled back":                         {given{asked: 3, live: 2, proven: true, current: 2, healthy: 2, failed: 3}, 2, false},
		"rolled back to pods that fail too":   {given{asked: 3, live: 2, current: 2, healthy: 2, failed: 3}, 2, false},
		"rolled back, Deployment lost":        {given{asked: 3, current: 2, healthy: 2, failed: 3}, 2, false},
		"rolled back, status not yet written": {given{asked: 3, live: 2, current: 3, healthy: 2, failed: 3}, 2, false},

		"halted":                  {given{asked: 3, live: 3, current: 3, healthy: 2, failed: 3, halt: true}, 3, false},
		"halted after a rollback": {given{asked: 3, live: 2, proven: true, current: 2, healthy: 2, failed: 3, halt: true}, 2, false},
		"halted after a rollback, status not written":                             {given{asked: 3, live: 2, current: 3, healthy: 2, failed: 3, halt: true}, 2, false},
		"halted, Deployment lost":                                                 {given{asked: 3, current: 3, healthy: 2, failed: 3, halt: true}, 3, false},
		"halted after a rollback, Deployment lost":                                {given{asked: 3, current: 2, healthy: 2, failed: 3, halt: true}, 2, false},
		"halted after a rollback, and what failed was put back by another client": {given{asked: 3, live: 3, current: 2, healthy: 2, failed: 3, halt: true}, 2, false},
		"halted after a rollback, what failed was put back, and works":            {given{asked: 3, live: 3, proven: true, current: 2, healthy: 2, failed: 3, halt: true}, 3, false},
		"halted, and something else is asked":                                     {given{asked: 1, live: 3, current: 3, healthy: 2, failed: 3, halt: true}, 1, false},
		"halted, what serves is lost with its history":                            {given{asked: 3, current: 1, healthy: 2, failed: 3, halt: true, lost: []int{1}}, 2, false},

		"pinned":                                    {given{asked: 3, live: 2, proven: true, current: 2, healthy: 2, failed: 3, pin: 1}, 1, false},
		"pinned to what failed":                     {given{asked: 3, live: 2, proven: true, current: 2, healthy: 2, failed: 3, pin: 3}, 3, false},
		"pinned to what is not kept":                {given{asked: 3, live: 2, proven: true, current: 2, healthy: 2, pin: 1, lost: []int{1}}, 2, true},
		"pinned to what is not kept, nothing":       {given{asked: 3, pin: 9}, 0, true},
		"unpinned":                                  {given{asked: 3, live: 1, proven: true, current: 1, healthy: 2}, 3, false},
		"unpinned after a failure":                  {given{asked: 3, live: 1, proven: true, current: 1, healthy: 1, failed: 3}, 1, false},
		"unpinned after a failure, not yet healthy": {given{asked: 3, live: 1, proven: true, current: 1, healthy: 2, failed: 3}, 2, false},
		"unpinned, with nothing healthy":            {given{asked: 3, live: 1, current: 1, failed: 3}, 1, false},
		"unpinned after a failure, halted":          {given{asked: 3, live: 1, current: 1, healthy: 2, failed: 3, halt: true}, 1, false},

		"status lost":                            {given{asked: 2, live: 2, proven: true}, 2, false},
		"status lost with a change":              {given{asked: 3, live: 2, proven: true}, 3, false},
		"status lost while rolled back":          {given{asked: 3, live: 2, proven: true, marked: 3}, 2, false},
		"status lost, rolled back, not ready":    {given{asked: 3, live: 2, marked: 3}, 2, false},
		"status lost, and what failed is mended": {given{asked: 1, live: 2, proven: true, marked: 3}, 1, false},
		"status lost, halted after a rollback":   {given{asked: 3, live: 2, marked: 3, halt: true}, 2, false},
		"a mark that the status does not bear":   {given{asked: 3, live: 2, proven: true, marked: 3, current: 2, healthy: 2}, 3, false},

		"history lost":                             {given{asked: 2, live: 2, proven: true, current: 2, healthy: 2, lost: []int{1, 2, 3}}, 2, false},
		"history lost while rolled back":           {given{asked: 3, live: 2, proven: true, current: 2, healthy: 2, failed: 3, lost: []int{1, 2, 3}}, 2, false},
		"history lost, rolled back, not ready":     {given{asked: 3, live: 2, current: 2, healthy: 2, failed: 3, lost: []int{1, 2, 3}}, 2, false},
		"history lost, halted after a rollback":    {given{asked: 3, live: 2, current: 2, healthy: 2, failed: 3, halt: true, lost: []int{1, 2, 3}}, 2, false},
		"history lost while it fails":              {given{asked: 3, live: 3, current: 3, healthy: 2, failed: 3, lost: []int{1, 2, 3}}, 3, true},
		"history and Deployment lost, rolled back": {given{asked: 3, current: 2, healthy: 2, failed: 3, lost: []int{1, 2, 3}}, 0, true},
		"history and status lost, rolled back":     {given{asked: 3, live: 2, proven: true, marked: 3, lost: []int{1, 2, 3}}, 2, false},
		"history and status lost, not ready":       {given{asked: 3, live: 2, marked: 3, lost: []int{1, 2, 3}}, 2, false},
		"everything lost":                          {given{asked: 3, lost: []int{1, 2, 3}}, 3, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			names := []string{""}
			for n := 1; n <= 3; n++ {
				w.image = fmt.Sprintf("web:%d", n)
				w.reconcile()
				w.rolls()
				w.reconcile()
				names = append(names, w.status.Revisions.CurrentName)
			}
			w.status = common.RolloutStatus{}
			if tc.live == 0 {
				w.seen.Deployment = nil
			} else {
				w.rollout.PinnedRevision = new(int64(tc.live))
				w.reconcile()
				w.rolls()
				if w.rollout.PinnedRevision = nil; !tc.proven {
					w.rolls(crashing)
				}
				w.seen.Deployment.Annotations = nil
				if tc.marked != 0 {
					w.seen.Deployment.Annotations = map[string]string{"platform-operator.io/failed-revision": names[tc.marked]}
				}
			}
			w.status = common.RolloutStatus{}
			if tc.current != 0 {
				w.status.Revisions = &common.Revisions{
					Current: int64(tc.current), LastHealthy: int64(tc.healthy), Failed: int64(tc.failed),
					CurrentName: names[tc.current], LastHealthyName: names[tc.healthy], FailedName: names[tc.failed],
				}
			}
			if w.image = fmt.Sprintf("web:%d", tc.asked); tc.halt {
				w.rollout.OnFailure = common.OnFailureHalt
			}
			if tc.pin != 0 {
				w.rollout.PinnedRevision = new(int64(tc.pin))
			}
			w.seen.Revisions = slices.DeleteFunc(w.seen.Revisions, func(r *appsv1.ControllerRevision) bool {
				return slices.Contains(tc.lost, int(r.Revision))
			})

			d, err := Decide(w.question(), w.seen)
			want, got := "", ""
			if tc.want != 0 {
				want = fmt.Sprintf("web:%d", tc.want)
			}
			if d.Template != nil {
				got = *d.Template.Spec.Containers[0].Image
			}
			if got != want || (err != nil) != tc.error || err != nil && fault.Classify(err).Class != fault.Stall {
				t.Errorf("%q serves, error %v; want %q, an error: %v", got, err, want, tc.error)
			}
		})
	}
}

func TestDecide_RollsBackAfterTheStatusWasLost(t *testing.T) {
	isReady := func(w *world) {
		for i := range w.seen.Pods {
			w.seen.Pods[i].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		}
	}
	for name, lose := range map[string]func(*world){
		"during a scale-up": func(w *world) {
			w.seen.Deployment.Status.AvailableReplicas = 1
			isReady(w)
			w.status = common.RolloutStatus{}
			w.image = "web:bad"
			w.reconcile()
			w.rolls(crashing)
		},
		"during a rollout": func(w *world) {
			isReady(w)
			old := w.seen.Pods
			w.image = "web:bad"
			w.reconcile()
			w.rolls(crashing)
			w.seen.Pods = append(w.seen.Pods, old...)
			w.status = common.RolloutStatus{}
		},
		"during a rollout, and all pods of before were evicted": func(w *world) {
			w.image = "web:bad"
			w.reconcile()
			w.status = common.RolloutStatus{}
			w.reconcile()
			w.rolls(crashing)
		},
		"during a rollout, one pod of which was ready for a moment": func(w *world) {
			w.image = "web:bad"
			w.reconcile()
			w.rolls()
			isReady(w)
			w.seen.Deployment.Status.AvailableReplicas = 1
			w.seen.Deployment.Status.Conditions = nil
			w.status = common.RolloutStatus{}
			w.reconcile()
			w.rolls(crashing)
		},
		"during a pin to a revision that was never healthy": func(w *world) {
			for _, w.image = range []string{"web:bad", "web:bad2"} {
				w.reconcile()
				w.rolls(crashing)
				w.reconcile()
				w.reconcile()
				w.rolls()
			}
			w.rollout.PinnedRevision = new(int64(2))
			w.reconcile()
			w.rolls(crashing)
			w.status = common.RolloutStatus{}
			w.reconcile()
			w.rollout.PinnedRevision = nil
			w.reconcile()
			w.rolls(crashing)
		},
		"at zero replicas": func(w *world) {
			replicas := w.replicas
			w.replicas = 0
			w.reconcile()
			w.rolls()
			w.status = common.RolloutStatus{}
			w.image = "web:2"
			w.reconcile()
			w.rolls()
			w.image, w.replicas = "web:bad", replicas
			w.reconcile()
			w.rolls(crashing)
		},
		"after a rollout at zero replicas": func(w *world) {
			replicas := w.replicas
			w.image, w.replicas = "web:bad", 0
			w.reconcile()
			w.rolls()
			w.reconcile()
			w.status = common.RolloutStatus{}
			w.replicas = replicas
			w.reconcile()
			w.rolls(crashing)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.reconcile()
			w.rolls()
			w.reconcile()
			good := w.image
			lose(w)
			w.reconcile()
			w.reconcile()
			if got := w.seen.Deployment.Spec.Template.Spec.Containers[0].Image; got != good {
				t.Errorf("image of the Deployment: got %s, want %s; status: %+v", got, good, w.status.Revisions)
			}
		})
	}
}

func TestReport_LearnsNothingAtZeroReplicas(t *testing.T) {
	w := serving(t)
	w.replicas = 0
	w.reconcile()
	w.rolls()
	w.reconcile()
	w.image = "web:bad"
	w.reconcile()
	w.rolls()
	w.is("no pod of it has run", "+ScaledToZero ", common.Revisions{Current: 2, LastHealthy: 1})
	w.replicas = 3
	w.reconcile()
	w.rolls(crashing)
	w.is("failed", " +RolloutFailed", common.Revisions{Current: 2, LastHealthy: 1, Failed: 2})
	w.replicas = 0
	w.rollout.OnFailure = common.OnFailureHalt
	w.reconcile()
	w.rolls()
	w.is("scaled down again, it stays failed", "+ScaledToZero +RolloutFailed", common.Revisions{Current: 2, LastHealthy: 1, Failed: 2})
	w.replicas = 3
	w.rollout.OnFailure = ""
	w.is("rolled back", "RolledBack +RolloutFailed", common.Revisions{Current: 1, LastHealthy: 1, Failed: 2})
}

func TestDecide_HaltAfterARollbackKeepsTheServingRevision(t *testing.T) {
	w := rolledBack(t)
	w.rollout.OnFailure = common.OnFailureHalt
	w.is("halted", "RolledBack +RolloutFailed", common.Revisions{Current: 1, LastHealthy: 1, Failed: 2})
	if w.deployed() != "web:1" {
		t.Errorf("%s is rolled out", w.deployed())
	}
}

func TestDecide_UnpinningDoesNotRetryTheFailedRevision(t *testing.T) {
	w := serving(t)
	w.image = "web:2"
	w.reconcile()
	w.rolls()
	w.reconcile()
	w.image = "web:bad"
	w.reconcile()
	w.rolls(crashing)
	w.reconcile()
	w.reconcile()
	w.rolls()
	w.reconcile()
	w.rollout.PinnedRevision = new(int64(1))
	w.is("pinned", "Progressing ", common.Revisions{Current: 1, LastHealthy: 2, Failed: 3})
	w.rolls()
	w.is("the pinned one is healthy", "+Serving ", common.Revisions{Current: 1, LastHealthy: 1, Failed: 3})
	w.rollout.PinnedRevision = nil
	w.is("unpinned", "RolledBack +RolloutFailed", common.Revisions{Current: 1, LastHealthy: 1, Failed: 3})
	if w.deployed() != "web:1" {
		t.Errorf("%s is rolled out", w.deployed())
	}
	w.rollout.PinnedRevision = new(int64(3))
	w.reconcile()
	w.rolls()
	w.is("pinned, what failed is healthy", "+Serving ", common.Revisions{Current: 3, LastHealthy: 3})
}

// An outdated cache does not contain the revision that was just created.
func TestDecide_DistinguishesRevisionsWithTheSameNumber(t *testing.T) {
	twins := func(t *testing.T) *world {
		w := serving(t)
		for _, image := range []string{"web:good", "web:bad"} {
			lagging := *w
			lagging.image = image
			lagging.seen.Revisions = lagging.seen.Revisions[:1]
			w.seen.Revisions = append(w.seen.Revisions, stored(t, lagging.decide().Keep))
		}
		if a, b := w.seen.Revisions[1], w.seen.Revisions[2]; a.Revision != b.Revision {
			t.Fatalf("the revisions have numbers %d and %d", a.Revision, b.Revision)
		}
		return w
	}
	t.Run("a correction is tried", func(t *testing.T) {
		w := twins(t)
		w.image = "web:bad"
		w.reconcile()
		w.rolls(crashing)
		w.is("failed", " +RolloutFailed", common.Revisions{Current: 2, LastHealthy: 1, Failed: 2})
		w.reconcile()
		w.rolls()
		w.image = "web:good"
		w.is("corrected", "Progressing ", common.Revisions{Current: 2, LastHealthy: 1})
		if w.deployed() != "web:good" {
			t.Errorf("the Deployment has %s", w.deployed())
		}
	})
	t.Run("a failure is rolled back", func(t *testing.T) {
		w := twins(t)
		w.image = "web:good"
		w.reconcile()
		w.rolls()
		w.is("healthy", "+Serving ", common.Revisions{Current: 2, LastHealthy: 2})
		w.image = "web:bad"
		w.reconcile()
		w.rolls(crashing)
		w.reconcile()
		w.reconcile()
		if w.deployed() != "web:good" {
			t.Errorf("the Deployment has %s", w.deployed())
		}
	})
	t.Run("a pin means the one in use", func(t *testing.T) {
		for _, image := range []string{"web:good", "web:bad"} {
			w := twins(t)
			w.image = image
			w.reconcile()
			w.rolls()
			w.reconcile()
			w.rollout.PinnedRevision = new(int64(2))
			if w.reconcile(); w.deployed() != image {
				t.Errorf("%s served, %s is pinned", image, w.deployed())
			}
		}
	})
}

// The number of a ControllerRevision that could not be written, or was deleted,
// is not used again: the status refers to the healthy revision by that number.
func TestDecide_ReusesNoNumber(t *testing.T) {
	w := serving(t)
	w.seen.Revisions = nil
	w.image = "web:bad"
	w.is("the history is lost", "Progressing ", common.Revisions{Current: 2, LastHealthy: 1})
	w.status.Revisions = nil
	w.status.LastActions = []common.Action{{Revision: 7}}
	w.seen.Revisions = nil
	w.image = "web:3"
	if d := w.decide(); d.Desired.Number != 8 {
		t.Errorf("the next revision has number %d", d.Desired.Number)
	}
}

// The template of an earlier revision does not become that of the spec.
func TestDecide_RecordsTheTemplateOfAnotherClientAsAnotherRevision(t *testing.T) {
	w := serving(t)
	earlier := w.seen.Deployment.DeepCopy()
	w.image = "web:2"
	w.reconcile()
	w.rolls()
	w.reconcile()
	w.seen.Deployment.Spec.Template, w.seen.Deployment.Annotations = earlier.Spec.Template, earlier.Annotations // kubectl rollout undo
	w.rolls()
	w.seen.Revisions = nil
	w.is("the history is lost", "Progressing ", common.Revisions{Current: 2, LastHealthy: 2})
	if w.deployed() != "web:2" {
		t.Errorf("the Deployment has %s", w.deployed())
	}
}

func TestDecide_KeepsARevisionThatTheCacheDoesNotShow(t *testing.T) {
	w := serving(t)
	w.seen.Revisions = nil
	w.env = "1" // another version of the operator decides
	d := w.decide()
	if d.Desired.Number != 1 || d.Desired.name != w.status.Revisions.CurrentName || d.Keep.NeverCreated {
		t.Errorf("revision %d %s, never created: %v", d.Desired.Number, d.Desired.name, d.Keep.NeverCreated)
	}
	if w.is("restored from the Deployment", "+Serving ", common.Revisions{Current: 1, LastHealthy: 1}); !slices.Contains(w.status.PendingChanges, "spec.containers[web].env would be added") {
		t.Errorf("pods are replaced, or the changes that wait are lost: %v", w.status.PendingChanges)
	}
	if e := w.seen.Deployment.Spec.Template.Spec.Containers[0].Env; len(e) != 0 {
		t.Errorf("the pods get %v", e)
	}
}

// The history may be deleted just before the spec changes, or while the object is
// paused. Until the Deployment is changed, it still has the template.
func TestDecide_RestoresTheHealthyRevisionBeforeTheDeploymentIsChanged(t *testing.T) {
	for name, tc := range map[string]struct {
		lose    func(*world)
		healthy int64 // of the status, after the rollback
	}{
		"history":            {func(w *world) { w.seen.Revisions = nil }, 1},
		"history and status": {func(w *world) { w.seen.Revisions = nil; w.status = common.RolloutStatus{} }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := serving(t)
			tc.lose(w)
			w.image = "web:bad"
			w.reconcile()
			if w.deployed() != "web:bad" {
				t.Fatalf("the Deployment has %s", w.deployed())
			}
			w.rolls(crashing)
			w.reconcile()
			w.is("rolled back", "RolledBack +RolloutFailed", common.Revisions{Current: tc.healthy, LastHealthy: tc.healthy, Failed: 3 - tc.healthy})
			if w.deployed() != "web:1" {
				t.Errorf("the Deployment has %s", w.deployed())
			}
		})
	}
}

func TestDecide_RecordsNoTemplateThatWasEditedInTheDeployment(t *testing.T) {
	w := serving(t)
	w.seen.Deployment.Spec.Template.Annotations[naming.AnnotationTemplate] = "edited"
	w.image = "web:2"
	if d := w.decide(); d.Restore != nil {
		t.Errorf("%s is recorded", d.Restore.Name)
	}
}

// A cache that lags may still show a Deployment whose revision was pruned, because the
// operator had not recorded that it was in use, and then that its pods are available.
func TestDecide_RecordsNoHealthyRevisionThatIsNotKept(t *testing.T) {
	w := serving(t)
	w.rollout.RevisionHistoryLimit = new(int32(0))
	kept, status := w.seen.Revisions, *w.status.DeepCopy()
	w.image = "web:2"
	w.reconcile()
	w.rolls()
	w.seen.Revisions, w.status = kept, status
	w.image = "web:bad"
	w.reconcile()
	w.reconcile()
	w.rolls(crashing)
	w.reconcile()
	w.reconcile()
	if w.status.Revisions.LastHealthy != 1 || w.deployed() != "web:1" {
		t.Errorf("the Deployment has %s, and the status %+v", w.deployed(), w.status.Revisions)
	}
}

func TestDecide_LosingHistoryOrStatusRetriesNothing(t *testing.T) {
	for name, lose := range map[string]func(*world){
		"history": func(w *world) { w.seen.Revisions = nil },
		"status":  func(w *world) { w.status = common.RolloutStatus{} },
		"both": func(w *world) {
			w.seen.Revisions = nil
			w.status = common.RolloutStatus{}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := rolledBack(t)
			lose(w)
			for range 3 {
				if got := w.reconcile(); got != "RolledBack +RolloutFailed" || w.deployed() != "web:1" {
					t.Fatalf("%s is rolled out: %q, %+v", w.deployed(), got, w.status.Revisions)
				}
			}
			if len(w.seen.Revisions) != 2 || w.seen.Revisions[0].Revision == w.seen.Revisions[1].Revision {
				t.Errorf("%d revisions are kept", len(w.seen.Revisions))
			}
			w.image = "web:2"
			w.reconcile()
			if w.deployed() != "web:2" || w.seen.Deployment.Annotations["platform-operator.io/failed-revision"] != "" {
				t.Errorf("after a correction: %s, marked %v", w.deployed(), w.seen.Deployment.Annotations)
			}
			w.rolls(crashing)
			w.reconcile()
			w.reconcile()
			if w.deployed() != "web:1" {
				t.Errorf("after the correction failed: %s, %+v", w.deployed(), w.status.Revisions)
			}
		})
	}
}

// An upgrade costs no request for each object.
func TestDecide_AddsNoTemplateToTheStatusOfAnEarlierVersion(t *testing.T) {
	w := serving(t)
	if w.status.Revisions.CurrentTemplate != w.seen.Deployment.Spec.Template.Annotations[naming.AnnotationTemplate] {
		t.Errorf("the status has the template %q", w.status.Revisions.CurrentTemplate)
	}
	w.status.Revisions.CurrentTemplate = ""
	if w.reconcile(); w.status.Revisions.CurrentTemplate != "" {
		t.Errorf("the status gets the template %s", w.status.Revisions.CurrentTemplate)
	}
	w.image = "web:2"
	if w.reconcile(); w.status.Revisions.CurrentTemplate == "" {
		t.Error("the status does not get the template of the next rollout")
	}
}
