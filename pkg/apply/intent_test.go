package apply

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/apis/common"
)

// withPolicy is an owner that has a deletion policy.
type withPolicy struct {
	client.Object
	policy common.DeletionPolicy
}

func (o withPolicy) GetDeletionPolicy() common.DeletionPolicy { return o.policy }

// Under foreground deletion the garbage collector deletes the children that
// block their owner, however long a finalizer keeps the owner.
func TestIntent_ChildOfAnOrphaningOwnerDoesNotBlockItsDeletion(t *testing.T) {
	w := newWorld(t)
	pass := func(p common.DeletionPolicy, want ...string) {
		t.Helper()
		o := owner()
		o.Object = withPolicy{o.Object, p}
		if _, err := w.applier.Apply(t.Context(), o, deployment()); err != nil {
			t.Fatal(err)
		}
		w.wrote(want...)
		d := stored(w, "web", &appsv1.Deployment{})
		diff(t, "owners", 1, len(d.OwnerReferences))
		diff(t, "blocks deletion with policy "+string(p), p != common.DeletionPolicyOrphan, *d.OwnerReferences[0].BlockOwnerDeletion)
	}
	w.pass(deployment()) // as an earlier version does: an upgrade of Delete writes nothing
	w.writes = nil
	pass(common.DeletionPolicyDelete)
	pass(common.DeletionPolicyOrphan, "apply")
	pass(common.DeletionPolicyOrphan)
	pass(common.DeletionPolicyDelete, "apply")

	byHand(w, "web", &appsv1.Deployment{}, func(d *appsv1.Deployment) { d.OwnerReferences[0].BlockOwnerDeletion = new(false) })
	pass(common.DeletionPolicyDelete, "apply")
}
