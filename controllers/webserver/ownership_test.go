//go:build envtest

package webserver

import (
	"context"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/apis/common"
	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/testkit"
)

func TestWebServer_ChildStatusChangesCauseNoWrite(t *testing.T) {
	t.Parallel()
	l := env.NewSandbox(t, subject()).Start()
	l.Create(webServer(l.Namespace, "web"))
	l.Ready(&webserverv1.WebServer{}, "web")
	l.Requests()
	d := &appsv1.Deployment{}
	l.Get(d, "web")
	before := d.DeepCopy()
	for i := range d.Status.Conditions {
		d.Status.Conditions[i].Message = "said differently"
		d.Status.Conditions[i].LastUpdateTime = metav1.Now()
	}
	if err := env.Admin.Status().Patch(t.Context(), d, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	l.Expect("a child's status says the same in other words")
}

func TestWebServer_KeepsFieldsOfOtherManagers(t *testing.T) {
	t.Parallel()
	l := env.NewSandbox(t, subject()).Start()
	w, d := webServer(l.Namespace, "web"), &appsv1.Deployment{}
	l.Create(w)
	l.Ready(w, "web")
	l.Edit(d, "web", func() {
		d.Labels["team"] = "a"
		d.Spec.Template.Annotations = map[string]string{"kubectl.kubernetes.io/restartedAt": "2026-11-20T10:00:00Z"}
	})
	l.Requests()
	l.Edit(w, "web", func() { w.Spec.Replicas = new(int32(5)) }) // a write by the operator must not remove them
	l.Ready(w, "web")
	l.Get(d, "web")
	if d.Labels["team"] != "a" || d.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"] == "" {
		t.Errorf("something was taken away: labels %v, template %+v", d.Labels, d.Spec.Template)
	}
}

// Writes of children rely on this: a write that is based on an outdated read must
// not revert later changes.
func TestServer_RefusesAnApplyOfAnOutdatedVersion(t *testing.T) {
	t.Parallel()
	l := env.NewSandbox(t, subject())
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: "s"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	l.Create(s)
	outdated := s.ResourceVersion
	l.Edit(s, "s", func() { s.Labels = map[string]string{"a": "b"} })
	apply := func(version string) error {
		return env.Admin.Apply(t.Context(), corev1ac.Service("s", l.Namespace).WithUID(s.UID).WithResourceVersion(version).
			WithLabels(map[string]string{"a": "c"}), client.ForceOwnership, client.FieldOwner(naming.FieldManager))
	}
	if err := apply(outdated); !apierrors.IsConflict(err) {
		t.Errorf("got %v, want a conflict", err)
	}
	if err := apply(s.ResourceVersion); err != nil {
		t.Error(err)
	}
}

func TestWebServer_RemovesAdditionsToExclusivePaths(t *testing.T) {
	t.Parallel()
	l := env.NewSandbox(t, subject()).Start()
	l.Create(webServer(l.Namespace, "web"))
	l.Ready(&webserverv1.WebServer{}, "web")

	s := &corev1.Service{}
	l.Edit(s, "web-service", func() {
		s.Spec.Ports[0].Name = "http"
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "back-door", Port: 8080, TargetPort: intstr.FromInt(22)})
	})
	l.Until("the second port to go", s, "web-service", func() bool { return len(s.Spec.Ports) == 1 && s.Spec.Ports[0].Port == 80 })

	d := &appsv1.Deployment{}
	l.Edit(d, "web", func() {
		c := &d.Spec.Template.Spec.Containers[0]
		c.Command, c.Env = []string{"sh"}, []corev1.EnvVar{{Name: "A", Value: "b"}}
	})
	l.Until("command and env to go", d, "web", func() bool {
		c := d.Spec.Template.Spec.Containers[0]
		return c.Command == nil && c.Env == nil
	})

	// An added container would be in the pods of every revision, so that no change
	// of the spec could end the outage that it causes.
	l.Edit(d, "web", func() {
		p := &d.Spec.Template.Spec
		p.Containers = append(p.Containers, corev1.Container{Name: "sidecar", Image: "busybox:latest", VolumeMounts: []corev1.VolumeMount{{Name: "host", MountPath: "/host"}}})
		p.Volumes = append(p.Volumes, corev1.Volume{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}})
		p.HostPID, p.ServiceAccountName, p.SchedulerName = true, "other", "absent"
		p.Containers[0].LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt(1)}}}
	})
	l.Until("the additions to the template to go", d, "web", func() bool {
		p := d.Spec.Template.Spec
		return len(p.Containers) == 1 && !slices.ContainsFunc(p.Volumes, func(v corev1.Volume) bool { return v.Name == "host" }) &&
			!p.HostPID && p.ServiceAccountName == "" && p.SchedulerName == corev1.DefaultSchedulerName && p.Containers[0].LivenessProbe == nil
	})
	l.Settle()
	l.Requests()
	l.Restart()
	l.Expect("restart: the API server's defaults are no additions")
}

