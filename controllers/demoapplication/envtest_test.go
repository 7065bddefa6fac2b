//go:build envtest

package demoapplication

import (
	"errors"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/platform-operator/platform-operator/apis/common"
	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
	demoapplicationv1beta1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1beta1"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/testkit"
)

// env is the API server of this package's tests.
var env *testkit.Env

func TestMain(m *testing.M) {
	testkit.Main(m, "../..", func(s *runtime.Scheme) error {
		return errors.Join(clientgoscheme.AddToScheme(s), demoapplicationv1.AddToScheme(s), demoapplicationv1beta1.AddToScheme(s))
	}, func(e *testkit.Env) { env = e })
}

func subject() testkit.Subject {
	return testkit.Subject{
		Children: Kind().Watched(),
		Setup: func(mgr manager.Manager, a *apply.Applier) error {
			return converge.Register(mgr, Kind(), a, 2)
		},
	}
}

// application has no nodePort: those are cluster-wide, and tests run side by side.
func application(ns, name string, change ...func(*demoapplicationv1.DemoApplication)) *demoapplicationv1.DemoApplication {
	a := &demoapplicationv1.DemoApplication{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		Spec: demoapplicationv1.DemoApplicationSpec{
			Image: "nginx:1.23.1", Replica: new(int32(2)),
			Ports: []demoapplicationv1.Port{
				{Name: "http", Port: 80, TargetPort: new(intstr.FromInt32(8080)), AppProtocol: new("http")},
				{Name: "metrics", Port: 9090, TargetPort: new(intstr.FromString("metrics"))},
			},
		},
	}
	for _, c := range change {
		c(a)
	}
	return a
}

func specimen() testkit.Specimen {
	return testkit.Specimen{
		Subject:  subject(),
		Resource: "demoapplications",
		New:      func(ns, name string) converge.Object { return application(ns, name) },
		Children: func(name string) []client.Object {
			return []client.Object{
				&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}},
				&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}},
			}
		},
		// The Service is made in the pass after the Deployment's, which first
		// makes sure that the object still lives.
		Created: []string{"get demoapplications 200"},
		Edit:    func(o converge.Object) { o.(*demoapplicationv1.DemoApplication).Spec.Image = "nginx:1.23.0" },
		Edited:  []string{"patch deployments 200"},
		Orphan: func(o converge.Object) {
			o.(*demoapplicationv1.DemoApplication).Spec.DeletionPolicy = common.DeletionPolicyOrphan
		},
		Serves: serves,
		Stated: func(o converge.Object) [][]byte {
			var all [][]byte
			gvk := metav1.GroupVersionKind(demoapplicationv1.GroupVersion.WithKind(demoapplicationv1.Kind))
			for _, in := range desired(o.(*demoapplicationv1.DemoApplication), Observed{}).Apply {
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
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 5432}}}},
	)
}

func TestLooksAfterItsNamespacesOnly(t *testing.T) {
	t.Parallel()
	env.Namespaces(t, specimen())
}
