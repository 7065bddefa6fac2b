//go:build envtest

package resources

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/resources/monitoring"
	"github.com/platform-operator/platform-operator/pkg/testkit/apiserver"
)

// The API server accepts every child, and the fields that it sets do not cause
// a write, which would be repeated forever.
func TestChildren_AreStableInTheAPIServer(t *testing.T) {
	gateway, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/gateway-api").Output()
	if err != nil {
		t.Fatal(err)
	}
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, gatewayv1.Install, monitoring.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	env := &envtest.Environment{Scheme: s, ErrorIfCRDPathMissing: true, CRDDirectoryPaths: []string{
		filepath.Join(strings.TrimSpace(string(gateway)), "config", "crd", "standard", "gateway.networking.k8s.io_httproutes.yaml"),
		filepath.Join("testdata", "podmonitor.yaml"),
	}}
	cfg, err := apiserver.Start(env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	c, err := client.New(cfg, client.Options{Scheme: s})
	if err != nil {
		t.Fatal(err)
	}
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "ns"}}
	for _, o := range []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}, owner} {
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}

	all := func() map[string]apply.Intent {
		in := children(t)
		in["Deployment"] = everyField(t)
		return in
	}
	again, mended, left := all(), all(), all()
	for kind, in := range all() {
		t.Run(kind, func(t *testing.T) {
			for _, pass := range []struct {
				in   apply.Intent
				want apply.Action
			}{{in, apply.Created}, {again[kind], apply.Unchanged}} {
				// A new applier has no memo, as after a restart.
				got, err := apply.NewApplier(c, c, nil).Apply(t.Context(), apply.Owner{
					Object: owner, GVK: metav1.GroupVersionKind{Version: "v1", Kind: "ConfigMap"},
				}, pass.in)
				if err != nil {
					t.Fatal(err)
				}
				if got.Action != pass.want {
					t.Errorf("%s, want %s", got.Action, pass.want)
				}
			}
		})
	}

	t.Run("another strategy", func(t *testing.T) {
		pod := PodSpec().WithContainers(corev1ac.Container().WithName("web").WithImage("web").
			WithEnv(corev1ac.EnvVar().WithName("A").WithValue("\x7f\u0085"))) // YAML cannot contain them
		for _, strategy := range []appsv1.DeploymentStrategyType{"", appsv1.RecreateDeploymentStrategyType, ""} {
			_, err := apply.NewApplier(c, c, nil).Apply(t.Context(), apply.Owner{
				Object: owner, GVK: metav1.GroupVersionKind{Version: "v1", Kind: "ConfigMap"},
			}, Deployment(Rolling{Name: "strategy", Namespace: "ns", Replicas: new(int32(1)), Selector: selector, Template: Template(selector, pod), Rollout: &common.Rollout{Strategy: strategy}}))
			if err != nil {
				t.Fatal(err)
			}
		}
	})

	// Kubernetes stores the service account in two fields, and copies one that
	// remains into the other.
	t.Run("no service account is left behind", func(t *testing.T) {
		for _, account := range []string{"robot", ""} {
			_, err := apply.NewApplier(c, c, nil).Apply(t.Context(), apply.Owner{
				Object: owner, GVK: metav1.GroupVersionKind{Version: "v1", Kind: "ConfigMap"},
			}, asAccount(t, account))
			if err != nil {
				t.Fatal(err)
			}
			d := &appsv1.Deployment{}
			if err := c.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "account"}, d); err != nil {
				t.Fatal(err)
			}
			pod := d.Spec.Template.Spec
			if pod.ServiceAccountName != account || pod.DeprecatedServiceAccount != account || *pod.AutomountServiceAccountToken != (account != "") {
				t.Errorf("%q: the pods run as %q, %q, token %v", account, pod.ServiceAccountName, pod.DeprecatedServiceAccount, *pod.AutomountServiceAccountToken)
			}
		}
	})

	// A change that would allow more peers is reverted, even if no applied
	// field was changed.
	for kind, by := range map[string]struct {
		object client.Object
		patch  string
	}{
		"NetworkPolicy": {&networkingv1.NetworkPolicy{}, `{"spec": {"podSelector": {"matchLabels": {"no": "pod"}}}}`},
	} {
		t.Run(kind+" meddled with", func(t *testing.T) {
			meddle(t, c, by.object, by.patch)
			for _, pass := range []struct {
				in   apply.Intent
				want apply.Action
			}{{mended[kind], apply.Changed}, {left[kind], apply.Unchanged}} {
				got, err := apply.NewApplier(c, c, nil).Apply(t.Context(), apply.Owner{
					Object: owner, GVK: metav1.GroupVersionKind{Version: "v1", Kind: "ConfigMap"},
				}, pass.in)
				if err != nil {
					t.Fatal(err)
				}
				if got.Action != pass.want {
					t.Errorf("%s, want %s", got.Action, pass.want)
				}
			}
		})
	}
}

// asAccount returns a Deployment whose pods run as a service account, or none
// if it is "".
func asAccount(t *testing.T, account string) apply.Intent {
	t.Helper()
	pod, c := built()
	Customize(pod, c, Options{Pod: &common.Pod{ServiceAccountName: account}})
	return apply.New(appsv1ac.Deployment("account", "ns").WithLabels(labels).WithSpec(appsv1ac.DeploymentSpec().
		WithSelector(metav1ac.LabelSelector().WithMatchLabels(selector)).
		WithTemplate(Template(PodLabels(nil, selector), pod.WithContainers(c)))),
		func() *appsv1.Deployment { return &appsv1.Deployment{} })
}

// meddle changes a child manually, and fails the test if the API server rejects
// the change.
func meddle(t *testing.T, c client.Client, o client.Object, patch string) {
	t.Helper()
	o.SetNamespace("ns")
	o.SetName("web")
	if err := c.Patch(t.Context(), o, client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner("kubectl-edit")); err != nil {
		t.Fatal(err)
	}
}

// everyField returns a Deployment whose pods have every field that a user can
// set.
func everyField(t *testing.T) apply.Intent {
	t.Helper()
	pod, c := built()
	o := options(t, everything)
	o.Selector, o.ReadinessPort = selector, 80
	// The classes do not exist in this cluster. Pods would be rejected;
	// Deployments are not.
	Customize(pod, c, o)
	Drain(pod, c, o.Pod, 5)
	return apply.New(appsv1ac.Deployment("web", "ns").WithLabels(labels).WithSpec(appsv1ac.DeploymentSpec().
		WithSelector(metav1ac.LabelSelector().WithMatchLabels(selector)).
		WithTemplate(Template(PodLabels(o.Pod, selector), pod.WithContainers(c)).WithAnnotations(PodAnnotations(o.Pod)))),
		func() *appsv1.Deployment { return &appsv1.Deployment{} })
}
