//go:build envtest

package demoapplication

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/testkit"
)

// TestCrash kills the operator before and after each of its writes.
func TestCrash(t *testing.T) {
	t.Parallel()
	s := specimen()
	edit := func(name string, change func(*demoapplicationv1.DemoApplicationSpec)) testkit.Scenario {
		return s.Editing(name, func(o converge.Object) { change(&o.(*demoapplicationv1.DemoApplication).Spec) })
	}
	bare := edit("add-ports", func(s *demoapplicationv1.DemoApplicationSpec) { s.Ports = application("", "").Spec.Ports })
	bare.Prepare = s.Prepared(func(o converge.Object) { o.(*demoapplicationv1.DemoApplication).Spec.Ports = nil })
	env.Crashes(t, s,
		edit("scale-up", func(s *demoapplicationv1.DemoApplicationSpec) { s.Replica = new(int32(4)) }),
		edit("scale-to-0", func(s *demoapplicationv1.DemoApplicationSpec) { s.Replica = new(int32(0)) }),
		edit("change-ports", func(s *demoapplicationv1.DemoApplicationSpec) {
			s.Ports = []demoapplicationv1.Port{{Port: 81, TargetPort: new(intstr.FromInt32(8080))}}
		}),
		edit("remove-ports", func(s *demoapplicationv1.DemoApplicationSpec) { s.Ports = nil }),
		bare,
		edit("change-all", func(s *demoapplicationv1.DemoApplicationSpec) {
			s.Image, s.Replica = "nginx:1.23.0", new(int32(4))
			s.Ports = []demoapplicationv1.Port{{Port: 81}}
		}),
	)
}

// serves says what of a DemoApplication's spec is not yet so. It is written
// from the API's documentation, apart from what the controller does.
func serves(ctx context.Context, r client.Reader, parent client.Object) error {
	a := parent.(*demoapplicationv1.DemoApplication)
	d, s := &appsv1.Deployment{}, &corev1.Service{}
	if err := r.Get(ctx, client.ObjectKeyFromObject(a), d); err != nil {
		return err
	}
	want := int32(1)
	if a.Spec.Replica != nil {
		want = *a.Spec.Replica
	}
	switch {
	case !metav1.IsControlledBy(d, a):
		return errors.New("the Deployment is not its own")
	case d.DeletionTimestamp != nil:
		return errors.New("the Deployment is being deleted")
	case d.Spec.Template.Spec.Containers[0].Image != a.Spec.Image:
		return fmt.Errorf("the Deployment has image %s", d.Spec.Template.Spec.Containers[0].Image)
	case *d.Spec.Replicas != want:
		return fmt.Errorf("the Deployment has %d replicas", *d.Spec.Replicas)
	case d.Status.ObservedGeneration != d.Generation, d.Status.UpdatedReplicas != want, d.Status.AvailableReplicas != want:
		return errors.New("the Deployment is not rolled out")
	}
	switch err := r.Get(ctx, client.ObjectKeyFromObject(a), s); {
	case len(a.Spec.Ports) == 0 && apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	case len(a.Spec.Ports) == 0:
		return errors.New("there is a Service for no port")
	case !metav1.IsControlledBy(s, a):
		return errors.New("the Service is not its own")
	case s.DeletionTimestamp != nil:
		return errors.New("the Service is being deleted")
	case len(s.Spec.Ports) != len(a.Spec.Ports), s.Spec.Ports[0].Port != a.Spec.Ports[0].Port:
		return fmt.Errorf("the Service has ports %v", s.Spec.Ports)
	case !maps.Equal(s.Spec.Selector, map[string]string{"app": a.Name, "demoapplication_cr": a.Name}):
		return fmt.Errorf("the Service selects %v", s.Spec.Selector)
	}
	return nil
}
