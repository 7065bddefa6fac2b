package apply

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

const patched = "patch application/merge-patch+json"

// withPolicy is an owner that has a deletion policy.
type withPolicy struct {
	client.Object
	policy common.DeletionPolicy
}

func (o withPolicy) GetDeletionPolicy() common.DeletionPolicy { return o.policy }

func (o withPolicy) DeepCopyObject() runtime.Object { return o.Object.DeepCopyObject() }

func ownerWith(p common.DeletionPolicy) Owner {
	o := owner()
	o.Object = withPolicy{o.Object, p}
	return o
}

// owners returns the kinds of the owners of Deployment web, and the object that its
// annotation names.
func owners(w *world) []string {
	d := stored(w, "web", &appsv1.Deployment{})
	all := []string{}
	for _, r := range d.OwnerReferences {
		all = append(all, r.Kind)
	}
	if of := d.Annotations[naming.AnnotationOrphanOf]; of != "" {
		all = append(all, "orphan of "+of)
	}
	return all
}

var bound, free = []string{"WebServer"}, []string{"orphan of WebServer.my.domain/web"}

// withPolicyWorld counts the uncached reads of the owner in the returned value.
func withPolicyWorld(t *testing.T) (*world, *int) {
	w, reads := newWorld(t), new(int)
	live := interceptor.NewClient(w.server, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if _, ok := o.(*corev1.ConfigMap); ok {
				*reads++
			}
			return c.Get(ctx, key, o, opts...)
		},
	})
	w.applier = NewApplier(w.cached, live, w.count)
	w.pass(deployment())
	w.writes = nil
	return w, reads
}

func TestApplier_FollowsTheDeletionPolicy(t *testing.T) {
	w, reads := withPolicyWorld(t)
	apply := func(p common.DeletionPolicy, wantReads int, wantOwners []string, want ...string) {
		t.Helper()
		if _, err := w.applier.Apply(t.Context(), ownerWith(p), deployment()); err != nil {
			t.Fatal(err)
		}
		w.wrote(want...)
		diff(t, "reads of the owner", wantReads, *reads)
		diff(t, "owners", wantOwners, owners(w))
	}
	apply(common.DeletionPolicyDelete, 0, bound)
	apply(common.DeletionPolicyOrphan, 0, free, "apply")
	apply(common.DeletionPolicyOrphan, 0, free)
	byHand(w, "web", &appsv1.Deployment{}, func(d *appsv1.Deployment) { delete(d.Annotations, naming.AnnotationOrphanOf) })
	apply(common.DeletionPolicyOrphan, 0, free, "apply")
	// The garbage collector would delete the child of an owner that does not exist.
	apply(common.DeletionPolicyDelete, 1, bound, "apply")
	apply(common.DeletionPolicyDelete, 1, bound)
}

func TestApplier_BindsAChildThatIsUselessWithoutItsOwner(t *testing.T) {
	w := newWorld(t)
	in := deployment()
	in.DeleteOnOrphan = true
	if _, err := w.applier.Apply(t.Context(), ownerWith(common.DeletionPolicyOrphan), in); err != nil {
		t.Fatal(err)
	}
	diff(t, "owners", bound, owners(w))
}

// setOwner is what a reconcile does after it has applied, or not applied, a child.
func (w *world) setOwner(p common.DeletionPolicy) error {
	return w.applier.SetOwnerOf(w.t.Context(), ownerWith(p), deployment())
}

func TestApplier_SetOwner(t *testing.T) {
	w, _ := withPolicyWorld(t)
	set := func(p common.DeletionPolicy, wantOwners []string, want ...string) {
		t.Helper()
		before := stored(w, "web", &appsv1.Deployment{})
		if err := w.setOwner(p); err != nil {
			t.Fatal(err)
		}
		w.wrote(want...)
		after := stored(w, "web", &appsv1.Deployment{})
		diff(t, "owners", wantOwners, owners(w))
		diff(t, "spec", before.Spec, after.Spec)
		diff(t, "hash", before.Annotations[naming.AnnotationApplied], after.Annotations[naming.AnnotationApplied])
		diff(t, "owner", string(ownerUID), after.Annotations[naming.AnnotationOwner])
	}
	apply := func(p common.DeletionPolicy, want ...string) {
		t.Helper()
		if _, err := w.applier.Apply(t.Context(), ownerWith(p), deployment()); err != nil {
			t.Fatal(err)
		}
		w.wrote(want...)
	}
	const keep, remove = common.DeletionPolicyOrphan, common.DeletionPolicyDelete
	set(remove, bound)
	set(keep, free, patched)
	set(keep, free)
	set(remove, bound, patched)
	set(keep, free, patched)

	// What was written separately is neither lost nor left behind.
	apply(keep, "apply")
	set(keep, free)
	apply(remove, "apply")
	set(remove, bound, patched) // the annotation
	set(remove, bound)
	set(keep, free, patched)
	set(remove, bound, patched)
	apply(keep, "apply")
	set(keep, free, patched) // the owner reference
	apply(keep)
	set(keep, free)
}

func TestApplier_SetOwnerNamesTheOwnerOfAChildWithoutAnnotations(t *testing.T) {
	w, _ := withPolicyWorld(t)
	byHand(w, "web", &appsv1.Deployment{}, func(d *appsv1.Deployment) { d.Annotations = nil })
	if err := w.setOwner(common.DeletionPolicyOrphan); err != nil {
		t.Fatal(err)
	}
	diff(t, "owners", free, owners(w))
	if d := stored(w, "web", &appsv1.Deployment{}); !Owns(owner().Object, d) {
		t.Errorf("nothing names its owner: %v", d.ObjectMeta)
	}
}

