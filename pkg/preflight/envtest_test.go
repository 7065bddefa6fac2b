//go:build envtest

package preflight_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
	demoapplicationv1beta1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1beta1"
	"github.com/platform-operator/platform-operator/controllers/demoapplication"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/conditions"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/message"
	"github.com/platform-operator/platform-operator/pkg/preflight"
	"github.com/platform-operator/platform-operator/pkg/resources"
	"github.com/platform-operator/platform-operator/pkg/resources/monitoring"
	"github.com/platform-operator/platform-operator/pkg/rollout"
	"github.com/platform-operator/platform-operator/pkg/testkit"
	"github.com/platform-operator/platform-operator/pkg/workload"
)

// testModel is a model that consists of two functions.
type testModel struct {
	plan         func() (converge.Plan, error)
	updateStatus func(converge.Outcome)
}

func (m testModel) Plan() (converge.Plan, error) { return m.plan() }

func (m testModel) UpdateStatus(out converge.Outcome) { m.updateStatus(out) }

// env is the API server of the tests in this package.
var env *testkit.Env

func TestMain(m *testing.M) {
	testkit.Main(m, "../..", func(s *runtime.Scheme) error {
		return errors.Join(clientgoscheme.AddToScheme(s), demoapplicationv1.AddToScheme(s), demoapplicationv1beta1.AddToScheme(s), gatewayv1.Install(s), monitoring.AddToScheme(s))
	}, func(e *testkit.Env) { env = e })
}

type application = demoapplicationv1.DemoApplication

func object(ns string) *application {
	return &application{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"},
		Spec: demoapplicationv1.DemoApplicationSpec{
			Image: "nginx:1.23.1", Replica: new(int32(2)), Ports: []demoapplicationv1.Port{{Name: "http", Port: 80}},
		},
	}
}

// version returns an operator of a kind that keeps the template contract if
// contract is true. env is the part of its template that an older version does
// not have.
func version(env string, contract bool) converge.AnyKind {
	labels := func(a *application) map[string]string { return map[string]string{"app": a.Name} }
	template := func(a *application) *corev1ac.PodTemplateSpecApplyConfiguration {
		c := corev1ac.Container().WithName("web").WithImage(a.Spec.Image)
		if env != "" {
			c.WithEnv(corev1ac.EnvVar().WithName(env).WithValue("1"))
		}
		return rollout.Restarted(resources.Template(labels(a), resources.PodSpec().WithContainers(c)), a.GetRollout())
	}
	decide := func(a *application, s rollout.Observed) (rollout.Decision, error) {
		return rollout.Decide(rollout.Input{
			Kind: "DemoApplication", Namespace: a.Namespace, Name: a.Name, Labels: labels(a),
			Inputs: a.Spec, Template: template(a), Rollout: a.GetRollout(), Status: a.Status.RolloutStatus,
		}, s)
	}
	return converge.Erase(converge.Kind[*application, rollout.Observed]{
		New:      func() *application { return &application{} },
		NewList:  func() client.ObjectList { return &demoapplicationv1.DemoApplicationList{} },
		Children: []client.Object{&appsv1.Deployment{}, &appsv1.ControllerRevision{}},
		Watches:  []converge.Watch{workload.Pods("app", nil)},
		Log:      converge.LogText{Logger: "preflight", Key: "Preflight"},
		Groups:   message.Deployments,
		Observe: func(ctx context.Context, r converge.Reader, a *application) (rollout.Observed, error) {
			return workload.ObserveRollout(ctx, r, a, a.Name, "app", labels(a))
		},
		Model: func(a *application, s rollout.Observed) converge.Model {
			return testModel{plan: func() (converge.Plan, error) {
				d, err := decide(a, s)
				if err != nil {
					return converge.Plan{}, err
				}
				serves := d.Template
				if !contract {
					serves = template(a)
				}
				return d.Complete(converge.Plan{Apply: []apply.Intent{resources.Deployment(resources.Rolling{
					Name: a.Name, Namespace: a.Namespace, Replicas: a.Spec.Replica, Selector: labels(a),
					Template: serves,
				})}}), nil
			}, updateStatus: func(out converge.Outcome) {
				d, _ := converge.Child[*appsv1.Deployment](out, "Deployment", a.Namespace, a.Name)
				decision, _ := decide(a, s)
				state := decision.Report(&a.Status.RolloutStatus, d, s.Pods, *a.Spec.Replica, "web", out)
				conditions.Report(&a.Status.Status, a.Generation, out.Now, state, out.Problem)
			}}
		},
	})
}

