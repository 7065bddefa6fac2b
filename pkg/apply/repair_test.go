package apply

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

// rival is a world with a clock, and another client that changes the replicas.
type rival struct {
	*world
	clock time.Time
}

func newRival(t *testing.T) *rival {
	t.Helper()
	r := &rival{newWorld(t), time.Unix(1e9, 0)}
	r.applier.now = func() time.Time { return r.clock }
	r.pass(deployment())
	r.writes = nil
	return r
}

// scales changes the replicas to five, and applies the intent some time later.
func (r *rival) scales(after time.Duration) Child {
	r.t.Helper()
	byHand(r.world, "web", &appsv1.Deployment{}, func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(5)) })
	r.clock = r.clock.Add(after)
	return r.pass(deployment())
}

// disputes restores the replicas until they are disputed.
func (r *rival) disputes() {
	r.t.Helper()
	for range promptRepairs {
		diff(r.t, "a prompt repair", Changed, r.scales(15*time.Second).Action)
	}
	r.writes = nil
}

// reports checks that a child reports the dispute, and when it is applied again.
func (r *rival) reports(c Child, after time.Duration) {
	r.t.Helper()
	v := fault.Classify(c.Dispute)
	diff(r.t, "class", fault.Stall, v.Class)
	diff(r.t, "reason", common.ReasonDisputed, v.Reason)
	diff(r.t, "message", `Another client keeps changing spec.replicas of Deployment "web". This is repaired only once a minute. Stop that client, or let the spec state what it wants.`, v.Message)
	diff(r.t, "again after", after, v.Result.RequeueAfter)
}

func (r *rival) replicas() int32 {
	r.t.Helper()
	return *stored(r.world, "web", &appsv1.Deployment{}).Spec.Replicas
}

func TestApplier_RestoresADisputedChildOnceAMinute(t *testing.T) {
	r := newRival(t)
	r.disputes()
	r.reports(r.scales(15*time.Second), 45*time.Second)
	r.clock = r.clock.Add(44 * time.Second)
	r.reports(r.pass(deployment()), time.Second)
	r.wrote()
	diff(t, "replicas while they are not restored", int32(5), r.replicas())

	r.clock = r.clock.Add(time.Second)
	r.reports(r.pass(deployment()), disputeEnds)
	r.wrote("apply")
	diff(t, "replicas after a minute", int32(2), r.replicas())
	r.reports(r.scales(15*time.Second), 45*time.Second)
	r.wrote()
}

func TestApplier_EndsADisputeAfterTwoMinutesWithoutARepair(t *testing.T) {
	r := newRival(t)
	r.disputes()
	r.scales(disputeInterval)
	r.clock = r.clock.Add(disputeEnds - time.Second)
	r.reports(r.pass(deployment()), time.Second)
	r.clock = r.clock.Add(time.Second)
	if c := r.pass(deployment()); c.Dispute != nil {
		t.Errorf("still reported: %v", c.Dispute)
	}
	diff(t, "the next repair", Changed, r.scales(0).Action)
}

func TestApplier_DoesNotReportChangesThatAreRare(t *testing.T) {
	r := newRival(t)
	for range 3 * promptRepairs {
		c := r.scales(disputeEnds)
		diff(t, "action", Changed, c.Action)
		if c.Dispute != nil {
			t.Fatalf("reported: %v", c.Dispute)
		}
	}
}

// Two clients that change different fields, or one that changes another field each
// time, are one dispute.
func TestApplier_CountsRepairsOfAllFieldsOfAChild(t *testing.T) {
	r := newRival(t)
	for i := range promptRepairs {
		byHand(r.world, "web", &appsv1.Deployment{}, func(d *appsv1.Deployment) {
			if i%2 == 0 {
				d.Spec.Replicas = new(int32(5))
			} else {
				d.Spec.Template.Spec.Containers[0].Image = "other:1"
			}
		})
		diff(t, "a prompt repair", Changed, r.pass(deployment()).Action)
	}
	byHand(r.world, "web", &appsv1.Deployment{}, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "other:1" })
	r.writes = nil
	c := r.pass(deployment())
	r.wrote()
	r.reports(c, disputeInterval) // with the fields of the last repair
	r.clock = r.clock.Add(disputeInterval)
	diff(t, "action after a minute", Changed, r.pass(deployment()).Action)
}

func TestApplier_AppliesANewIntentDuringADispute(t *testing.T) {
	r := newRival(t)
	r.disputes()
	r.scales(0)
	r.wrote()
	c := r.pass(deployment(replicas(3)))
	diff(t, "action", Changed, c.Action)
	diff(t, "replicas", int32(3), r.replicas())
}

