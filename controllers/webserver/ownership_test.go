//go:build envtest

package webserver

import (
	"context"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/apis/common"
	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

var gvk = metav1.GroupVersionKind{Group: "my.domain", Version: "v1", Kind: "WebServer"}

// stated returns what is stated of each child of a WebServer as it stands.
func stated(t *testing.T, w *webserverv1.WebServer) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	for _, in := range desired(w, Observed{}, config.WebServer{ServiceType: corev1.ServiceTypeNodePort}).Apply {
		raw, err := in.Object(w, gvk)
		if err != nil {
			t.Fatal(err)
		}
		all[in.Kind] = raw
	}
	return all
}

func TestEveryStatedFieldComesBack(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.create(webServer(l.ns, "web"))
	w := l.ready("web")
	for kind, raw := range stated(t, w) {
		drifts, err := env.Drifts(t.Context(), raw)
		if err != nil {
			t.Fatal(err)
		}
		tried := 0
		for _, d := range drifts {
			if d.Refused {
				t.Logf("%s %s", kind, d)
				continue
			}
			tried++
			// What others put where only we may write belongs to them until
			// we claim it, which is a request of its own.
			most := 1
			// Without our label a child is out of the cache's sight: the first
			// request only finds that it is there.
			if strings.HasPrefix(d.Path, "/spec/ports") || strings.Contains(d.Path, "/containers/0/ports") || strings.HasSuffix(d.Path, "managed-by") {
				most = 2
			}
			if !d.Back || d.Writes < 1 || d.Writes > most {
				t.Errorf("%s %s, want back after at most %d", kind, d, most)
			}
		}
		if tried < 10 {
			t.Errorf("%s: only %d fields could be damaged: the test sees nothing", kind, tried)
		}
		t.Logf("%s: %d fields damaged, %d damages refused by the API server", kind, tried, len(drifts)-tried)
	}
}

func TestAdditionsOfOthersStay(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.create(webServer(l.ns, "web"))
	l.ready("web")
	d := &appsv1.Deployment{}
	l.edit(d, "web", func() {
		d.Labels["team"] = "a"
		d.Spec.Template.Annotations = map[string]string{"kubectl.kubernetes.io/restartedAt": "2026-11-20T10:00:00Z"}
		d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, corev1.Container{Name: "sidecar", Image: "busybox:latest"})
	})
	l.requests()
	w := &webserverv1.WebServer{}
	l.edit(w, "web", func() { w.Spec.Replicas = new(int32(5)) }) // a write of ours must not take them away
	l.ready("web")
	l.edit(d, "web", func() {})
	if d.Labels["team"] != "a" || d.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"] == "" || len(d.Spec.Template.Spec.Containers) != 2 {
		t.Errorf("something was taken away: labels %v, template %+v", d.Labels, d.Spec.Template)
	}
}

func TestExclusivePathsAreCleaned(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.create(webServer(l.ns, "web"))
	l.ready("web")

	s := &corev1.Service{}
	l.edit(s, "web-service", func() {
		s.Spec.Ports[0].Name = "http"
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "back-door", Port: 8080, TargetPort: intstr.FromInt(22)})
	})
	l.eventually("the second port to go", func(ctx context.Context) (bool, error) {
		err := env.Admin.Get(ctx, client.ObjectKeyFromObject(s), s)
		return len(s.Spec.Ports) == 1 && s.Spec.Ports[0].Port == 80, err
	})

	d := &appsv1.Deployment{}
	l.edit(d, "web", func() {
		c := &d.Spec.Template.Spec.Containers[0]
		c.Command, c.Env = []string{"sh"}, []corev1.EnvVar{{Name: "A", Value: "b"}}
	})
	l.eventually("command and env to go", func(ctx context.Context) (bool, error) {
		err := env.Admin.Get(ctx, client.ObjectKeyFromObject(d), d)
		c := d.Spec.Template.Spec.Containers[0]
		return c.Command == nil && c.Env == nil, err
	})
}

func TestForeignObjectOfOurNameIsNeverWritten(t *testing.T) {
	t.Parallel()
	foreign := map[string]func(ns string) client.Object{
		"Deployment": func(ns string) client.Object {
			return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}, Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "theirs"}},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "theirs"}},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "theirs:1"}}},
				},
			}}
		},
		"Service": func(ns string) client.Object {
			return &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web-service"},
				Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 5432}}},
			}
		},
	}
	for kind, make := range foreign {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			theirs := make(l.ns)
			if err := env.Admin.Create(t.Context(), theirs); err != nil {
				t.Fatal(err)
			}
			l.create(webServer(l.ns, "web"))
			w := &webserverv1.WebServer{}
			l.eventually("the conflict to be told", func(ctx context.Context) (bool, error) {
				err := env.Admin.Get(ctx, client.ObjectKey{Namespace: l.ns, Name: "web"}, w)
				c := meta.FindStatusCondition(w.Status.Conditions, common.ConditionStalled)
				return c != nil && c.Reason == common.ReasonConflict && strings.Contains(c.Message, kind), err
			})
			for _, r := range l.requests() {
				if r.IsWrite() && r.Succeeded() && r.Name == theirs.GetName() && r.Resource == strings.ToLower(kind)+"s" {
					t.Errorf("wrote to what is not ours: %s", r)
				}
			}
			rv := theirs.GetResourceVersion()
			if err := env.Admin.Get(t.Context(), client.ObjectKeyFromObject(theirs), theirs); err != nil {
				t.Fatal(err)
			}
			if kind == "Service" && theirs.GetResourceVersion() != rv {
				t.Errorf("the foreign Service changed")
			}

			if err := env.Admin.Delete(t.Context(), theirs); err != nil {
				t.Fatal(err)
			}
			l.gone(make(l.ns), theirs.GetName())
			l.restart() // a restart looks at once; a running operator, within about a minute
			l.ready("web")
		})
	}
}