// installed runs an operator until an object of the kind is Ready, and stops
// it.
func installed(t *testing.T, k converge.AnyKind) (*testkit.Sandbox, *application) {
	t.Helper()
	subject := testkit.SubjectOf(func() converge.AnyKind { return k })
	l := env.NewSandbox(t, subject)
	op, err := env.Run(t.Context(), subject, nil, l.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	obj := object(l.Namespace)
	l.Create(obj)
	l.Ready(obj, "web")
	l.Requests() // wait until the operator is at rest
	if err := op.Stop(); err != nil {
		t.Fatal(err)
	}
	l.Requests()
	return l, obj
}

// look runs preflight as the operator's user, and checks its requests.
func look(t *testing.T, l *testkit.Sandbox, k converge.AnyKind) preflight.Report {
	t.Helper()
	before := everything(t, l)
	r, err := preflight.Run(t.Context(), env.Operator, env.Scheme, []converge.AnyKind{k}, preflight.Options{Namespaces: []string{l.Namespace}, Version: "new"})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := r.Table(&out); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", out.String())
	requests, lists := l.Requests(), map[string]int{}
	for _, q := range requests {
		if q.IsWrite() {
			t.Errorf("wrote: %s", q)
		}
		if q.Verb != "list" && q.Code != 404 { // reads of children that would be created
			t.Errorf("requested %s", q)
		}
		if lists[q.Resource]++; q.Verb == "list" && lists[q.Resource] > 1 {
			t.Errorf("listed twice: %s", q)
		}
	}
	if lists["demoapplications"] == 0 || lists["deployments"] == 0 || lists["pods"] == 0 {
		t.Errorf("the audit log lacks requests:\n%s", testkit.Lines(requests))
	}
	if diff := cmp.Diff(before, everything(t, l)); diff != "" {
		t.Errorf("preflight changed something (-before +after):\n%s", diff)
	}
	if len(r.Objects) != 1 {
		t.Fatalf("%d objects: %+v", len(r.Objects), r)
	}
	return r
}

// everything returns the version of every object in the namespace.
func everything(t *testing.T, l *testkit.Sandbox) []string {
	t.Helper()
	var all []string
	for _, list := range []client.ObjectList{&demoapplicationv1.DemoApplicationList{}, &appsv1.DeploymentList{}, &appsv1.ControllerRevisionList{}} {
		if err := l.Admin.List(t.Context(), list, client.InNamespace(l.Namespace)); err != nil {
			t.Fatal(err)
		}
		items, err := runtime.DefaultUnstructuredConverter.ToUnstructured(list)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range items["items"].([]any) {
			m := i.(map[string]any)["metadata"].(map[string]any)
			all = append(all, m["name"].(string)+" "+m["resourceVersion"].(string))
		}
	}
	slices.Sort(all)
	return all
}

func TestRun_SameVersionChangesNothing(t *testing.T) {
	t.Parallel()
	l, _ := installed(t, demoapplication.Kind(config.Default()))
	r := look(t, l, demoapplication.Kind(config.Default()))
	if o := r.Objects[0]; r.ExitCode() != 0 || o.Pods != 0 || len(o.Children)+len(o.Pending)+len(o.Notes) != 0 {
		t.Errorf("got %+v", r)
	}
}

func TestRun_ReportsAPendingTemplate(t *testing.T) {
	t.Parallel()
	l, obj := installed(t, version("", true))
	r := look(t, l, version("NEW", true))
	o := r.Objects[0]
	if r.ExitCode() != 0 || o.Pods != 0 || len(o.Children) != 0 {
		t.Errorf("got %+v", r)
	}
	if diff := cmp.Diff([]string{"spec.containers[web].env would be added"}, o.Pending); diff != "" {
		t.Errorf("pending (-want +got):\n%s", diff)
	}

	// The user's next change replaces the pods. The upgrade is not the cause, but
	// the newer operator would change them, and explains why.
	l.Edit(obj, "web", func() { obj.Spec.Image = "nginx:1.23.0" })
	o = look(t, l, version("NEW", true)).Objects[0]
	if o.Pods != 2 || len(o.Pending) != 0 || len(o.Notes) != 1 || !strings.Contains(o.Notes[0], "latest change of its spec") {
		t.Errorf("got %+v", o)
	}
}

func TestRun_DetectsChangedPods(t *testing.T) {
	t.Parallel()
	l, _ := installed(t, version("", true))
	r := look(t, l, version("NEW", false))
	o := r.Objects[0]
	if r.ExitCode() != 1 || o.Pods != 2 || r.Summary.Pods != 2 || len(o.Children) != 1 {
		t.Fatalf("got %+v", r)
	}
	if c := o.Children[0]; c.Kind != "Deployment" || c.Action != "change" || !slices.Contains(c.Fields, "spec.template.spec.containers[web].env would be added") {
		t.Errorf("got %+v", c)
	}
}

// Removing a field from a template changes the pods, as adding one does. Only
// the API server knows which manager owns the field.
func TestRun_DetectsRemovedTemplateFields(t *testing.T) {
	t.Parallel()
	l, _ := installed(t, version("OLD", true))
	o := look(t, l, version("", false)).Objects[0]
	if o.Pods != 2 || len(o.Children) != 1 || !slices.Contains(o.Children[0].Fields, "spec.template.spec.containers[web].env would be removed") {
		t.Errorf("got %+v", o)
	}
}
