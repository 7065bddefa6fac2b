//go:build envtest

package demoapplication

import (
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/apis/common"
	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/resources"
)

// byTheArticle returns the children as the legacy operator creates them, with owner
// references.
func byTheArticle(a *demoapplicationv1.DemoApplication) (*appsv1.Deployment, *corev1.Service) {
	app := map[string]string{"app": a.Name}
	om := metav1.ObjectMeta{
		Namespace: a.Namespace, Name: a.Name,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(a, demoapplicationv1.GroupVersion.WithKind(demoapplicationv1.Kind))},
	}
	container := corev1.Container{
		Name: a.Name, Image: a.Spec.Image, Ports: []corev1.ContainerPort{{ContainerPort: 8081}}, Env: []corev1.EnvVar{{Name: "OLD", Value: "1"}},
	}
	d := &appsv1.Deployment{ObjectMeta: *om.DeepCopy(), Spec: appsv1.DeploymentSpec{
		Replicas: a.Spec.Replica,
		Selector: &metav1.LabelSelector{MatchLabels: app},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: app},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{container}},
		},
	}}
	s := &corev1.Service{ObjectMeta: *om.DeepCopy(), Spec: corev1.ServiceSpec{
		Selector: app, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8081)}},
	}}
	return d, s
}

// versionWhen returns the resource version of the first event that matches.
// Resource versions are ordered across the whole cluster.
func versionWhen(t *testing.T, w watch.Interface, what string, so func(runtime.Object) bool) uint64 {
	t.Helper()
	for {
		select {
		case <-time.After(30 * time.Second):
			t.Fatalf("waited in vain for %s", what)
		case ev := <-w.ResultChan():
			if o, ok := ev.Object.(client.Object); ok && so(o) {
				v, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				return v
			}
		}
	}
}

func TestDemoApplication_AdoptsChildrenOfTheLegacyOperator(t *testing.T) {
	t.Parallel()
	l := env.NewSandbox(t, subject())
	a := application(l.Namespace, "web")
	l.Create(a)
	d, s := byTheArticle(a)
	for _, o := range []client.Object{d, s} {
		if err := env.Admin.Create(t.Context(), o, client.FieldOwner("manager")); err != nil {
			t.Fatal(err)
		}
	}
	deployment, service := d.UID, s.UID
	var seen [2]watch.Interface
	for i, list := range []client.ObjectList{&appsv1.DeploymentList{}, &corev1.ServiceList{}} {
		var err error
		if seen[i], err = env.Admin.Watch(t.Context(), list, client.InNamespace(l.Namespace)); err != nil {
			t.Fatal(err)
		}
		defer seen[i].Stop()
	}
	l.Start()
	l.Ready(a, "web")
	rolledOut := versionWhen(t, seen[0], "pods with both labels alone", func(o runtime.Object) bool {
		d := o.(*appsv1.Deployment)
		return d.Spec.Template.Labels[kindLabel] == "web" && resources.Complete(d)
	})
	switched := versionWhen(t, seen[1], "the Service to select by both", func(o runtime.Object) bool {
		return o.(*corev1.Service).Spec.Selector[kindLabel] == "web"
	})
	if switched < rolledOut {
		t.Errorf("the Service selected by both labels while pods without the second served: at %d, rolled out at %d", switched, rolledOut)
	}
	l.Until("the Service to select by both labels", s, "web", func() bool { return maps.Equal(s.Spec.Selector, a.PodLabels()) })
	l.Get(d, "web")
	if c := d.Spec.Template.Spec.Containers[0]; d.UID != deployment || len(c.Env) != 0 || len(c.Ports) != 2 || c.ReadinessProbe == nil {
		t.Errorf("the Deployment is not taken over in place: UID kept %t, container %+v", d.UID == deployment, c)
	}
	if d.Spec.Template.Labels[kindLabel] != "web" {
		t.Errorf("pod labels %v", d.Spec.Template.Labels)
	}
	if s.UID != service || len(s.Spec.Ports) != 2 {
		t.Errorf("the Service is not taken over in place: UID kept %t, ports %+v", s.UID == service, s.Spec.Ports)
	}
	l.Requests()
	l.Restart()
	l.Expect("restart after the takeover")

	began := time.Now()
	l.Edit(a, "web", func() { a.Spec.Image = "nginx:1.23.0" })
	l.Ready(a, "web")
	const status = "patch demoapplications/status 200"
	l.ExpectOf(time.Since(began), status, "edit after the takeover", "patch controllerrevisions 201", "patch deployments 200", status)
}

func TestDemoApplication_AdoptsTransferredChildren(t *testing.T) {
	t.Parallel()
	l := env.NewSandbox(t, subject())
	a := application(l.Namespace, "web")
	l.Create(a)
	d, s := byTheArticle(a)
	for _, o := range []client.Object{d, s} {
		// As early versions of the legacy operator create them, without owner
		// references, and then annotated.
		o.SetOwnerReferences(nil)
		o.SetAnnotations(map[string]string{naming.AnnotationOwner: string(a.UID)})
		if err := env.Admin.Create(t.Context(), o, client.FieldOwner("manager")); err != nil {
			t.Fatal(err)
		}
	}
	deployment, service := d.UID, s.UID
	l.Start()
	l.Ready(a, "web")
	l.Get(d, "web")
	l.Get(s, "web")
	if d.UID != deployment || s.UID != service || !metav1.IsControlledBy(d, a) || !metav1.IsControlledBy(s, a) {
		t.Errorf("not adopted: owners %v and %v", d.OwnerReferences, s.OwnerReferences)
	}
}

