//go:build envtest

package webserver

import (
	"context"
	"errors"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/testkit"
)

// TestCrash kills the operator before and after each of its writes.
func TestCrash(t *testing.T) {
	t.Parallel()
	s := specimen()
	edit := func(name string, change func(*webserverv1.WebServerSpec)) testkit.Scenario {
		return s.Editing(name, func(o converge.Object) { change(&o.(*webserverv1.WebServer).Spec) })
	}
	env.Crashes(t, s,
		edit("scale-up", func(s *webserverv1.WebServerSpec) { s.Replicas = new(int32(4)) }),
		edit("scale-to-0", func(s *webserverv1.WebServerSpec) { s.Replicas = new(int32(0)) }),
		edit("change-port", func(s *webserverv1.WebServerSpec) { s.Service = &webserverv1.ServiceSpec{Port: new(int32(8080))} }),
		edit("change-all", func(s *webserverv1.WebServerSpec) {
			s.Image, s.Replicas = "nginx:1.23.0", new(int32(4))
			s.Service = &webserverv1.ServiceSpec{Port: new(int32(8080))}
		}),
	)
}

// serves says what of a WebServer's spec is not yet so. It is written from the
// API's documentation, apart from what the controller does.
func serves(ctx context.Context, r client.Reader, parent client.Object) error {
	w := parent.(*webserverv1.WebServer)
	d, s := &appsv1.Deployment{}, &corev1.Service{}
	if err := errors.Join(
		r.Get(ctx, client.ObjectKey{Namespace: w.Namespace, Name: w.Name}, d),
		r.Get(ctx, client.ObjectKey{Namespace: w.Namespace, Name: w.Name + "-service"}, s),
	); err != nil {
		return err
	}
	want := int32(1)
	if w.Spec.Replicas != nil {
		want = *w.Spec.Replicas
	}
	port := int32(80)
	if sv := w.Spec.Service; sv != nil && sv.Port != nil {
		port = *sv.Port
	}
	switch {
	case !metav1.IsControlledBy(d, w), !metav1.IsControlledBy(s, w):
		return errors.New("a child is not its own")
	case d.DeletionTimestamp != nil, s.DeletionTimestamp != nil:
		return errors.New("a child is being deleted")
	case d.Spec.Template.Spec.Containers[0].Image != w.Spec.Image:
		return fmt.Errorf("the Deployment has image %s", d.Spec.Template.Spec.Containers[0].Image)
	case *d.Spec.Replicas != want:
		return fmt.Errorf("the Deployment has %d replicas", *d.Spec.Replicas)
	case d.Status.ObservedGeneration != d.Generation, d.Status.UpdatedReplicas != want, d.Status.AvailableReplicas != want:
		return errors.New("the Deployment is not rolled out")
	case s.Spec.Ports[0].Port != port:
		return fmt.Errorf("the Service has port %d", s.Spec.Ports[0].Port)
	}
	return nil
}
