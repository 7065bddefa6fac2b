package testkit

import (
	"context"
	"fmt"
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
)

// specimenName is the name of the only object of a scenario.
const specimenName = "web"

// Crashes kills the operator before and after each write of the scenarios that all
// kinds share, and of those that a kind adds.
func (e *Env) Crashes(t *testing.T, s KindUnderTest, more ...Scenario) {
	scenarios := []Scenario{
		{Name: "create", Act: s.create, Converged: s.Ready},
		s.Editing("edit", s.Edit),
		{Name: "delete", Prepare: s.Prepared(nil), Act: s.remove, Converged: s.gone(true)},
		{Name: "delete-orphan", Prepare: s.Prepared(s.Orphan), Act: s.remove, Converged: s.gone(false), Orphans: true},
		{Name: "re-create", Prepare: s.Prepared(nil), Converged: s.Ready, Act: func(ctx context.Context, w World) error {
			if err := s.remove(ctx, w); err != nil {
				return err
			}
			return s.create(ctx, w)
		}},
		{Name: "switch-to-orphan", Prepare: s.Prepared(nil), Act: s.edit(s.Orphan), Converged: s.finalized},
	}
	for _, c := range s.Children(specimenName) {
		scenarios = append(scenarios, s.Losing(c))
	}
	Campaign{
		Env: e, Subject: s.Subject, Parents: []client.Object{s.New("", specimenName)}, Serves: s.Serves,
		Scenarios: append(scenarios, more...),
	}.Test(t)
}

// Editing returns the scenario of an edit.
func (s KindUnderTest) Editing(name string, change func(converge.Object)) Scenario {
	return Scenario{Name: name, Prepare: s.Prepared(nil), Act: s.edit(change), Converged: s.Ready}
}

// Losing returns the scenario of a child that is deleted manually.
func (s KindUnderTest) Losing(child client.Object) Scenario {
	return Scenario{
		Name: "lose-" + resourceOf(child), Prepare: s.Prepared(nil), Converged: s.Ready,
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
func (s KindUnderTest) Prepared(change func(converge.Object)) func(context.Context, World) error {
	return func(ctx context.Context, w World) error {
		o := s.New(w.Namespace, specimenName)
		if change != nil {
			change(o)
		}
		if err := w.Create(ctx, o); err != nil {
			return err
		}
		return Eventually(ctx, "the object to be Ready", func(ctx context.Context) (bool, error) { return s.Ready(ctx, w) })
	}
}

// Ready reports whether the object is Ready, and whether its children really exist.
func (s KindUnderTest) Ready(ctx context.Context, w World) (bool, error) {
	o := s.New(w.Namespace, specimenName)
	if err := w.Get(ctx, specimenName, o); err != nil {
		return false, err
	}
	if o.GetStatus().ObservedGeneration != o.GetGeneration() || !meta.IsStatusConditionTrue(o.GetStatus().Conditions, common.ConditionReady) {
		return false, nil
	}
	err := s.Serves(ctx, w.Client, o)
	return err == nil, err
}

func (s KindUnderTest) create(ctx context.Context, w World) error {
	return w.Create(ctx, s.New(w.Namespace, specimenName))
}

func (s KindUnderTest) edit(change func(converge.Object)) func(context.Context, World) error {
	return func(ctx context.Context, w World) error {
		o := s.New(w.Namespace, specimenName)
		return w.Edit(ctx, specimenName, o, func() { change(o) })
	}
}

func (s KindUnderTest) remove(ctx context.Context, w World) error {
	o := s.New(w.Namespace, specimenName)
	if err := w.Get(ctx, specimenName, o); err != nil {
		return err
	}
	return w.Client.Delete(ctx, o)
}

// gone reports whether the object is deleted, and its children are deleted too or
// released.
func (s KindUnderTest) gone(children bool) func(context.Context, World) (bool, error) {
	return func(ctx context.Context, w World) (bool, error) {
		if err := w.Get(ctx, specimenName, s.New(w.Namespace, specimenName)); !apierrors.IsNotFound(err) {
			return false, err
		}
		for _, c := range s.Children(specimenName) {
			err := w.Get(ctx, c.GetName(), c)
			switch {
			case children && !apierrors.IsNotFound(err):
				return false, err
			case !children && err != nil:
				return false, err
			case !children && (len(c.GetOwnerReferences()) > 0 || c.GetLabels()[naming.LabelManagedBy] != ""):
				return false, fmt.Errorf("%T is not free", c)
			}
			// The Deployment controller observes that the operator's annotations
			// are removed.
			if d, ok := c.(*appsv1.Deployment); ok && !children && d.Status.ObservedGeneration != d.Generation {
				return false, nil
			}
		}
		return true, nil
	}
}

func (s KindUnderTest) finalized(ctx context.Context, w World) (bool, error) {
	if ok, err := s.Ready(ctx, w); !ok {
		return false, err
	}
	o := s.New(w.Namespace, specimenName)
	err := w.Get(ctx, specimenName, o)
	return err == nil && controllerutil.ContainsFinalizer(o, naming.Finalizer), err
}
