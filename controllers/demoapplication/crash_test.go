//go:build envtest

package demoapplication

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/apis/common"
	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/testkit"
	"github.com/platform-operator/platform-operator/pkg/testkit/crash"
)

// TestCrash kills the operator at each write that the ports and the replicas of a
// DemoApplication cause. What it does like a WebServer is tested there.
func TestCrash(t *testing.T) {
	t.Parallel()
	s := crash.Kind{KindUnderTest: specimen()}
	edit := func(name string, change func(*demoapplicationv1.DemoApplicationSpec)) crash.Scenario {
		return s.Editing(name, func(o converge.Object) { change(&o.(*demoapplicationv1.DemoApplication).Spec) })
	}
	bare := edit("add-ports", func(s *demoapplicationv1.DemoApplicationSpec) { s.Ports = application("", "").Spec.Ports })
	bare.Prepare = s.Prepared(func(o converge.Object) { o.(*demoapplicationv1.DemoApplication).Spec.Ports = nil })
	from := func(name string, prepare, change func(*demoapplicationv1.DemoApplicationSpec)) crash.Scenario {
		c := edit(name, change)
		c.Prepare = s.Prepared(func(o converge.Object) { prepare(&o.(*demoapplicationv1.DemoApplication).Spec) })
		return c
	}
	autoscaled := func(s *demoapplicationv1.DemoApplicationSpec) {
		s.Replica = nil
		s.Autoscaling = &common.Autoscaling{MinReplicas: new(int32(2)), MaxReplicas: 5, TargetCPUUtilizationPercentage: new(int32(70))}
		s.Resources = &common.Resources{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}}
	}
	crash.Test(t, env, s, append(crash.InCampaign(
		edit("remove-ports", func(s *demoapplicationv1.DemoApplicationSpec) { s.Ports = nil }),
		from("autoscale-from-0", func(s *demoapplicationv1.DemoApplicationSpec) { s.Replica = new(int32(0)) }, autoscaled),
	), bare)...)
}

// TestCrash_DuringASecretChange kills the operator at each write that a changed
// Secret causes.
func TestCrash_DuringASecretChange(t *testing.T) {
	t.Parallel()
	s := crash.Kind{KindUnderTest: specimenOf(func(ns, name string, _ ...func(*demoapplicationv1.DemoApplication)) *demoapplicationv1.DemoApplication {
		return application(ns, name, following)
	})}
	s.Subject = subjectWith(readingSecrets())
	prepared := s.Prepared(nil)
	crash.Campaign{
		Env: env, Subject: s.Subject, Parents: []client.Object{s.New("", "web")}, Serves: s.Serves,
		Scenarios: []crash.Scenario{{
			Name: "change-secret", ReadAgain: []string{"secrets"},
			Prepare: func(ctx context.Context, w crash.World) error {
				return errors.Join(w.Create(ctx, password("", "db", "hunter1")), prepared(ctx, w))
			},
			Act: func(ctx context.Context, w crash.World) error {
				db := &corev1.Secret{}
				return w.Edit(ctx, "db", db, func() { db.Data["password"] = []byte("hunter2") })
			},
			Converged: func(ctx context.Context, w crash.World) (bool, error) {
				a := &demoapplicationv1.DemoApplication{}
				if err := w.Get(ctx, "web", a); err != nil || a.Status.Revisions == nil || a.Status.Revisions.LastHealthy != 2 {
					return false, err
				}
				return s.Ready(ctx, w)
			},
		}},
	}.Test(t)
}

// serves returns an error if the children do not match the spec of a
// DemoApplication. It is written from the API documentation, independently of the
// controller.
func serves(ctx context.Context, r client.Reader, parent client.Object) error {
	a := parent.(*demoapplicationv1.DemoApplication)
	d, s := &appsv1.Deployment{}, &corev1.Service{}
	if err := r.Get(ctx, client.ObjectKeyFromObject(a), d); err != nil {
		return err
	}
	want, least := int32(1), int32(1)
	if a.Spec.Replica != nil {
		want, least = *a.Spec.Replica, *a.Spec.Replica
	}
	if as := a.Spec.Autoscaling; as != nil {
		want, least = *d.Spec.Replicas, *as.MinReplicas // all tests that autoscale set minReplicas
		if want == 0 {
			return errors.New("the Deployment is left at no replicas, where an autoscaler does nothing")
		}
	}
	switch {
	case !testkit.IsChild(d, a):
		return errors.New("the Deployment is not its own")
	case d.DeletionTimestamp != nil:
		return errors.New("the Deployment is being deleted")
	case d.Spec.Template.Spec.Containers[0].Image != a.Spec.Image:
		return fmt.Errorf("the Deployment has image %s", d.Spec.Template.Spec.Containers[0].Image)
	case *d.Spec.Replicas != want:
		return fmt.Errorf("the Deployment has %d replicas", *d.Spec.Replicas)
	case !testkit.IsObserved(d, a), d.Status.UpdatedReplicas != want, d.Status.AvailableReplicas != want:
		return errors.New("the Deployment is not rolled out")
	}
	for _, c := range []struct {
		child  client.Object
		wanted bool
	}{
		{s, len(a.Spec.Ports) > 0},
		{&policyv1.PodDisruptionBudget{}, a.Spec.PodDisruptionBudget != nil || least > 0},
		{&autoscalingv2.HorizontalPodAutoscaler{}, a.Spec.Autoscaling != nil},
		{&networkingv1.NetworkPolicy{}, a.Spec.NetworkPolicy != nil},
		{&networkingv1.Ingress{}, a.Spec.Expose != nil},
	} {
		switch err := r.Get(ctx, client.ObjectKeyFromObject(a), c.child); {
		case !c.wanted && apierrors.IsNotFound(err):
		case err != nil:
			return err
		case !c.wanted:
			return fmt.Errorf("unwanted %T exists", c.child)
		case !testkit.IsChild(c.child, a):
			return fmt.Errorf("the %T is not its own", c.child)
		case c.child.GetDeletionTimestamp() != nil:
			return fmt.Errorf("the %T is being deleted", c.child)
		}
	}
	switch {
	case len(a.Spec.Ports) == 0:
		return nil
	case len(s.Spec.Ports) != len(a.Spec.Ports), s.Spec.Ports[0].Port != a.Spec.Ports[0].Port:
		return fmt.Errorf("the Service has ports %v", s.Spec.Ports)
	case !maps.Equal(s.Spec.Selector, map[string]string{"app": a.Name, "demoapplication_cr": a.Name}):
		return fmt.Errorf("the Service selects %v", s.Spec.Selector)
	}
	return nil
}
