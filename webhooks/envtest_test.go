//go:build envtest

package webhooks

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/yaml"

	"github.com/platform-operator/platform-operator/controllers"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/testkit/apiserver"
)

// admin is a client of an API server that calls the operator's webhooks, by the
// generated configurations, with maxReplicas 5 in the platform configuration, and with
// defaults for namespaces that begin with defaults. kubeconfig is for kubectl.
var (
	admin      client.Client
	kubeconfig []byte
	platform   = config.Default()
)

// Admin returns that client to tests outside of the package.
func Admin() client.Client { return admin }

// seen records the warnings of the last response.
type seen struct{ warnings []string }

func (s *seen) HandleWarningHeader(_ int, _, text string) { s.warnings = append(s.warnings, text) }

var warned = &seen{}

func TestMain(m *testing.M) {
	flag.Parse()
	code, err := runMain(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func runMain(m *testing.M) (code int, err error) {
	scheme := runtime.NewScheme()
	if err := controllers.AddToScheme(scheme); err != nil {
		return 1, err
	}
	env := &envtest.Environment{
		Scheme:                scheme,
		CRDDirectoryPaths:     []string{filepath.Join("..", "config", "crd", "bases")},
		ErrorIfCRDPathMissing: true,
		WebhookInstallOptions: envtest.WebhookInstallOptions{Paths: []string{filepath.Join("..", "config", "webhook", "manifests.yaml")}},
	}
	// What pods refer to need not exist.
	env.ControlPlane.GetAPIServer().Configure().Append("disable-admission-plugins", "Priority", "RuntimeClass")
	cfg, err := apiserver.Start(env)
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, env.Stop()) }()

	local := env.WebhookInstallOptions
	mgr, err := manager.New(cfg, manager.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(webhook.Options{Host: local.LocalServingHost, Port: local.LocalServingPort, CertDir: local.LocalServingCertDir}),
	})
	if err != nil {
		return 1, err
	}
	platform.MaxReplicas, kubeconfig = 5, env.KubeConfig
	if err := yaml.Unmarshal([]byte(defaults), &platform.Defaults); err != nil {
		return 1, err
	}
	if err := CheckDefaults(platform); err != nil {
		return 1, err
	}
	if err := Setup(mgr, platform, nil); err != nil {
		return 1, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	defer func() {
		cancel()
		err = errors.Join(err, <-ended)
	}()
	asked := rest.CopyConfig(cfg)
	asked.WarningHandler = warned
	if admin, err = client.New(asked, client.Options{Scheme: scheme}); err != nil {
		return 1, err
	}
	if err := waitForAdmission(ctx); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// waitForAdmission waits until the webhooks reject an object of each kind: the API
// server serves the CRDs and observes the configurations some time after they are
// written.
func waitForAdmission(ctx context.Context) error {
	until := time.Now().Add(2 * time.Minute)
	for _, text := range []string{
		`{apiVersion: my.domain/v1, kind: WebServer, metadata: {name: probe}, spec: {image: "nginx:1", replicas: 6}}`,
		`{apiVersion: paas.cmft.com/v1, kind: DemoApplication, metadata: {name: probe}, spec: {image: "nginx:1", replica: 6}}`,
		`{apiVersion: paas.cmft.com/v1beta1, kind: DemoApplication, metadata: {name: probe}, spec: {image: "nginx:1", replica: 6}}`,
		`{apiVersion: cache.example.com/v1alpha1, kind: Memcached, metadata: {name: probe}, spec: {size: 6}}`,
	} {
		for {
			u := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
				return err
			}
			u.SetNamespace("default")
			err := admin.Create(ctx, u, client.DryRunAll)
			if err != nil && strings.Contains(err.Error(), "as set in the platform configuration") {
				break
			}
			if time.Now().After(until) {
				return errors.Join(fmt.Errorf("admission does not reject %s", text), err)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	return nil
}

// said decodes a manifest, and gives the object a namespace of its own, so that tests can
// be repeated.
func said(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "webhooks-"}}
	if err := admin.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	u.SetNamespace(ns.Name)
	return u
}

// refused fails unless err contains all of want, and no Go identifiers.
func refused(t *testing.T, err error, want ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("it is accepted, want %q", want)
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("it says\n%v\nwant %q", err, w)
		}
	}
	for _, not := range []string{"json: ", "unmarshal", "Go struct", "no such key"} {
		if strings.Contains(err.Error(), not) {
			t.Errorf("it says %q: %v", not, err)
		}
	}
}