func TestDemoApplication_RemovesAdditionsToExclusivePaths(t *testing.T) {
	t.Parallel()
	l := env.NewSandbox(t, subject()).Start()
	l.Create(application(l.Namespace, "web", func(a *demoapplicationv1.DemoApplication) {
		a.Spec.Env = []common.EnvVar{{Name: "HOST", Value: "db"}, {Name: "URL", Value: "http://$(HOST)"}}
	}))
	l.Ready(&demoapplicationv1.DemoApplication{}, "web")

	s := &corev1.Service{}
	l.Edit(s, "web", func() {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "back-door", Port: 8443, TargetPort: intstr.FromInt32(22)})
	})
	l.Until("the third port to go", s, "web", func() bool { return len(s.Spec.Ports) == 2 })

	d := &appsv1.Deployment{}
	l.Edit(d, "web", func() {
		c := &d.Spec.Template.Spec.Containers[0]
		c.Command, c.Env = []string{"sh"}, append(c.Env, corev1.EnvVar{Name: "A", Value: "b"})
	})
	env := func() []corev1.EnvVar { return d.Spec.Template.Spec.Containers[0].Env }
	l.Until("command and env to go", d, "web", func() bool {
		return d.Spec.Template.Spec.Containers[0].Command == nil && len(env()) == 2
	})
	l.Edit(d, "web", func() { slices.Reverse(env()) }) // $(HOST) is not expanded
	l.Until("the order to be restored", d, "web", func() bool { return env()[0].Name == "HOST" })
}

func TestDemoApplication_ServiceFollowsThePorts(t *testing.T) {
	t.Parallel()
	l := env.NewSandbox(t, subject()).Start()
	a, s := application(l.Namespace, "web"), &corev1.Service{}
	l.Create(a)
	l.Ready(a, "web")
	ports := a.Spec.Ports

	l.Edit(a, "web", func() { a.Spec.Ports = nil })
	l.Gone(s, "web")
	l.Ready(a, "web")
	l.Until("no addresses to be told", a, "web", func() bool { return len(a.Status.Addresses) == 0 })
	l.Requests()

	l.Edit(a, "web", func() { a.Spec.Ports = ports })
	l.Ready(a, "web")
	l.Get(s, "web")
	if s.Spec.Type != corev1.ServiceTypeClusterIP || len(s.Spec.Ports) != 2 {
		t.Errorf("%s with ports %+v", s.Spec.Type, s.Spec.Ports)
	}
	l.Edit(a, "web", func() { a.Spec.Ports[0].NodePort = new(int32(30078)) })
	l.Ready(a, "web")
	l.Until("the node port", s, "web", func() bool {
		return s.Spec.Type == corev1.ServiceTypeNodePort && s.Spec.Ports[0].NodePort == 30078 && s.Spec.Ports[1].NodePort != 0
	})
	l.Edit(a, "web", func() { a.Spec.Ports[0].NodePort = nil })
	l.Until("all node ports to be given back", s, "web", func() bool {
		return s.Spec.Type == corev1.ServiceTypeClusterIP && s.Spec.Ports[0].NodePort == 0 && s.Spec.Ports[1].NodePort == 0
	})
}

// The same port number with two protocols is two ports, wherever lists are merged.
func TestDemoApplication_OnePortWithTwoProtocols(t *testing.T) {
	t.Parallel()
	l := env.NewSandbox(t, subject()).Start()
	a := application(l.Namespace, "web", func(a *demoapplicationv1.DemoApplication) {
		a.Spec.Ports = []demoapplicationv1.Port{{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP}, {Name: "dns-tcp", Port: 53}}
	})
	l.Create(a)
	l.Ready(a, "web")
	l.Requests()
	l.Restart()
	l.Expect("restart")
	s := &corev1.Service{}
	l.Edit(s, "web", func() { s.Spec.Ports = s.Spec.Ports[:1] })
	l.Until("the other protocol to come back", s, "web", func() bool { return len(s.Spec.Ports) == 2 })
	l.Edit(a, "web", func() { a.Spec.Ports = a.Spec.Ports[1:] })
	l.Until("one protocol", s, "web", func() bool { return len(s.Spec.Ports) == 1 && s.Spec.Ports[0].Protocol == corev1.ProtocolTCP })
	d := &appsv1.Deployment{}
	l.Get(d, "web")
	if ports := d.Spec.Template.Spec.Containers[0].Ports; len(ports) != 1 {
		t.Errorf("container's ports %v", ports)
	}
}

func TestDemoApplication_WaitsForATakenNodePort(t *testing.T) {
	t.Parallel()
	l := env.NewSandbox(t, subject())
	holder := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: "holder"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80}}},
	}
	l.Create(holder)
	port := holder.Spec.Ports[0].NodePort
	l.Start()
	a := application(l.Namespace, "web", func(a *demoapplicationv1.DemoApplication) { a.Spec.Ports[0].NodePort = &port })
	l.Create(a)
	l.Stalled(a, "web", common.ReasonNodePortUnavailable)
	l.Until("the pods to serve all the same", a, "web", func() bool { return meta.IsStatusConditionTrue(a.Status.Conditions, common.ConditionAvailable) })
	// Stopped first: if a request to create the Service were canceled after the port is
	// released, the API server could keep the port for minutes.
	l.Stop()
	if err := env.Admin.Delete(t.Context(), holder); err != nil {
		t.Fatal(err)
	}
	l.Start() // it reconciles at once; a running operator would within about a minute
	l.Ready(a, "web")
	s := &corev1.Service{}
	l.Get(s, "web")
	if got := s.Spec.Ports[0].NodePort; got != port {
		t.Errorf("node port %d, want %d", got, port)
	}
}
