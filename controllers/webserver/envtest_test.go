//go:build envtest

package webserver

import (
	"errors"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/platform-operator/platform-operator/apis/common"
	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/testkit"
)

// env is the API server of this package's tests.
var env *testkit.Env

func TestMain(m *testing.M) {
	testkit.Main(m, "../..", func(s *runtime.Scheme) error {
		return errors.Join(clientgoscheme.AddToScheme(s), webserverv1.AddToScheme(s))
	}, func(e *testkit.Env) { env = e })
}

// sideBySide is a platform whose objects do not ask for the same node port,
// which is cluster-wide: tests run side by side.
func sideBySide() config.WebServer {
	return config.WebServer{ServiceType: corev1.ServiceTypeNodePort}
}

func subject() testkit.Subject { return subjectWith(sideBySide()) }

func subjectWith(platform config.WebServer) testkit.Subject {
	return testkit.Subject{
		Children: Kind(platform).Watched(),
		Setup: func(mgr manager.Manager, a *apply.Applier) error {
			return converge.Register(mgr, Kind(platform), a, 2)
		},
	}
}

func webServer(ns, name string, change ...func(*webserverv1.WebServer)) *webserverv1.WebServer {
	w := &webserverv1.WebServer{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		Spec:       webserverv1.WebServerSpec{Image: "nginx:1.23.1", Replicas: new(int32(3))},
	}
	for _, c := range change {
		c(w)
	}
	return w
}

func specimen() testkit.Specimen {
	return testkit.Specimen{
		Subject:  subject(),
		Resource: "webservers",
		New:      func(ns, name string) converge.Object { return webServer(ns, name) },
		Children: func(name string) []client.Object {
			return []client.Object{
				&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}},
				&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name + "-service"}},
			}
		},
		Edit:   func(o converge.Object) { o.(*webserverv1.WebServer).Spec.Image = "nginx:1.23.0" },
		Edited: []string{"patch deployments 200"},
		Orphan: func(o converge.Object) { o.(*webserverv1.WebServer).Spec.DeletionPolicy = common.DeletionPolicyOrphan },
		Serves: serves,
		Stated: func(o converge.Object) [][]byte {
			var all [][]byte
			gvk := metav1.GroupVersionKind(webserverv1.GroupVersion.WithKind(webserverv1.Kind))
			for _, in := range desired(o.(*webserverv1.WebServer), Observed{}, sideBySide()).Apply {
				raw, err := in.Object(o, gvk)
				if err != nil {
					panic(err) // it is what the operator sent a moment ago
				}
				all = append(all, raw)
			}
			return all
		},
		TwoWrites: func(path string) bool {
			return slices.ContainsFunc([]string{"/spec/ports", "/spec/template/spec/containers/0/ports"},
				func(p string) bool { return strings.HasPrefix(path, p) })
		},
	}
}

func TestBudgetOfRequests(t *testing.T) {
	t.Parallel()
	env.Budget(t, specimen())
}

func TestBudgetOfOrphaning(t *testing.T) {
	t.Parallel()
	env.Orphaning(t, specimen())
}

func TestEveryStatedFieldComesBack(t *testing.T) {
	t.Parallel()
	env.Drifting(t, specimen())
}

func TestForeignObjectOfOurNameIsNeverWritten(t *testing.T) {
	t.Parallel()
	env.Foreign(t, specimen(),
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "theirs"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "theirs"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "theirs:1"}}},
			},
		}},
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web-service"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 5432}}}},
	)
}

func TestLooksAfterItsNamespacesOnly(t *testing.T) {
	t.Parallel()
	env.Namespaces(t, specimen())
}
