package crash

import (
	"context"
	"fmt"
	"os"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/testkit"
)

// specimenName is the name of the only object of a scenario.
const specimenName = "web"

// Kind is a kind under test, with the scenarios that kinds share.
type Kind struct{ testkit.KindUnderTest }

// Test kills the operator at each write of the scenarios.
func Test(t *testing.T, e *testkit.Env, k Kind, scenarios ...Scenario) {
	t.Helper()
	Campaign{
		Env: e, Subject: k.Subject, Parents: []client.Object{k.New("", specimenName)}, Serves: k.Serves,
		Scenarios: scenarios,
	}.Test(t)
}

// InCampaign returns the scenarios if CRASH is all, as in make campaign-crash, and none
// otherwise. They differ from others in the fields that are written, not in the order of
// writes.
func InCampaign(scenarios ...Scenario) []Scenario {
	if os.Getenv("CRASH") == "all" {
		return scenarios
	}
	return nil
}

// Creating returns the scenario of a creation.
func (k Kind) Creating() Scenario {
	return Scenario{Name: "create", Act: k.create, Converged: k.Ready}
}

// Orphaning returns the scenario of a deletion with the policy Orphan.
func (k Kind) Orphaning() Scenario {
	return Scenario{Name: "delete-orphan", Prepare: k.Prepared(k.Orphan), Act: k.remove, Converged: k.released, Orphans: true}
}

// Recreating returns the scenario of a deletion that another object of the name follows.
func (k Kind) Recreating() Scenario {
	return Scenario{Name: "re-create", Prepare: k.Prepared(nil), Converged: k.Ready, Act: func(ctx context.Context, w World) error {
		if err := k.remove(ctx, w); err != nil {
			return err
		}
		return k.create(ctx, w)
	}}
}

// SwitchingToOrphan returns the scenario of a changed deletion policy.
func (k Kind) SwitchingToOrphan() Scenario {
	return Scenario{Name: "switch-to-orphan", Prepare: k.Prepared(nil), Act: k.edit(k.Orphan), Converged: k.finalized}
}

// Editing returns the scenario of an edit.
func (k Kind) Editing(name string, change func(converge.Object)) Scenario {
	return Scenario{Name: name, Prepare: k.Prepared(nil), Act: k.edit(change), Converged: k.Ready}
}

// Losing returns the scenario of a child that is deleted manually.
func (k Kind) Losing(child client.Object) Scenario {
	return Scenario{
		Name: "lose-" + testkit.ResourceOf(child), Prepare: k.Prepared(nil),
		Converged: func(ctx context.Context, w World) (bool, error) {
			if err := w.Get(ctx, child.GetName(), child.DeepCopyObject().(client.Object)); err != nil {
				return false, err
			}
			return k.Ready(ctx, w)
		},
		Act: func(ctx context.Context, w World) error {
			o := child.DeepCopyObject().(client.Object)
			if err := w.Get(ctx, child.GetName(), o); err != nil {
				return err
			}
			return w.Client.Delete(ctx, o, client.PropagationPolicy(metav1.DeletePropagationBackground))
		},
	}
}

// Prepared creates an object, which change modifies first, and waits until it is
// Ready.
func (k Kind) Prepared(change func(converge.Object)) func(context.Context, World) error {
	return func(ctx context.Context, w World) error {
		o := k.New(w.Namespace, specimenName)
		if change != nil {
			change(o)
		}
		if err := w.Create(ctx, o); err != nil {
			return err
		}
		return testkit.Eventually(ctx, "the object to be Ready", func(ctx context.Context) (bool, error) { return k.Ready(ctx, w) })
	}
}

// Ready reports whether the object is Ready, and whether its children really exist.
func (k Kind) Ready(ctx context.Context, w World) (bool, error) {
	o := k.New(w.Namespace, specimenName)
	if err := w.Get(ctx, specimenName, o); err != nil {
		return false, err
	}
	if o.GetStatus().ObservedGeneration != o.GetGeneration() || !meta.IsStatusConditionTrue(o.GetStatus().Conditions, common.ConditionReady) {
		return false, nil
	}
	err := k.Serves(ctx, w.Client, o)
	return err == nil, err
}

func (k Kind) create(ctx context.Context, w World) error {
	return w.Create(ctx, k.New(w.Namespace, specimenName))
}

func (k Kind) edit(change func(converge.Object)) func(context.Context, World) error {
	return func(ctx context.Context, w World) error {
		o := k.New(w.Namespace, specimenName)
		return w.Edit(ctx, specimenName, o, func() { change(o) })
	}
}

func (k Kind) remove(ctx context.Context, w World) error {
	o := k.New(w.Namespace, specimenName)
	if err := w.Get(ctx, specimenName, o); err != nil {
		return err
	}
	return w.Client.Delete(ctx, o)
}

// released reports whether the object is deleted, and its children are released.
func (k Kind) released(ctx context.Context, w World) (bool, error) {
	if err := w.Get(ctx, specimenName, k.New(w.Namespace, specimenName)); !apierrors.IsNotFound(err) {
		return false, err
	}
	for _, c := range k.Children(specimenName) {
		if err := w.Get(ctx, c.GetName(), c); err != nil {
			return false, err
		}
		if len(c.GetOwnerReferences()) > 0 || c.GetLabels()[naming.LabelManagedBy] != "" {
			return false, fmt.Errorf("%T is not free", c)
		}
		// The Deployment controller observes that the operator's annotations are removed.
		if d, ok := c.(*appsv1.Deployment); ok && d.Status.ObservedGeneration != d.Generation {
			return false, nil
		}
	}
	return true, nil
}

func (k Kind) finalized(ctx context.Context, w World) (bool, error) {
	if ok, err := k.Ready(ctx, w); !ok {
		return false, err
	}
	o := k.New(w.Namespace, specimenName)
	err := w.Get(ctx, specimenName, o)
	return err == nil && controllerutil.ContainsFinalizer(o, naming.Finalizer), err
}
