package controllers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

// The API server raises the generation of a Deployment for annotations too, which is all
// that most upgrades change.
func TestReconcile_UpgradeChangesNoConditions(t *testing.T) {
	for _, k := range Kinds(config.Default()) {
		if !slices.ContainsFunc(k.Children, func(c client.Object) bool { _, ok := c.(*appsv1.Deployment); return ok }) {
			continue
		}
		for name, tc := range map[string]struct {
			before     func(*appsv1.Deployment) // what the upgrade finds
			unobserved bool                     // by the Deployment controller
			after      func(*appsv1.Deployment) // what happens before the controller observes the upgrade
			ready      []metav1.ConditionStatus // after the upgrade, and after that
		}{
			"annotations": {ready: []metav1.ConditionStatus{"True", "True"}},
			"a deadline": {
				before: func(d *appsv1.Deployment) { d.Spec.ProgressDeadlineSeconds = new(int32(99)) },
				ready:  []metav1.ConditionStatus{"True", "True"},
			},
			"fewer replicas": {
				before: func(d *appsv1.Deployment) { *d.Spec.Replicas-- },
				ready:  []metav1.ConditionStatus{"False", "False"},
			},
			"another image": {
				before: func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "example.com/other:1" },
				ready:  []metav1.ConditionStatus{"False", "False"},
			},
			"an unobserved annotation": {
				before:     func(d *appsv1.Deployment) { d.Annotations["example.com/x"] = "y" },
				unobserved: true,
				ready:      []metav1.ConditionStatus{"False", "False"},
			},
			"annotations, then kubectl rollout restart": {
				after: func(d *appsv1.Deployment) { d.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"] = "now" },
				ready: []metav1.ConditionStatus{"True", "False"},
			},
			"annotations, then a lost pod": {
				after: func(d *appsv1.Deployment) { d.Status.AvailableReplicas-- },
				ready: []metav1.ConditionStatus{"True", "False"},
			},
		} {
			t.Run(k.Log.Key+"/"+name, func(t *testing.T) {
				s := newScene(t, k)
				s.generations = true
				before := s.object()
				s.changeDeployment(func(d *appsv1.Deployment) {
					d.Annotations[naming.AnnotationApplied] = "0-earlier"
					if tc.before != nil {
						tc.before(d)
					}
				})
				if !tc.unobserved {
					s.changeDeployment(func(d *appsv1.Deployment) { d.Status.ObservedGeneration = d.Generation })
				}
				s.restart()
				s.writes = 0
				for i := range 2 { // the second one observes what the first one wrote
					s.refresh()
					s.reconcile()
					s.expectReady(fmt.Sprintf("in reconcile %d", i+1), tc.ready[0])
				}
				if s.writes == 0 {
					t.Fatal("the Deployment is not written: the test shows nothing")
				}
				if tc.after != nil {
					s.changeDeployment(tc.after)
					s.refresh()
					s.reconcile()
				}
				s.expectReady("before the Deployment controller observes it", tc.ready[1])
				if tc.ready[1] != metav1.ConditionTrue {
					return
				}
				if diff := cmp.Diff(before.GetStatus(), s.object().GetStatus()); diff != "" || s.writes > 1 {
					t.Errorf("%d writes, and the status has changed (-before +after):\n%s", s.writes, diff)
				}
				if n := len(s.events.Events); n > 0 {
					t.Errorf("%d events, the first of which is %s", n, <-s.events.Events)
				}
			})
		}
	}
}

// object returns the object.
func (s *scene) object() converge.Object {
	s.Helper()
	obj := s.kind.New()
	if err := s.api.Get(s.Context(), s.key, obj); err != nil {
		s.Fatal(err)
	}
	return obj
}

// changeDeployment changes the Deployment of the object.
func (s *scene) changeDeployment(change func(*appsv1.Deployment)) {
	s.Helper()
	d := &appsv1.Deployment{}
	if err := s.api.Get(s.Context(), s.key, d); err != nil {
		s.Fatal(err)
	}
	before := d.DeepCopy()
	change(d)
	raiseGeneration(before, d)
	status := d.Status
	if err := s.api.Update(s.Context(), d); err != nil {
		s.Fatal(err)
	}
	d.Status = status
	if err := s.api.Status().Update(s.Context(), d); err != nil {
		s.Fatal(err)
	}
}

// raiseGeneration sets the generation of a Deployment after a change as the API server does
// (PrepareForUpdate in k8s.io/kubernetes/pkg/registry/apps/deployment).
func raiseGeneration(before, after *appsv1.Deployment) {
	if !equality.Semantic.DeepEqual(before.Spec, after.Spec) || !equality.Semantic.DeepEqual(before.Annotations, after.Annotations) {
		after.Generation = before.Generation + 1
	}
}

func applyWithGeneration(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	in, isDeployment := o.(interface {
		GetKind() *string
		GetName() *string
		GetNamespace() *string
	})
	if !isDeployment || *in.GetKind() != "Deployment" {
		return c.Apply(ctx, o, opts...)
	}
	key := client.ObjectKey{Namespace: *in.GetNamespace(), Name: *in.GetName()}
	before, after := &appsv1.Deployment{}, &appsv1.Deployment{}
	if err := errors.Join(c.Get(ctx, key, before), c.Apply(ctx, o, opts...), c.Get(ctx, key, after)); err != nil {
		return err
	}
	raiseGeneration(before, after)
	if err := c.Update(ctx, after); err != nil {
		return err
	}
	after.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
	raw, err := json.Marshal(after)
	if err != nil {
		return err
	}
	reflect.ValueOf(o).Elem().SetZero()
	return json.Unmarshal(raw, o)
}

func (s *scene) expectReady(when string, want metav1.ConditionStatus) {
	s.Helper()
	c := meta.FindStatusCondition(s.object().GetStatus().Conditions, common.ConditionReady)
	if c == nil || c.Status != want {
		s.Errorf("%s, Ready is %v, want %s", when, c, want)
	}
}
