//go:build envtest

package operator_test

import (
	"bytes"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/operator"
	"github.com/platform-operator/platform-operator/pkg/testkit"
)

// The API server says in the answer to a write that a namespace is being deleted.
func TestReleaseIfDeleted_OfADeletedNamespace(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), webserverv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	env := testkit.Shared(t, scheme)
	system, team := env.NewNamespace(t), env.NewNamespace(t)
	w := &webserverv1.WebServer{
		ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "web", Finalizers: []string{naming.Finalizer}},
		Spec:       webserverv1.WebServerSpec{Image: "nginx:1.27"},
	}
	if err := env.Admin.Create(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	for _, deleted := range []bool{false, true} {
		if deleted {
			if err := env.Admin.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: system}}); err != nil {
				t.Fatal(err)
			}
		}
		var out bytes.Buffer
		if err := operator.ReleaseIfDeleted(t.Context(), env.Admin, system, []client.ObjectList{&webserverv1.WebServerList{}}, &out, team); err != nil {
			t.Fatal(err)
		}
		if err := env.Admin.Get(t.Context(), client.ObjectKeyFromObject(w), w); err != nil {
			t.Fatal(err)
		}
		if held := len(w.Finalizers) > 0; held == deleted {
			t.Errorf("if the namespace is deleted: %t, the object has the finalizer: %t\n%s", deleted, held, out.String())
		}
	}
}