// A child that lost the operator's label is not in the cache.
func TestApplier_RestoresADisputedLabelOnceAMinute(t *testing.T) {
	r := newRival(t)
	unlabel := func() Child {
		byHand(r.world, "web", &appsv1.Deployment{}, func(d *appsv1.Deployment) { d.Labels = nil })
		return r.pass(deployment())
	}
	for range promptRepairs {
		diff(t, "a prompt repair", Changed, unlabel().Action)
	}
	r.writes = nil
	c := unlabel()
	diff(t, "action", Unchanged, c.Action)
	diff(t, "reason", common.ReasonDisputed, fault.Classify(c.Dispute).Reason)
	r.clock = r.clock.Add(disputeInterval)
	diff(t, "action after a minute", Changed, r.pass(deployment()).Action)
}

func TestApplier_ForgetsTheDisputeAboutAChildThatIsGone(t *testing.T) {
	r := newRival(t)
	r.disputes()
	r.applier.ForgetOthers(owner(), nil)
	diff(t, "remembered", 0, r.applier.remembered())
	r.disputes()
	if err := r.applier.Delete(t.Context(), owner(), "Deployment", stored(r.world, "web", &appsv1.Deployment{})); err != nil {
		t.Fatal(err)
	}
	diff(t, "owners", 0, len(r.applier.owners))
}

// webhooks are changes that the next apply would not undo.
var webhooks = map[string]func(*appsv1.Deployment){
	"changes a value": func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(9)) },
	"adds a value": func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: "1"}}
	},
	"replaces an element": func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "sidecar"}}
	},
}

// mutateBy makes a webhook change each Deployment that is written.
func (w *world) mutateBy(change func(*appsv1.Deployment)) {
	w.mutate = func(o client.Object) { change(o.(*appsv1.Deployment)) }
}

func TestApplier_WritesContestedChildrenOnceAfterARestart(t *testing.T) {
	for name, webhook := range webhooks {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.mutateBy(webhook)
			for i, process := range []string{"the first process", "the second process"} {
				w.pass(deployment())
				if n := len(w.writes); n == 0 || w.writes[n-1] != "apply" {
					t.Errorf("%s sent %q, want an apply", process, w.writes)
				}
				diff(t, "counted", i+1, w.contested)
				w.writes = nil
				for range promptRepairs + 1 {
					c := w.pass(deployment())
					diff(t, "action", Unchanged, c.Action)
					if c.Dispute != nil {
						t.Errorf("reported: %v", c.Dispute)
					}
				}
				w.wrote()
				w.restart()
			}
		})
	}
}

func TestApplier_RepairsWhatDiffersFromTheContestedState(t *testing.T) {
	for name, webhook := range webhooks {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.mutateBy(webhook)
			w.pass(deployment())
			contested := stored(w, "web", &appsv1.Deployment{})

			byHand(w, "web", &appsv1.Deployment{}, func(d *appsv1.Deployment) {
				d.Spec.Replicas = new(int32(7))
				d.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "B", Value: "1"}}
			})
			diff(t, "action", Changed, w.pass(deployment()).Action)
			diff(t, "spec", contested.Spec, stored(w, "web", &appsv1.Deployment{}).Spec)
			w.writes = nil
			w.pass(deployment())
			w.wrote()
		})
	}
}

// The answer to one intent says nothing about another one.
func TestApplier_AppliesAnotherIntentToAContestedChild(t *testing.T) {
	w := newWorld(t)
	w.mutateBy(webhooks["changes a value"])
	w.pass(deployment())
	w.pass(deployment(replicas(3)))
	w.wrote("apply", "apply")
	w.mutate = nil
	w.pass(deployment(replicas(4)))
	w.pass(deployment(replicas(4)))
	w.wrote("apply")
}

func TestApplier_LeavesAChildThatAWebhookChangesDifferentlyEachTime(t *testing.T) {
	w := newWorld(t)
	n := int32(9)
	w.mutateBy(func(d *appsv1.Deployment) { n++; d.Spec.Replicas = &n })
	w.pass(deployment())
	w.wrote("apply")
	for range 3 {
		diff(t, "action", Unchanged, w.pass(deployment()).Action)
	}
	w.wrote()
}

// Earlier versions of the operator noted on a child how a webhook changes it.
func TestApplier_WritesNothingBecauseOfANoteOfAnEarlierVersion(t *testing.T) {
	w := newWorld(t)
	w.pass(deployment())
	byHand(w, "web", &appsv1.Deployment{}, func(d *appsv1.Deployment) { d.Annotations[naming.Domain+"/contested"] = "0123456789" })
	w.restart()
	w.writes = nil
	diff(t, "action", Unchanged, w.pass(deployment()).Action)
	w.wrote()
}
