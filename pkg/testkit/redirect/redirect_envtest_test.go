//go:build envtest

package redirect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/controllers"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/preflight"
	"github.com/platform-operator/platform-operator/pkg/render"
	"github.com/platform-operator/platform-operator/pkg/testkit"
	"github.com/platform-operator/platform-operator/pkg/testkit/redirect/v1alpha1"
)

var env *testkit.Env

func addToScheme(s *runtime.Scheme) error {
	return errors.Join(controllers.AddToScheme(s), v1alpha1.AddToScheme(s))
}

func TestMain(m *testing.M) {
	testkit.MainWithOwnServer(m, "../../..", addToScheme, func(e *testkit.Env) { e.Unconfine(); env = e }, "crd")
}

func redirect(ns, name string) *v1alpha1.Redirect {
	return &v1alpha1.Redirect{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		Spec:       v1alpha1.RedirectSpec{Image: "nginx:1.27.1", To: "https://example.com", Replicas: new(int32(2))},
	}
}

func specimen() testkit.KindUnderTest {
	return testkit.KindUnderTest{
		Subject:  testkit.SubjectOf(func() converge.AnyKind { return Kind(config.Default()) }),
		Resource: "redirects",
		New:      func(ns, name string) converge.Object { return redirect(ns, name) },
		Children: func(name string) []client.Object {
			named := metav1.ObjectMeta{Name: name}
			return []client.Object{&appsv1.Deployment{ObjectMeta: named}, &corev1.Service{ObjectMeta: named}, &policyv1.PodDisruptionBudget{ObjectMeta: named}}
		},
		Created: []string{"patch controllerrevisions 201"},
		Edit:    func(o converge.Object) { o.(*v1alpha1.Redirect).Spec.To = "https://example.org" },
		Edited:  []string{"patch controllerrevisions 201", "patch deployments 200"},
		Scale:   func(o converge.Object, n int32) { o.(*v1alpha1.Redirect).Spec.Replicas = &n },
		Orphan:  func(o converge.Object) { o.(*v1alpha1.Redirect).Spec.DeletionPolicy = common.DeletionPolicyOrphan },
		Serves:  serves,
		Stated: func(o converge.Object) [][]byte {
			model, err := Kind(config.Default()).Offline(context.Background(), o, nil)
			if err != nil {
				panic(err)
			}
			plan, err := model.Plan()
			if err != nil {
				panic(err)
			}
			var all [][]byte
			for _, in := range plan.Apply {
				raw, err := in.Object(o, metav1.GroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.Kind)))
				if err != nil {
					panic(err)
				}
				all = append(all, raw)
			}
			return all
		},
		Own: []string{"/spec/ports", "/spec/template/spec/containers/"},
		TwoWrites: func(path string) bool {
			container := "/spec/template/spec/containers/0/"
			return slices.ContainsFunc([]string{"/spec/ports", container + "ports", container + "env", container + "command"},
				func(p string) bool { return strings.HasPrefix(path, p) })
		},
	}
}

// serves returns an error if the children do not match the spec of a Redirect.
func serves(ctx context.Context, c client.Reader, parent client.Object) error {
	r := parent.(*v1alpha1.Redirect)
	d, s := &appsv1.Deployment{}, &corev1.Service{}
	if err := errors.Join(c.Get(ctx, client.ObjectKeyFromObject(r), d), c.Get(ctx, client.ObjectKeyFromObject(r), s)); err != nil {
		return err
	}
	if to := d.Spec.Template.Spec.Containers[0].Env[0].Value; to != r.Spec.To {
		return fmt.Errorf("it redirects to %s, want %s", to, r.Spec.To)
	}
	if *d.Spec.Replicas != *r.Spec.Replicas || d.Status.ReadyReplicas != *r.Spec.Replicas {
		return fmt.Errorf("%d of %d pods are ready, want %d", d.Status.ReadyReplicas, *d.Spec.Replicas, *r.Spec.Replicas)
	}
	return nil
}

func TestRedirect_RequestBudget(t *testing.T)   { t.Parallel(); env.Budget(t, specimen()) }
func TestRedirect_OrphaningBudget(t *testing.T) { t.Parallel(); env.Orphaning(t, specimen()) }

func TestRedirect_RestoresEveryStatedField(t *testing.T) { t.Parallel(); env.Drifting(t, specimen()) }

func TestRedirect_NeverWritesUnownedObjects(t *testing.T) {
	t.Parallel()
	named := metav1.ObjectMeta{Name: "web"}
	env.Unowned(t, specimen(),
		&corev1.Service{ObjectMeta: named, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 1}}}},
		&policyv1.PodDisruptionBudget{ObjectMeta: named, Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}},
	)
}

func kinds() []converge.AnyKind {
	return append(controllers.Kinds(config.Default()), Kind(config.Default()))
}

func TestRedirect_IsRendered(t *testing.T) {
	const doc = "apiVersion: redirect.example.com/v1alpha1\nkind: Redirect\nmetadata: {name: a}\nspec: {image: nginx, to: 'https://example.com', replicas: 2}\n"
	var out bytes.Buffer
	if err := render.Objects(strings.NewReader(doc), "test", &out, env.Scheme, kinds(), nil); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"Deployment", "Service", "PodDisruptionBudget", "ControllerRevision"} {
		if !strings.Contains(out.String(), "kind: "+kind+"\n") {
			t.Errorf("no %s in\n%s", kind, out.String())
		}
	}
}

func TestRedirect_HasNoFindingsInPreflight(t *testing.T) {
	t.Parallel()
	l := env.NewSandbox(t, specimen().Subject).Start()
	r := redirect(l.Namespace, "web")
	l.Create(r)
	l.Ready(r, "web")
	report, err := preflight.Run(t.Context(), env.AdminConfig, env.Scheme, kinds(), preflight.Options{Namespaces: []string{l.Namespace}})
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Objects) != 1 || report.ExitCode() != 0 || len(report.Objects[0].Children) != 0 {
		t.Errorf("got %+v", report)
	}
}
