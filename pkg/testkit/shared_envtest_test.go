//go:build envtest

package testkit

import (
	"path/filepath"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var env *Env

func TestMain(m *testing.M) {
	Main(m, filepath.Join("..", ".."), clientgoscheme.AddToScheme, func(e *Env) { env = e })
}

// startShared starts an environment on the server of this package's tests, as the
// tests of another package would.
func startShared(t *testing.T) *Env {
	t.Helper()
	e, err := startOn(env.Scheme, env.folder, filepath.Join("..", "..", "config", "crd", "bases"))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestStartShared_HidesEarlierTests(t *testing.T) {
	first := startShared(t)
	ns := first.NewNamespace(t)
	labels := map[string]string{"app": "shared"}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "shared"},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a:1"}}},
		}},
	}
	operator, err := client.New(first.Operator, client.Options{Scheme: first.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Admin.Create(t.Context(), deployment); err != nil {
		t.Fatal(err)
	}
	if err := operator.Get(t.Context(), client.ObjectKeyFromObject(deployment), deployment); err != nil {
		t.Fatal(err)
	}
	if rs, err := first.Audit.Requests(t.Context(), ns); err != nil || len(rs) != 1 {
		t.Fatalf("error %v, requests %v, want one", err, rs)
	}
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}

	second := startShared(t)
	if rs, err := second.Audit.Requests(t.Context(), ns); err != nil || len(rs) != 0 {
		t.Errorf("error %v, requests of the earlier tests: %v", err, rs)
	}
	w, err := second.Admin.Watch(t.Context(), &appsv1.DeploymentList{}, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: second.since}})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	later := deployment.DeepCopy()
	later.ResourceVersion, later.UID, later.Name = "", "", "later"
	if err := second.Admin.Create(t.Context(), later); err != nil {
		t.Fatal(err)
	}
	// The events of other tests' Deployments may precede it, but not that of the
	// earlier one.
	for ev := range w.ResultChan() {
		d, ok := ev.Object.(*appsv1.Deployment)
		if !ok || d.UID == deployment.UID && d.ResourceVersion == deployment.ResourceVersion {
			t.Fatalf("%s %+v", ev.Type, ev.Object)
		}
		if d.UID == later.UID {
			break
		}
	}
	if err := second.Stop(); err != nil {
		t.Fatal(err)
	}
}