// kubectl scale sends a merge patch of the subresource.
func scale(ctx context.Context, o client.Object, replicas int) error {
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
	return admin.SubResource("scale").Patch(ctx, o, patch, client.WithSubResourceBody(&autoscalingv1.Scale{}))
}

func TestScaling_FollowsThePlatformConfiguration(t *testing.T) {
	const tooMany = "spec.replicas: Invalid value: 6: must be 5 or less, as set in the platform configuration"
	for name, tc := range map[string]struct{ text, as, want string }{
		"WebServer":               {`{apiVersion: my.domain/v1, kind: WebServer, metadata: {name: scaled}, spec: {image: "nginx:1", replicas: 3}}`, "", `WebServer.my.domain "scaled" is invalid: ` + tooMany},
		"WebServer, says nothing": {`{apiVersion: my.domain/v1, kind: WebServer, metadata: {name: unscaled}, spec: {image: "nginx:1"}}`, "", `WebServer.my.domain "unscaled" is invalid: ` + tooMany},
		"DemoApplication":         {`{apiVersion: paas.cmft.com/v1, kind: DemoApplication, metadata: {name: scaled}, spec: {image: "nginx:1", replica: 3}}`, "", `DemoApplication.paas.cmft.com "scaled" is invalid: ` + tooMany},
		"its other version":       {`{apiVersion: paas.cmft.com/v1, kind: DemoApplication, metadata: {name: other}, spec: {image: "nginx:1", replica: 3}}`, "paas.cmft.com/v1beta1", `DemoApplication.paas.cmft.com "other" is invalid: ` + tooMany},
		"Memcached":               {`{apiVersion: cache.example.com/v1alpha1, kind: Memcached, metadata: {name: scaled}, spec: {size: 3}}`, "", `Memcached.cache.example.com "scaled" is invalid: ` + tooMany},
	} {
		t.Run(name, func(t *testing.T) {
			o := said(t, tc.text)
			if err := admin.Create(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			if tc.as != "" {
				o.SetAPIVersion(tc.as)
			}
			refused(t, scale(t.Context(), o, 6), tc.want)
			for _, n := range []int{5, 0, 1} {
				if err := scale(t.Context(), o, n); err != nil {
					t.Errorf("%d: %v", n, err)
				}
			}
		})
	}
}

// The schema also applies to the scale subresource, so admission does not need
// the object.
func TestScaling_WithAnAutoscaler(t *testing.T) {
	for _, text := range []string{
		`{apiVersion: my.domain/v1, kind: WebServer, metadata: {name: autoscaled}, spec: {image: "nginx:1", resources: {requests: {cpu: 10m}}, autoscaling: {maxReplicas: 4, targetCPUUtilizationPercentage: 50}}}`,
		`{apiVersion: paas.cmft.com/v1, kind: DemoApplication, metadata: {name: autoscaled}, spec: {image: "nginx:1", resources: {requests: {cpu: 10m}}, autoscaling: {maxReplicas: 4, targetCPUUtilizationPercentage: 50}}}`,
	} {
		o := said(t, text)
		if err := admin.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		err := scale(t.Context(), o, 3)
		refused(t, err, "must not be set together with autoscaling")
		t.Log(err)
	}
}

// Values that the Go types cannot represent are rejected by the schema, which
// names the field.
func TestSchema_RejectsUnrepresentableValues(t *testing.T) {
	for text, want := range map[string]string{
		`{apiVersion: my.domain/v1, kind: WebServer, metadata: {name: a}, spec: {image: "nginx:1", replicas: three}}`:                                "spec.replicas: Invalid value: \"string\"",
		`{apiVersion: my.domain/v1, kind: WebServer, metadata: {name: a}, spec: {image: "nginx:1", replicas: three, deletionPolicy: Orphan}}`:        "spec.replicas: Invalid value: \"string\"",
		`{apiVersion: paas.cmft.com/v1beta1, kind: DemoApplication, metadata: {name: a}, spec: {image: "nginx:1", ports: 80}}`:                       "spec.ports: Invalid value: \"integer\"",
		`{apiVersion: cache.example.com/v1alpha1, kind: Memcached, metadata: {name: a}, spec: {size: 1, memory: 64Mi}}`:                              "spec.memory: Invalid value: \"string\"",
		`{apiVersion: immortalcontainer.flugel.it/v1alpha1, kind: ImmortalContainer, metadata: {name: a}, spec: {image: [a]}}`:                       "spec.image: Invalid value: \"array\"",
		`{apiVersion: immortalcontainer.flugel.it/v1alpha1, kind: ImmortalContainer, metadata: {name: a}, spec: {image: "a:1", env: [{name: [a]}]}}`: "spec.env[0].name: Invalid value: \"array\"",
		`{apiVersion: my.domain/v1, kind: WebServer, metadata: {name: a}}`:                                                                           "spec: Required value",
		`{apiVersion: my.domain/v1, kind: WebServer, metadata: {name: a}, spec: null}`:                                                               "spec: Required value",
		`{apiVersion: my.domain/v1, kind: WebServer, metadata: {name: a}, spec: []}`:                                                                 "spec: Invalid value: \"array\"",
		`{apiVersion: my.domain/v1, kind: WebServer, metadata: {name: a}, spec: Orphan}`:                                                             "spec: Invalid value: \"string\"",
		`{apiVersion: my.domain/v1, kind: WebServer, metadata: {name: a}, spec: {image: "nginx:1", deletionPolicy: 5}}`:                              "spec.deletionPolicy: Invalid value: \"integer\"",
		`{apiVersion: my.domain/v1, kind: WebServer, metadata: {name: a}, spec: {image: "nginx:1", deletionPolicy: {}}}`:                             "spec.deletionPolicy: Invalid value: \"object\"",
		`{apiVersion: my.domain/v1, kind: WebServer, metadata: {name: a}, spec: {image: "nginx:1", deletionPolicy: null, replicas: three}}`:          "spec.replicas: Invalid value: \"string\"",
		`{apiVersion: my.domain/v1, kind: WebServer, metadata: {name: a, finalizers: null}, spec: {image: "nginx:1", replicas: three}}`:              "spec.replicas: Invalid value: \"string\"",
	} {
		t.Run(want, func(t *testing.T) {
			err := admin.Create(t.Context(), said(t, text))
			refused(t, err, want)
			t.Log(err)
		})
	}
}

func TestSchema_RequiresTheSpec(t *testing.T) {
	o := said(t, `{apiVersion: my.domain/v1, kind: WebServer, metadata: {name: specless}, spec: {image: "nginx:1"}}`)
	if err := admin.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	unstructured.RemoveNestedField(o.Object, "spec")
	refused(t, admin.Update(t.Context(), o), "spec: Required value")
}

func TestValidate_WarningsReachTheUser(t *testing.T) {
	warned.warnings = nil
	o := said(t, `{apiVersion: my.domain/v1, kind: WebServer, metadata: {name: warned}, spec: {image: "nginx:latest"}}`)
	if err := admin.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if want := "spec.image: nginx:latest has no fixed version"; len(warned.warnings) != 1 || !strings.HasPrefix(warned.warnings[0], want) {
		t.Errorf("got %q, want %q…", warned.warnings, want)
	}
	// Webhooks are not called if the spec does not change.
	warned.warnings = nil
	o.SetLabels(map[string]string{"a": "b"})
	if err := admin.Update(t.Context(), o); err != nil || len(warned.warnings) > 0 {
		t.Errorf("got %v, warnings %q", err, warned.warnings)
	}
	if err := admin.Delete(t.Context(), o, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		t.Error(err)
	}
}

// mutatingCalls returns how often the API server has called the mutating webhooks.
func mutatingCalls(t *testing.T) int {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	n := 0.0
	for _, f := range families {
		if f.GetName() != "controller_runtime_webhook_requests_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "webhook" && strings.HasPrefix(l.GetValue(), "/mutate-") {
					n += m.GetCounter().GetValue()
				}
			}
		}
	}
	return int(n)
}

