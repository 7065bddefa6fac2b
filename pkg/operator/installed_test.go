package operator

import (
	"os"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"
)

// deployment returns the Deployment of config/manager, with the labels that config/default
// and the chart add.
func deployment(t *testing.T, namespace string, edit func(*corev1.PodSpec)) *appsv1.Deployment {
	t.Helper()
	raw, err := os.ReadFile("../../config/manager/deployment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var d appsv1.Deployment
	if err := yaml.Unmarshal(raw, &d); err != nil {
		t.Fatal(err)
	}
	d.Namespace, d.Labels = namespace, InstalledLabels
	edit(&d.Spec.Template.Spec)
	return &d
}

func TestInstalledConfiguration(t *testing.T) {
	unchanged := func(*corev1.PodSpec) {}
	args := func(args ...string) func(*corev1.PodSpec) {
		return func(p *corev1.PodSpec) { p.Containers[0].Args = args }
	}
	for name, tc := range map[string]struct {
		deployments []*appsv1.Deployment
		data        map[string]string // of the ConfigMap; nil if it does not exist
		want        string
		source      string
		err         string
	}{
		"installed": {
			deployments: []*appsv1.Deployment{deployment(t, "ops", unchanged)},
			data:        map[string]string{"platform.yaml": "workers: 3\n"}, want: "workers: 3\n", source: "ConfigMap ops/platform-operator-config",
		},
		"flag with a value of its own": {
			deployments: []*appsv1.Deployment{deployment(t, "ops", args("run", "--config", "/etc/platform-operator/other.yaml"))},
			data:        map[string]string{"other.yaml": "workers: 4\n"}, want: "workers: 4\n", source: "ConfigMap ops/platform-operator-config",
		},
		"item of the volume": {
			deployments: []*appsv1.Deployment{deployment(t, "ops", func(p *corev1.PodSpec) {
				p.Volumes[0].ConfigMap.Items = []corev1.KeyToPath{{Key: "k", Path: "platform.yaml"}}
			})},
			data: map[string]string{"k": "workers: 5\n"}, want: "workers: 5\n", source: "ConfigMap ops/platform-operator-config",
		},
		"no configuration": {deployments: []*appsv1.Deployment{deployment(t, "ops", args("run"))}, source: "Deployment ops/platform-operator"},
		"not a ConfigMap":  {deployments: []*appsv1.Deployment{deployment(t, "ops", args("--config=/elsewhere"))}, err: "not in a ConfigMap"},
		"no ConfigMap":     {deployments: []*appsv1.Deployment{deployment(t, "ops", unchanged)}, err: "not found"},
		"no key":           {deployments: []*appsv1.Deployment{deployment(t, "ops", unchanged)}, data: map[string]string{}, err: "has no key platform.yaml"},
		"not installed":    {err: "no operator is installed"},
		"twice":            {deployments: []*appsv1.Deployment{deployment(t, "a", unchanged), deployment(t, "b", unchanged)}, err: "2 operators are installed, in the namespaces a and b"},
	} {
		t.Run(name, func(t *testing.T) {
			b := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme)
			for _, d := range tc.deployments {
				b.WithObjects(d)
			}
			if tc.data != nil {
				b.WithObjects(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ops", Name: "platform-operator-config"}, Data: tc.data})
			}
			content, source, err := InstalledConfiguration(t.Context(), client.Reader(b.Build()))
			if content != tc.want || source != tc.source || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("got %q from %q, %v", content, source, err)
			}
		})
	}
}
