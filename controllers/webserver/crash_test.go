//go:build envtest

package webserver

import (
	"context"
	"errors"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/platform-operator/platform-operator/apis/common"
	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/testkit"
)

// TestCrash kills the operator before and after each of its writes.
func TestCrash(t *testing.T) {
	t.Parallel()
	testkit.Campaign{
		Env: env, Subject: subject(),
		Parents: []client.Object{&webserverv1.WebServer{}},
		Serves:  serves,
		Scenarios: []testkit.Scenario{
			{Name: "create", Act: createFleet, Converged: fleetReady},
			edit("update-image", func(s *webserverv1.WebServerSpec) { s.Image = "nginx:1.23.0" }),
			edit("scale-up", func(s *webserverv1.WebServerSpec) { s.Replicas = new(int32(4)) }),
			edit("scale-to-0", func(s *webserverv1.WebServerSpec) { s.Replicas = new(int32(0)) }),
			edit("change-port", func(s *webserverv1.WebServerSpec) { s.Service = &webserverv1.ServiceSpec{Port: new(int32(8080))} }),
			edit("change-all", func(s *webserverv1.WebServerSpec) {
				s.Image, s.Replicas = "nginx:1.23.0", new(int32(4))
				s.Service = &webserverv1.ServiceSpec{Port: new(int32(8080))}
			}),
			{Name: "delete", Prepare: fleet(), Act: deleteFleet, Converged: all(fleetGone, childrenGone)},
			{Name: "delete-orphan", Prepare: fleet(orphan), Act: deleteFleet, Converged: all(fleetGone, childrenFree), Orphans: true},
			{Name: "re-create", Prepare: fleet(), Act: inTurn(deleteFleet, createFleet), Converged: fleetReady},
			{Name: "delete-service", Prepare: fleet(), Act: deleteChild(&corev1.Service{}, "web-service"), Converged: fleetReady},
			{Name: "delete-deployment", Prepare: fleet(), Act: deleteChild(&appsv1.Deployment{}, "web"), Converged: fleetReady},
			{Name: "switch-to-orphan", Prepare: fleet(), Act: change(orphan), Converged: all(fleetReady, finalized(true))},
			{Name: "switch-to-delete", Prepare: fleet(orphan), Act: change(func(w *webserverv1.WebServer) {
				w.Spec.DeletionPolicy = common.DeletionPolicyDelete
			}), Converged: all(fleetReady, finalized(false))},
		},
	}.Test(t)
}

type (
	act  = func(context.Context, testkit.World) error
	done = func(context.Context, testkit.World) (bool, error)
)

func edit(name string, what func(*webserverv1.WebServerSpec)) testkit.Scenario {
	return testkit.Scenario{
		Name: name, Prepare: fleet(), Converged: fleetReady,
		Act: change(func(w *webserverv1.WebServer) { what(&w.Spec) }),
	}
}

func orphan(w *webserverv1.WebServer) { w.Spec.DeletionPolicy = common.DeletionPolicyOrphan }

func createFleet(ctx context.Context, w testkit.World) error {
	return w.Create(ctx, webServer(w.Namespace, "web"))
}

// fleet prepares a WebServer that serves.
func fleet(how ...func(*webserverv1.WebServer)) act {
	return func(ctx context.Context, w testkit.World) error {
		if err := w.Create(ctx, webServer(w.Namespace, "web", how...)); err != nil {
			return err
		}
		return testkit.Eventually(ctx, "the fleet to be Ready", func(ctx context.Context) (bool, error) { return fleetReady(ctx, w) })
	}
}

func change(what func(*webserverv1.WebServer)) act {
	return func(ctx context.Context, w testkit.World) error {
		f := &webserverv1.WebServer{}
		return w.Edit(ctx, "web", f, func() { what(f) })
	}
}

func deleteFleet(ctx context.Context, w testkit.World) error {
	f := &webserverv1.WebServer{}
	if err := w.Get(ctx, "web", f); err != nil {
		return err
	}
	return w.Client.Delete(ctx, f)
}

func deleteChild(c client.Object, name string) act {
	return func(ctx context.Context, w testkit.World) error {
		o := c.DeepCopyObject().(client.Object)
		if err := w.Get(ctx, name, o); err != nil {
			return err
		}
		return w.Client.Delete(ctx, o, client.PropagationPolicy(metav1.DeletePropagationBackground))
	}
}

func inTurn(acts ...act) act {
	return func(ctx context.Context, w testkit.World) error {
		for _, a := range acts {
			if err := a(ctx, w); err != nil {
				return err
			}
		}
		return nil
	}
}

func all(conditions ...done) done {
	return func(ctx context.Context, w testkit.World) (bool, error) {
		for _, c := range conditions {
			if ok, err := c(ctx, w); !ok || err != nil {
				return false, err
			}
		}
		return true, nil
	}
}

// fleetReady is what a user waits for, and that the children are really there.
func fleetReady(ctx context.Context, w testkit.World) (bool, error) {
	f := &webserverv1.WebServer{}
	if err := w.Get(ctx, "web", f); err != nil {
		return false, err
	}
	if f.Status.ObservedGeneration != f.Generation || !meta.IsStatusConditionTrue(f.Status.Conditions, common.ConditionReady) {
		return false, nil
	}
	if err := serves(ctx, w.Client, f); err != nil {
		return false, err
	}
	return true, nil
}

func fleetGone(ctx context.Context, w testkit.World) (bool, error) {
	err := w.Get(ctx, "web", &webserverv1.WebServer{})
	return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
}

func childrenGone(ctx context.Context, w testkit.World) (bool, error) {
	for name, c := range children() {
		if err := w.Get(ctx, name, c); !apierrors.IsNotFound(err) {
			return false, err
		}
	}
	return true, nil
}

// childrenFree tells whether the children are there and nobody's.
func childrenFree(ctx context.Context, w testkit.World) (bool, error) {
	for name, c := range children() {
		if err := w.Get(ctx, name, c); err != nil {
			return false, err
		}
		if len(c.GetOwnerReferences()) > 0 || c.GetLabels()[naming.LabelManagedBy] != "" {
			return false, fmt.Errorf("%T is not free", c)
		}
	}
	return true, nil
}

func children() map[string]client.Object {
	return map[string]client.Object{"web": &appsv1.Deployment{}, "web-service": &corev1.Service{}}
}

func finalized(want bool) done {
	return func(ctx context.Context, w testkit.World) (bool, error) {
		f := &webserverv1.WebServer{}
		err := w.Get(ctx, "web", f)
		return controllerutil.ContainsFinalizer(f, naming.Finalizer) == want, err
	}
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