// cached returns when the API server's own cache has the latest version of o. An
// update starts from the version in that cache, and is admitted a second time if that
// version was not the latest.
func cached(t *testing.T, o *unstructured.Unstructured) {
	t.Helper()
	latest := o.DeepCopy()
	err := admin.Get(t.Context(), client.ObjectKeyFromObject(o), latest)
	if apierrors.IsNotFound(err) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	fromCache := &client.GetOptions{Raw: &metav1.GetOptions{ResourceVersion: "0"}}
	err = wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, 10*time.Second, true, func(ctx context.Context) (bool, error) {
		got := o.DeepCopy()
		err := admin.Get(ctx, client.ObjectKeyFromObject(o), got, fromCache)
		return err == nil && got.GetResourceVersion() == latest.GetResourceVersion(), client.IgnoreNotFound(err)
	})
	if err != nil {
		t.Fatalf("wait for version %s in the cache of the API server: %v", latest.GetResourceVersion(), err)
	}
}

// An update depends on the mutating webhook only if the webhook changes the object.
func TestMutatingWebhook_IsCalledForCreationsAndIfItAddsTheFinalizer(t *testing.T) {
	for kind, tc := range map[string]struct{ text, edit string }{
		"WebServer":                {`{apiVersion: my.domain/v1, kind: WebServer, metadata: {name: called}, spec: {image: "nginx:1", replicas: 1}}`, `{"replicas":%d}`},
		"DemoApplication":          {`{apiVersion: paas.cmft.com/v1, kind: DemoApplication, metadata: {name: called}, spec: {image: "nginx:1", replica: 1}}`, `{"replica":%d}`},
		"DemoApplication, v1beta1": {`{apiVersion: paas.cmft.com/v1beta1, kind: DemoApplication, metadata: {name: called-beta}, spec: {image: "nginx:1", replica: 1}}`, `{"replica":%d}`},
		"ImmortalContainer":        {`{apiVersion: immortalcontainer.flugel.it/v1alpha1, kind: ImmortalContainer, metadata: {name: called}, spec: {image: "nginx:1"}}`, `{"image":"nginx:%d"}`},
		"Memcached":                {`{apiVersion: cache.example.com/v1alpha1, kind: Memcached, metadata: {name: called}, spec: {size: 1}}`, `{"size":%d}`},
	} {
		t.Run(kind, func(t *testing.T) {
			o := said(t, tc.text)
			patch := func(p string) error {
				return admin.Patch(t.Context(), o, client.RawPatch(types.MergePatchType, []byte(p)))
			}
			edit := func(n int) error { return patch(fmt.Sprintf(`{"spec":`+tc.edit+`}`, n)) }
			orphaning := said(t, tc.text)
			orphaning.SetName(o.GetName() + "-orphaning")
			if err := unstructured.SetNestedField(orphaning.Object, "Orphan", "spec", "deletionPolicy"); err != nil {
				t.Fatal(err)
			}
			for i, step := range []struct {
				what  string
				do    func() error
				calls int
				keeps bool // the finalizer
			}{
				{"create", func() error { return admin.Create(t.Context(), o) }, 1, false},
				{"add a label", func() error { return patch(`{"metadata":{"labels":{"a":"b"}}}`) }, 0, false},
				{"edit the spec", func() error { return edit(2) }, 0, false},
				{"set Orphan", func() error { return patch(`{"spec":{"deletionPolicy":"Orphan"}}`) }, 1, true},
				{"edit the spec of an object with the finalizer", func() error { return edit(3) }, 0, true},
				{"remove the finalizer", func() error { return patch(`{"metadata":{"finalizers":null}}`) }, 0, false},
				{"edit the spec after that", func() error { return edit(4) }, 1, true},
				{"add another finalizer", func() error {
					return patch(`{"metadata":{"finalizers":["` + naming.Finalizer + `","example.com/hold"]}}`)
				}, 0, true},
				{"set Delete", func() error { return patch(`{"spec":{"deletionPolicy":"Delete"}}`) }, 0, true},
				{"remove the finalizer after that", func() error { return patch(`{"metadata":{"finalizers":["example.com/hold"]}}`) }, 0, false},
				{"delete", func() error { return admin.Delete(t.Context(), o) }, 0, false},
				{"edit the spec during the deletion", func() error { return patch(`{"spec":{"deletionPolicy":"Orphan"}}`) }, 0, false},
				{"end the deletion", func() error { return patch(`{"metadata":{"finalizers":null}}`) }, 0, false},
				{"create with Orphan", func() error { o = orphaning; return admin.Create(t.Context(), o) }, 1, true},
			} {
				if i > 0 {
					cached(t, o)
				}
				before := mutatingCalls(t)
				if err := step.do(); err != nil {
					t.Fatalf("%s: %v", step.what, err)
				}
				if got := mutatingCalls(t) - before; got != step.calls {
					t.Errorf("%s: %d calls, want %d", step.what, got, step.calls)
				}
				if got := slices.Contains(o.GetFinalizers(), naming.Finalizer); got != step.keeps {
					t.Errorf("%s: has the finalizer %v, want %v", step.what, got, step.keeps)
				}
			}
		})
	}
}
