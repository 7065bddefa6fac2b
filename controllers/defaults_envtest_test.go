//go:build envtest

package controllers_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/yaml"

	"github.com/platform-operator/platform-operator/controllers"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/testkit"
)

// Defaults concern new objects: an operator that is started with others writes nothing.
func TestDefaults_ChangeNoExistingObject(t *testing.T) {
	platform := config.Default()
	l := env.NewSandbox(t, testkit.Subject{
		Children: controllers.Children(platform), Kinds: controllers.Objects(platform),
		Setup: func(mgr manager.Manager, a *apply.Applier) error {
			return controllers.Setup(mgr, a, platform, nil)
		},
	}).Start()
	files, err := filepath.Glob("../config/samples/*_*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(files, "../config/samples/webserver.yaml", "../config/samples/memcached.yaml", "../config/samples/immortalcontainer.yaml") {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(raw, &o.Object); err != nil {
			t.Fatal(err)
		}
		o.SetNamespace(l.Namespace)
		l.Create(o)
		l.Eventually(o.GetName()+" to be observed", func(ctx context.Context) (bool, error) {
			err := l.Admin.Get(ctx, client.ObjectKeyFromObject(o), o)
			observed, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
			return observed == o.GetGeneration(), err
		})
	}
	l.Settle()
	l.Requests()
	var deployments appsv1.DeploymentList
	if err := l.Admin.List(t.Context(), &deployments, client.InNamespace(l.Namespace)); err != nil || len(deployments.Items) < 4 {
		t.Fatalf("%d Deployments, error %v", len(deployments.Items), err)
	}
	if err := yaml.Unmarshal([]byte(`
- spec: {resources: {requests: {cpu: 1m}}, networkPolicy: {preset: Isolated}, security: {runAsGroup: 7}, pod: {labels: {team: a}}}
- kinds: [WebServer, DemoApplication]
  spec: {probes: {liveness: {tcpSocket: {port: 80}}}, rollout: {minReadySeconds: 5}, podDisruptionBudget: {minAvailable: 1}, service: {type: ClusterIP}}
`), &platform.Defaults); err != nil {
		t.Fatal(err)
	}
	l.Restart()
	l.ExpectNone("restart with other defaults")
}