func TestWebServer_AdoptsChildrenOfTheLegacyOperator(t *testing.T) {
	t.Parallel()
	l := env.NewSandbox(t, subject())
	w := webServer(l.Namespace, "web")
	l.Create(w)
	owner := []metav1.OwnerReference{*metav1.NewControllerRef(w, webserverv1.GroupVersion.WithKind(webserverv1.Kind))}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: "web", OwnerReferences: owner}, Spec: appsv1.DeploymentSpec{
		Replicas: new(int32(3)),
		Selector: &metav1.LabelSelector{MatchLabels: w.PodLabels()},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: w.PodLabels()},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "webserver", Image: "nginx:1.23.1", Env: []corev1.EnvVar{{Name: "OLD", Value: "1"}}}}},
		},
	}}
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: "web-service", OwnerReferences: owner, Labels: w.PodLabels()},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Selector: w.PodLabels(), Ports: []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: 80}}},
	}
	for _, o := range []client.Object{d, s} {
		if err := env.Admin.Create(t.Context(), o, client.FieldOwner("manager")); err != nil {
			t.Fatal(err)
		}
	}
	uid, port := d.UID, s.Spec.Ports[0].NodePort
	l.Start()
	l.Ready(w, "web")
	if w.Status.Service.NodePort != port {
		t.Errorf("node port %d became %d", port, w.Status.Service.NodePort)
	}
	if l.Get(s, "web-service"); s.Spec.Ports[0].Name != "" {
		t.Errorf("the port got the name %q, without which proxies know its endpoints", s.Spec.Ports[0].Name)
	}
	l.Get(d, "web")
	if c := d.Spec.Template.Spec.Containers[0]; d.UID != uid || len(c.Env) != 0 || c.ReadinessProbe == nil {
		t.Errorf("not taken over in place: UID kept %t, container %+v", d.UID == uid, c)
	}
	l.Requests()
	l.Restart()
	l.Expect("restart after the takeover")
}

func TestWebServer_AdoptsATransferredChild(t *testing.T) {
	t.Parallel()
	l := env.NewSandbox(t, subject())
	w := webServer(l.Namespace, "web")
	l.Create(w)
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: "web-service", Annotations: map[string]string{naming.AnnotationOwner: string(w.UID)}},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 5432}}},
	}
	l.Create(s)
	uid := s.UID
	l.Start()
	l.Ready(w, "web")
	l.Get(s, "web-service")
	if s.UID != uid || !metav1.IsControlledBy(s, w) || len(s.Spec.Ports) != 1 || s.Spec.Ports[0].Port != 80 {
		t.Errorf("not adopted: owners %v, ports %v", s.OwnerReferences, s.Spec.Ports)
	}
}

// freePortsAtEnd deletes the Services of a sandbox when the test ends: a node port is
// cluster-wide, and the next run of the test on the same server needs it. The sandbox
// has been started.
func freePortsAtEnd(l *testkit.Sandbox) {
	l.Cleanup(func() {
		l.Stop() // an operator would create them again

		// The context of the test is done.
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := l.Admin.DeleteAllOf(ctx, &corev1.Service{}, client.InNamespace(l.Namespace)); err != nil {
			l.Errorf("deleting the Services: %v", err)
		}
	})
}

func TestWebServer_TakenNodePort(t *testing.T) {
	t.Parallel()
	const port = 30077 // in the range that is not used for dynamic allocation
	l := env.NewSandbox(t, subjectWith(config.Platform{WebServer: config.WebServer{ServiceType: corev1.ServiceTypeNodePort, NodePort: port}}))
	holder := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: "holder"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80, NodePort: port}}},
	}
	l.Create(holder)
	l.Start()
	freePortsAtEnd(l)

	preferred := webServer(l.Namespace, "preferred")
	l.Create(preferred)
	l.Ready(preferred, "preferred")
	if got := preferred.Status.Service.NodePort; got == 0 || got == port {
		t.Errorf("the preferred port is taken: node port %d, want another", got)
	}
	asked := webServer(l.Namespace, "asked", func(w *webserverv1.WebServer) { w.Spec.Service = &webserverv1.ServiceSpec{NodePort: new(int32(port))} })
	l.Create(asked)
	l.Stalled(asked, "asked", common.ReasonNodePortUnavailable)
	// A running operator would retry within about a minute; a new one reconciles at
	// once. The first one is stopped while the port is allocated, so that no
	// request of its own can still hold it.
	l.Stop()
	if err := env.Admin.Delete(t.Context(), holder); err != nil {
		t.Fatal(err)
	}
	l.Eventually("the API server to release the port", func(ctx context.Context) (bool, error) {
		try := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: "try"}, Spec: *holder.Spec.DeepCopy()}
		try.Spec.ClusterIP, try.Spec.ClusterIPs = "", nil
		err := env.Admin.Create(ctx, try, client.DryRunAll)
		return err == nil, err
	})
	l.Start()
	l.Ready(asked, "asked")
	if got := asked.Status.Service.NodePort; got != port {
		t.Errorf("the port that was asked for is free: node port %d, want %d", got, port)
	}
}
