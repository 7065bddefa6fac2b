package rollout

import "testing"

func TestDecision_StartsNoRolloutToRepairATemplate(t *testing.T) {
	w := serving(t)
	first := *w.seen.Deployment.Spec.Template.DeepCopy()
	starts := func(want bool, what string) {
		t.Helper()
		d := w.decide()
		if got := d.StartsRollout(w.seen.Deployment); got != want {
			t.Errorf("%s: got %v", what, got)
		}
	}
	starts(false, "a revision that serves")
	w.image = "web:2"
	starts(true, "another revision")
	w.reconcile()
	starts(false, "a rollout in progress")
	w.seen.Deployment.Spec.Template = first
	starts(false, "kubectl rollout undo")
}