func TestChildrenOfTheArticlesOperatorAreTakenOver(t *testing.T) {
	t.Parallel()
	l := &lab{T: t, ns: newNamespace(t)}
	w := webServer(l.ns, "web")
	l.create(w)
	owner := []metav1.OwnerReference{*metav1.NewControllerRef(w, webserverv1.GroupVersion.WithKind(webserverv1.Kind))}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: "web", OwnerReferences: owner}, Spec: appsv1.DeploymentSpec{
		Replicas: new(int32(3)),
		Selector: &metav1.LabelSelector{MatchLabels: labels(w)},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels(w)},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "webserver", Image: "nginx:1.23.1", Env: []corev1.EnvVar{{Name: "OLD", Value: "1"}}}}},
		},
	}}
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: "web-service", OwnerReferences: owner, Labels: labels(w)},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Selector: labels(w), Ports: []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: 80}}},
	}
	for _, o := range []client.Object{d, s} {
		if err := env.Admin.Create(t.Context(), o, client.FieldOwner("manager")); err != nil {
			t.Fatal(err)
		}
	}
	uid, port := d.UID, s.Spec.Ports[0].NodePort
	l.start()
	st := l.ready("web").Status
	if st.Service.NodePort != port {
		t.Errorf("node port %d became %d", port, st.Service.NodePort)
	}
	l.edit(d, "web", func() {})
	if d.UID != uid || len(d.Spec.Template.Spec.Containers[0].Env) != 0 || d.Spec.Template.Spec.Containers[0].ReadinessProbe == nil {
		t.Errorf("not taken over in place: UID kept %t, container %+v", d.UID == uid, d.Spec.Template.Spec.Containers[0])
	}
	l.requests()
	l.restart()
	l.expect("restart after the takeover")
}

func TestHandedOverChildIsAdopted(t *testing.T) {
	t.Parallel()
	l := &lab{T: t, ns: newNamespace(t)}
	w := webServer(l.ns, "web")
	l.create(w)
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: l.ns, Name: "web-service",
			Annotations: map[string]string{naming.AnnotationOwner: string(w.UID)},
		},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 5432}}},
	}
	if err := env.Admin.Create(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	uid := s.UID
	l.start()
	l.ready("web")
	l.edit(s, "web-service", func() {})
	if s.UID != uid || !metav1.IsControlledBy(s, w) || len(s.Spec.Ports) != 1 || s.Spec.Ports[0].Port != 80 {
		t.Errorf("not adopted: owners %v, ports %v", s.OwnerReferences, s.Spec.Ports)
	}
}

func TestTakenNodePort(t *testing.T) {
	t.Parallel()
	const port = 31234
	l := &lab{T: t, ns: newNamespace(t)}
	taken := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: "holder"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80, NodePort: port}}},
	}
	if err := env.Admin.Create(t.Context(), taken); err != nil {
		t.Fatal(err)
	}
	op, err := env.Run(t.Context(), subjectWith(config.WebServer{ServiceType: corev1.ServiceTypeNodePort, NodePort: port}), nil, l.ns)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(op.Cancel)

	l.create(webServer(l.ns, "any"))
	if st := l.ready("any").Status.Service; st == nil || st.NodePort == 0 || st.NodePort == port {
		t.Errorf("preferred port taken: service %+v, want another port", st)
	}

	l.create(webServer(l.ns, "this", func(w *webserverv1.WebServer) {
		w.Spec.Service = &webserverv1.ServiceSpec{NodePort: new(int32(port))}
	}))
	w := &webserverv1.WebServer{}
	l.eventually("the taken port to be told", func(ctx context.Context) (bool, error) {
		err := env.Admin.Get(ctx, client.ObjectKey{Namespace: l.ns, Name: "this"}, w)
		c := meta.FindStatusCondition(w.Status.Conditions, common.ConditionStalled)
		return c != nil && c.Reason == common.ReasonNodePortUnavailable, err
	})
	if err := env.Admin.Delete(t.Context(), taken); err != nil {
		t.Fatal(err)
	}
	if err := op.Stop(); err != nil {
		t.Fatal(err)
	}
	l.start() // at once; a running operator looks again within about a minute
	if st := l.ready("this").Status.Service; st.NodePort != port {
		t.Errorf("freed port: service %+v, want %d", st, port)
	}
	l.requests()
}