func TestApplier_SetOwnerLeavesOthersAlone(t *testing.T) {
	for name, change := range map[string]func(*appsv1.Deployment){
		"of another object":       func(d *appsv1.Deployment) { d.OwnerReferences[0].UID = "other" },
		"without anything":        func(d *appsv1.Deployment) { d.OwnerReferences, d.Annotations = nil, nil },
		"managed by another tool": func(d *appsv1.Deployment) { d.OwnerReferences, d.Labels[naming.LabelManagedBy] = nil, "Helm" },
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := withPolicyWorld(t)
			byHand(w, "web", &appsv1.Deployment{}, change)
			if err := w.setOwner(common.DeletionPolicyOrphan); err != nil {
				t.Fatal(err)
			}
			w.wrote()
		})
	}
	t.Run("the reference that the garbage collector removed", func(t *testing.T) {
		w, _ := withPolicyWorld(t)
		byHand(w, "web", &appsv1.Deployment{}, func(d *appsv1.Deployment) { d.OwnerReferences = nil })
		if err := w.setOwner(common.DeletionPolicyDelete); err != nil {
			t.Fatal(err)
		}
		w.wrote()
	})
	t.Run("other owners", func(t *testing.T) {
		w, _ := withPolicyWorld(t)
		byHand(w, "web", &appsv1.Deployment{}, func(d *appsv1.Deployment) {
			d.OwnerReferences = append(d.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "app", UID: "app"})
		})
		if err := w.setOwner(common.DeletionPolicyOrphan); err != nil {
			t.Fatal(err)
		}
		diff(t, "owners", []string{"ConfigMap", free[0]}, owners(w))
	})
}

// A reference to an owner that no longer exists would delete a child that was to be kept.
func TestApplier_SetOwnerBindsNothingToADeletedOwner(t *testing.T) {
	w, _ := withPolicyWorld(t)
	if err := w.setOwner(common.DeletionPolicyOrphan); err != nil {
		t.Fatal(err)
	}
	w.writes = nil
	w.replaceOwner(nil)
	if err := w.setOwner(common.DeletionPolicyDelete); fault.Classify(err).Class != fault.Quiet {
		t.Errorf("got %v", err)
	}
	w.wrote()
}

// A backup that is restored contains the children as they were, and the owner has another
// UID.
func TestApplier_AdoptsOrphansOfAnEarlierObjectOfTheName(t *testing.T) {
	earlier := ownerWith(common.DeletionPolicyOrphan)
	earlier.Object.SetUID("earlier")
	for name, tc := range map[string]struct {
		policy common.DeletionPolicy
		owners []string
	}{
		"keeps":   {common.DeletionPolicyOrphan, free},
		"deletes": {common.DeletionPolicyDelete, bound},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if _, err := w.applier.Apply(t.Context(), earlier, deployment()); err != nil {
				t.Fatal(err)
			}
			if _, err := w.applier.Apply(t.Context(), ownerWith(tc.policy), deployment()); err != nil {
				t.Fatal(err)
			}
			diff(t, "owners", tc.owners, owners(w))
			diff(t, "owner", string(ownerUID), stored(w, "web", &appsv1.Deployment{}).Annotations[naming.AnnotationOwner])
		})
	}
	t.Run("of another name", func(t *testing.T) {
		w := newWorld(t)
		another := ownerWith(common.DeletionPolicyOrphan)
		another.Object.SetUID("another")
		another.Object.SetName("another")
		if _, err := w.applier.Apply(t.Context(), another, deployment()); err != nil {
			t.Fatal(err)
		}
		_, err := w.applier.Apply(t.Context(), ownerWith(common.DeletionPolicyOrphan), deployment())
		if v := fault.Classify(err); v.Reason != common.ReasonConflict {
			t.Errorf("got %v", err)
		}
	})
}

func TestApplier_AdoptsOnlyChildrenOfAnEarlierObject(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*appsv1.Deployment)
		adopts bool
	}{
		"of an earlier object":    {func(*appsv1.Deployment) {}, true},
		"of this object":          {func(d *appsv1.Deployment) { d.Annotations[naming.AnnotationOwner] = string(ownerUID) }, false},
		"with a controller":       {func(d *appsv1.Deployment) { d.OwnerReferences = ownedBy("my.domain/v1", "WebServer", "web", "earlier") }, false},
		"of another object":       {func(d *appsv1.Deployment) { d.Spec.Template.Labels = map[string]string{"app": "shop"} }, false},
		"an orphan of another":    {func(d *appsv1.Deployment) { d.Annotations[naming.AnnotationOrphanOf] = "WebServer.my.domain/shop" }, false},
		"not by the operator":     {func(d *appsv1.Deployment) { delete(d.Annotations, naming.AnnotationApplied) }, false},
		"managed by another tool": {func(d *appsv1.Deployment) { d.Annotations["meta.helm.sh/release-name"] = "web" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := withPolicyWorld(t)
			byHand(w, "web", &appsv1.Deployment{}, func(d *appsv1.Deployment) {
				d.OwnerReferences, d.Annotations[naming.AnnotationOwner] = nil, "earlier"
				tc.change(d)
			})
			live := stored(w, "web", &appsv1.Deployment{})
			adopted, err := w.applier.Adopt(t.Context(), owner(), "Deployment", live, map[string]string{"app": "web"}, true)
			if err != nil || adopted != tc.adopts {
				t.Fatalf("adopted %v, error %v", adopted, err)
			}
			if now := stored(w, "web", &appsv1.Deployment{}); tc.adopts && (!metav1.IsControlledBy(now, owner().Object) || naming.OwnerUID(now) != ownerUID) {
				t.Errorf("not adopted: %v", now.ObjectMeta)
			}
		})
	}
}
