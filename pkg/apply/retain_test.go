package apply

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/platform-operator/platform-operator/apis/common"
)

// withPolicy is an owner that has a deletion policy.
type withPolicy struct {
	client.Object
	policy common.DeletionPolicy
}

func (o withPolicy) GetDeletionPolicy() common.DeletionPolicy { return o.policy }

func ownerWith(p common.DeletionPolicy) Owner {
	o := owner()
	o.Object = withPolicy{o.Object, p}
	return o
}

// worldWithNamespace counts the reads of the Namespace in the returned value.
func worldWithNamespace(t *testing.T) (*world, *int) {
	w, reads := newWorld(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", UID: "ns-1"}}), new(int)
	live := interceptor.NewClient(w.server, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if _, ok := o.(*corev1.Namespace); ok {
				*reads++
			}
			return c.Get(ctx, key, o, opts...)
		},
	})
	w.applier = NewApplier(w.cached, live, w)
	return w, reads
}

// ownersOf lists the kinds of the owners of Deployment web.
func ownersOf(w *world) []string {
	kinds := []string{}
	for _, r := range stored(w, "web", &appsv1.Deployment{}).OwnerReferences {
		kinds = append(kinds, r.Kind)
	}
	return kinds
}

func TestApplier_RetainsChildrenOfAnOrphaningOwner(t *testing.T) {
	w, reads := worldWithNamespace(t)
	apply := func(p common.DeletionPolicy, wantReads int, wantOwners []string, want ...string) {
		t.Helper()
		if _, err := w.applier.Apply(t.Context(), ownerWith(p), deployment()); err != nil {
			t.Fatal(err)
		}
		w.wrote(want...)
		diff(t, "reads of the Namespace", wantReads, *reads)
		diff(t, "owners", wantOwners, ownersOf(w))
	}
	w.pass(deployment()) // an earlier version: an upgrade writes nothing if the policy is Delete
	w.writes = nil
	one, two := []string{"WebServer"}, []string{"WebServer", "Namespace"}
	apply(common.DeletionPolicyDelete, 0, one)
	apply(common.DeletionPolicyOrphan, 1, two, "apply")
	apply(common.DeletionPolicyOrphan, 1, two)

	// A restarted operator reads the UID from the child.
	w.applier = NewApplier(w.cached, w.server, w)
	apply(common.DeletionPolicyOrphan, 1, two)

	byHand(w, "web", &appsv1.Deployment{}, func(d *appsv1.Deployment) { d.OwnerReferences = d.OwnerReferences[:1] })
	apply(common.DeletionPolicyOrphan, 1, two, "apply")
	apply(common.DeletionPolicyDelete, 1, one, "apply")
}

func TestApplier_RetainsNoChildThatIsBound(t *testing.T) {
	w, reads := worldWithNamespace(t)
	in := deployment()
	in.DeleteOnOrphan = true
	if _, err := w.applier.Apply(t.Context(), ownerWith(common.DeletionPolicyOrphan), in); err != nil {
		t.Fatal(err)
	}
	diff(t, "owners", []string{"WebServer"}, ownersOf(w))
	diff(t, "reads of the Namespace", 0, *reads)
}

func TestApplier_ReleasesTheSecondOwner(t *testing.T) {
	for name, before := range map[string]func(*appsv1.Deployment){
		"both owners": func(*appsv1.Deployment) {},
		// The garbage collector removes the reference to an owner that is deleted
		// in the foreground.
		"the Namespace alone": func(d *appsv1.Deployment) { d.OwnerReferences = d.OwnerReferences[1:] },
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := worldWithNamespace(t)
			o := ownerWith(common.DeletionPolicyOrphan)
			if _, err := w.applier.Apply(t.Context(), o, deployment()); err != nil {
				t.Fatal(err)
			}
			byHand(w, "web", &appsv1.Deployment{}, before)
			action, err := w.applier.Release(t.Context(), o, deployment())
			if err != nil {
				t.Fatal(err)
			}
			diff(t, "action", Released, action)
			diff(t, "owners", []string{}, ownersOf(w))
		})
	}
}

func TestApplier_RetainsAChildThatIsNotApplied(t *testing.T) {
	const patch, claim = "patch application/merge-patch+json", "patch application/json-patch+json"
	one, two := []string{"WebServer"}, []string{"WebServer", "Namespace"}
	w, reads := worldWithNamespace(t)
	w.pass(deployment())
	w.writes = nil
	retain := func(p common.DeletionPolicy, wantOwners []string, want ...string) {
		t.Helper()
		before := stored(w, "web", &appsv1.Deployment{})
		if err := w.applier.Retain(t.Context(), ownerWith(p), deployment()); err != nil {
			t.Fatal(err)
		}
		w.wrote(want...)
		after := stored(w, "web", &appsv1.Deployment{})
		diff(t, "owners", wantOwners, ownersOf(w))
		diff(t, "spec", before.Spec, after.Spec)
		diff(t, "annotations", before.Annotations, after.Annotations)
	}
	apply := func(p common.DeletionPolicy, wantOwners []string, want ...string) {
		t.Helper()
		if _, err := w.applier.Apply(t.Context(), ownerWith(p), deployment()); err != nil {
			t.Fatal(err)
		}
		w.wrote(want...)
		diff(t, "owners", wantOwners, ownersOf(w))
	}
	retain(common.DeletionPolicyDelete, one)
	retain(common.DeletionPolicyOrphan, two, patch)
	retain(common.DeletionPolicyOrphan, two)
	retain(common.DeletionPolicyDelete, one, patch)
	retain(common.DeletionPolicyOrphan, two, patch)
	diff(t, "reads of the Namespace", 1, *reads)

	// A reference that was written separately is neither lost nor left behind.
	apply(common.DeletionPolicyOrphan, two, "apply")
	apply(common.DeletionPolicyOrphan, two)
	apply(common.DeletionPolicyDelete, one, claim, "apply")
	apply(common.DeletionPolicyDelete, one)
	retain(common.DeletionPolicyOrphan, two, patch)
	w.restart()
	apply(common.DeletionPolicyDelete, one, claim, "apply")
	apply(common.DeletionPolicyOrphan, two, "apply")
	retain(common.DeletionPolicyDelete, one, patch)
	apply(common.DeletionPolicyDelete, one, "apply")
	apply(common.DeletionPolicyDelete, one)
}

func TestApplier_RetainsNothingUnowned(t *testing.T) {
	for name, change := range map[string]func(*appsv1.Deployment){
		"without an owner":  func(d *appsv1.Deployment) { d.OwnerReferences = nil },
		"of another object": func(d *appsv1.Deployment) { d.OwnerReferences[0].UID = "other" },
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := worldWithNamespace(t)
			w.pass(deployment())
			byHand(w, "web", &appsv1.Deployment{}, change)
			w.writes = nil
			if err := w.applier.Retain(t.Context(), ownerWith(common.DeletionPolicyOrphan), deployment()); err != nil {
				t.Fatal(err)
			}
			w.wrote()
		})
	}
}
