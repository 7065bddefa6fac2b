//go:build chart

// Package charts_test compares the chart with config/, and applies both to a real
// API server. It needs helm and kubectl, which `make test-chart` provides.
package charts_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/testkit/golden"
)

const (
	chart     = "platform-operator"
	namespace = "platform-operator-system"
)

// image contains the required values.
var image = []string{"--set", "image.repository=registry.example.com/platform-operator", "--set", "image.tag=v0.1.0"}

// TestGolden shows the effect of a change of the chart on its users. It omits the
// CRDs, which TestChart_EqualsKustomize compares.
func TestGolden(t *testing.T) {
	t.Parallel()
	if isHelm3(t) {
		t.Skip("Helm 3 prints the documents in another order; TestChart_EqualsKustomize compares them")
	}
	golden.CompareCases(t, "default", map[string][]string{
		"default":    nil,
		"production": {"-f", filepath.Join(chart, "values-production.yaml")},
	}, func(t *testing.T, args []string) []byte {
		t.Helper()
		return template(t, append(args, "--set", "crds.enabled=false")...)
	})
}

// TestValues_InvalidOnesAreRejected checks the error messages for invalid values.
func TestValues_InvalidOnesAreRejected(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"no image":                     {want: "set image.repository and image.tag: no image is published yet; build one with make image-push IMG=…"},
		"no tag":                       {args: image[:2], want: "set image.repository and image.tag: no image is published yet"},
		"unknown value":                {args: append([]string{"--set", "replica=3"}, image...), want: "additional properties 'replica' not allowed"},
		"unknown preference":           {args: append([]string{"--set", "config.webServer.port=1"}, image...), want: "additional properties 'port' not allowed"},
		"two namespaces of one name":   {args: append([]string{"--set", "config.watchNamespaces={a,a}"}, image...), want: "items at 0 and 1 are equal"},
		"latest policy":                {args: append([]string{"--set", "config.images.latest=Never"}, image...), want: "value must be one of 'Allow', 'Warn', 'Refuse'"},
		"no ClusterIP":                 {args: append([]string{"--set", "config.serviceTypes={NodePort}"}, image...), want: "no items match contains schema"},
		"unknown feature":              {args: append([]string{"--set", "config.featureGates.Flying=true"}, image...), want: "Flying"},
		"unknown kind":                 {args: append([]string{"--set", "config.kinds={webserver}"}, image...), want: `config.kinds contains "webserver": use DemoApplication, ImmortalContainer, Memcached, WebServer`},
		"issuer of version 0.1":        {args: append([]string{"--set", "webhooks.certificates.issuer=Helm"}, image...), want: "additional properties 'issuer' not allowed"},
		"wrong log level":              {args: append([]string{"--set", "log.level=loud"}, image...), want: "value must be one of 'debug', 'info', 'error'"},
		"account not named":            {args: append([]string{"--set", "serviceAccount.create=false"}, image...), want: "set serviceAccount.name"},
		"Kubernetes too old":           {args: append([]string{"--kube-version", "1.33.9"}, image...), want: "requires kubeVersion: >=1.34.0-0"},
		"memory limit with a fraction": {args: append([]string{"--set", "resources.limits.memory=1.5Gi"}, image...), want: "write a whole number with the unit"},
		"no replicas":                  {args: append([]string{"--set", "replicas=0"}, image...), want: "minimum: got 0, want 1"},
		"configuration empty":          {args: append([]string{"--set", "config=null"}, image...), want: "missing property 'config'"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"template", "platform-operator", chart, "--namespace", namespace}, tc.args...)
			_, stderr, err := run(tool(t, "HELM", "helm"), args...)
			if err == nil {
				t.Fatal("helm template succeeded")
			}
			if !strings.Contains(stderr, tc.want) {
				t.Errorf("message is\n%s\nwant it to contain\n%s", stderr, tc.want)
			}
		})
	}
}

// TestChart_EqualsKustomize compares the two ways to install, object by object. It
// ignores only inherent differences: the hooks of the chart, the Namespace of
// config/, labels that select nothing, and the image.
func TestChart_EqualsKustomize(t *testing.T) {
	t.Parallel()
	for folder, args := range map[string][]string{
		"default":    nil,
		"production": {"--set", "networkPolicy.enabled=true"},
	} {
		t.Run(folder, func(t *testing.T) {
			want := contents(t, kustomize(t, folder))
			got := contents(t, template(t, args...))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("the chart differs from config/%s (-config +chart):\n%s", folder, diff)
			}
		})
	}
}

// hash matches the suffix that kustomize appends to the name of a generated
// ConfigMap.
var hash = regexp.MustCompile(`^(platform-operator-config)-[0-9a-z]{10}$`)

func contents(t *testing.T, manifests []byte) map[string]any {
	t.Helper()
	objects := map[string]any{}
	for _, o := range parse(t, manifests) {
		if o.GetKind() == "Namespace" || o.GetAnnotations()["helm.sh/hook"] != "" {
			continue
		}
		keep := map[string]string{}
		for k, v := range o.GetLabels() {
			if strings.HasPrefix(k, "rbac.authorization.k8s.io/") {
				keep[k] = v
			}
		}
		name := hash.ReplaceAllString(o.GetName(), "$1")
		objects[o.GetKind()+" "+o.GetNamespace()+"/"+name] = normal(o.Object)
		o.Object["metadata"] = keep
	}
	return objects
}

// normal recursively removes the differences that are allowed.
func normal(v any) any {
	switch v := v.(type) {
	case map[string]any:
		delete(v, "app.kubernetes.io/instance")
		delete(v, "image")
		if template, ok := v["template"].(map[string]any); ok {
			delete(template, "metadata")
		}
		for k := range v {
			v[k] = normal(v[k])
		}
		return v
	case []any:
		for i := range v {
			v[i] = normal(v[i])
		}
		return v
	case string:
		return hash.ReplaceAllString(v, "$1")
	default:
		return v
	}
}

// TestPlatformConfiguration parses the configuration of the chart with the strict
// parser of the operator, and compares its defaults and schema with the code.
func TestPlatformConfiguration(t *testing.T) {
	t.Parallel()
	load := func(args ...string) config.Platform {
		t.Helper()
		for _, o := range parse(t, template(t, args...)) {
			if o.GetKind() != "ConfigMap" {
				continue
			}
			data, _, _ := unstructured.NestedString(o.Object, "data", "platform.yaml")
			file := filepath.Join(t.TempDir(), "platform.yaml")
			if err := os.WriteFile(file, []byte(data), 0o600); err != nil {
				t.Fatal(err)
			}
			platform, err := config.Load(file)
			if err != nil {
				t.Fatal(err)
			}
			return platform
		}
		t.Fatal("there is no ConfigMap")
		return config.Platform{}
	}
	same := cmpopts.EquateEmpty() // the chart has [] where the code has nil
	if diff := cmp.Diff(config.Default(), load(), same); diff != "" {
		t.Errorf("values.yaml differs from config.Default() (-code +chart):\n%s", diff)
	}
	production := config.Default()
	production.Images.Latest = config.LatestRefuse
	production.Pods.MaxTerminationGracePeriodSeconds = 600
	production.ServiceTypes = []corev1.ServiceType{"ClusterIP", "LoadBalancer"}
	production.WebServer.ServiceType, production.WebServer.NodePort = "ClusterIP", 0
	if diff := cmp.Diff(production, load("-f", filepath.Join(chart, "values-production.yaml")), same); diff != "" {
		t.Errorf("values-production.yaml (-want +got):\n%s", diff)
	}

	everything := config.Default()
	everything.WatchNamespaces = []string{"team-a"}
	everything.Workers, everything.MaxReplicas = 3, 50
	everything.FeatureGates = map[config.Feature]bool{config.ReadYourWrites: false, config.PodMonitors: true}
	everything.Images.Allowed = []string{"registry.example.com"}
	everything.Gateways = []config.Gateway{{Namespace: "gateways", Name: "public", From: []string{"team-*"}}}
	everything.Hosts = []config.Hosts{{Namespaces: []string{"team-a"}, Hosts: []string{"*.team-a.example.com"}}}
	everything.ServiceAccounts, everything.RestartOnSecretChange = true, true
	if diff := cmp.Diff(everything, load(
		"--set", "config.watchNamespaces={team-a}", "--set", "config.workers=3", "--set", "config.maxReplicas=50",
		"--set", "config.featureGates.ReadYourWrites=false", "--set", "config.featureGates.PodMonitors=true",
		"--set", "config.images.allowed={registry.example.com}",
		"--set", "config.gateways[0].namespace=gateways,config.gateways[0].name=public,config.gateways[0].from={team-*}",
		"--set", "config.hosts[0].namespaces={team-a},config.hosts[0].hosts={*.team-a.example.com}",
		"--set", "config.serviceAccounts=true,config.restartOnSecretChange=true",
	), same); diff != "" {
		t.Errorf("everything set (-want +got):\n%s", diff)
	}

	var schema, defaults map[string]any
	readYAML(t, filepath.Join(chart, "values.schema.json"), &schema)
	raw, err := json.Marshal(config.Default())
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &defaults); err != nil {
		t.Fatal(err)
	}
	section := schema["properties"].(map[string]any)["config"].(map[string]any)
	if diff := cmp.Diff(leaves(defaults, nil), leaves(section, properties)); diff != "" {
		t.Errorf("config in values.schema.json differs from pkg/config (-code +schema):\n%s", diff)
	}
}

// TestRBAC_SecretsAreReadOnlyIfNeeded checks that the permission to read all
// Secrets is granted only if restartOnSecretChange needs it.
func TestRBAC_SecretsAreReadOnlyIfNeeded(t *testing.T) {
	t.Parallel()
	for set, want := range map[string][]string{"false": nil, "true": {"get", "list", "watch"}} {
		found := false
		for _, o := range parse(t, template(t, "--set", "config.restartOnSecretChange="+set)) {
			if o.GetKind() != "ClusterRole" {
				continue
			}
			var role rbacv1.ClusterRole
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &role); err != nil {
				t.Fatal(err)
			}
			manager := role.Name == "platform-operator-manager"
			found = found || manager
			var got []string
			for _, r := range role.Rules {
				if slices.Contains(r.Resources, "secrets") {
					got = append(got, r.Verbs...)
				}
			}
			if manager && !slices.Equal(got, want) || !manager && got != nil {
				t.Errorf("restartOnSecretChange %s: %s may %v secrets", set, role.Name, got)
			}
		}
		if !found {
			t.Error("there is no ClusterRole platform-operator-manager")
		}
	}
}

// TestValues_AreDocumented requires each value to be in the schema and in the README.
func TestValues_AreDocumented(t *testing.T) {
	t.Parallel()
	var values, schema map[string]any
	readYAML(t, filepath.Join(chart, "values.yaml"), &values)
	readYAML(t, filepath.Join(chart, "values.schema.json"), &schema)
	readme, err := os.ReadFile(filepath.Join(chart, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	known := leaves(schema, properties)
	for _, path := range leaves(values, nil) {
		inSchema := slices.ContainsFunc(known, func(k string) bool { return path == k || strings.HasPrefix(path, k+".") })
		if !inSchema {
			t.Errorf("%s is not in values.schema.json", path)
		}
		if !bytes.Contains(readme, []byte("| `"+path+"` |")) && !bytes.Contains(readme, []byte("| `"+path[:max(strings.LastIndex(path, "."), 0)]+"` |")) {
			t.Errorf("%s is not in the table of README.md", path)
		}
	}
}

// properties returns the schemas of the properties of a schema.
func properties(schema map[string]any) map[string]any {
	p, _ := schema["properties"].(map[string]any)
	return p
}

// leaves returns the sorted paths of all leaves.
func leaves(v map[string]any, children func(map[string]any) map[string]any) []string {
	members := v
	if children != nil {
		members = children(v)
	}
	var paths []string
	for name, member := range members {
		var below []string
		if m, ok := member.(map[string]any); ok {
			below = leaves(m, children)
		}
		if len(below) == 0 {
			paths = append(paths, name)
		}
		for _, b := range below {
			paths = append(paths, name+"."+b)
		}
	}
	slices.Sort(paths)
	return paths
}

// TestChart_WithOtherNames renders with another release name and other names: the objects that
// flags and bindings refer to must exist.
func TestChart_WithOtherNames(t *testing.T) {
	t.Parallel()
	have, args := map[string]bool{}, map[string][]any{} // the latter by kind
	for _, o := range parse(t, helm(t, append([]string{
		"template", "other", chart, "--namespace", "elsewhere", "--set", "fullnameOverride=mine", "--set", "nameOverride=my",
		"--set", "config.watchNamespaces={team-a,team-b}",
	}, image...)...)) {
		have[o.GetKind()+" "+o.GetNamespace()+"/"+o.GetName()] = true
		switch o.GetKind() {
		case "Deployment", "Job":
			containers, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
			args[o.GetKind()] = containers[0].(map[string]any)["args"].([]any)
		case "ValidatingAdmissionPolicy":
			if o.GetName() != "mine-revisions" {
				continue
			}
			got, _, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "matchConstraints", "namespaceSelector", "matchExpressions")
			want := any([]any{map[string]any{"key": "kubernetes.io/metadata.name", "operator": "In", "values": []any{"team-a", "team-b"}}})
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("namespaces of the policy, which refuses what another release writes (-want +got):\n%s", diff)
			}
		}
	}
	for _, want := range []string{
		"--certificate-services=mine-webhook,mine-metrics", "--webhook-secret=mine-webhook-cert", "--webhook-configuration=mine",
	} {
		if !slices.Contains(args["Deployment"], any(want)) {
			t.Errorf("flag %s is missing from %v", want, args["Deployment"])
		}
	}
	if want := "--namespaces=team-a,team-b"; !slices.Contains(args["Job"], any(want)) {
		t.Errorf("flag %s is missing from %v: helm uninstall would change objects of other releases", want, args["Job"])
	}
	for _, want := range []string{
		"Service elsewhere/mine-webhook", "Secret elsewhere/mine-webhook-cert", "Service elsewhere/mine-metrics",
		"ValidatingWebhookConfiguration /mine", "MutatingWebhookConfiguration /mine",
		"RoleBinding team-a/mine-manager", "RoleBinding team-b/mine-manager", "RoleBinding elsewhere/mine",
		"Deployment elsewhere/mine", "Job elsewhere/mine-release", "ServiceAccount elsewhere/mine",
		"ValidatingAdmissionPolicy /mine-revisions",
	} {
		if !have[want] {
			t.Errorf("%s is missing", want)
		}
	}
	if have["ClusterRoleBinding /mine-manager"] {
		t.Error("with watchNamespaces the operator has permissions in the whole cluster")
	}
}

func template(t *testing.T, args ...string) []byte {
	t.Helper()
	return render(t, tool(t, "HELM", "helm"), slices.Concat([]string{"template", "platform-operator", chart, "--namespace", namespace}, image, args)...)
}

func kustomize(t *testing.T, folder string) []byte {
	t.Helper()
	return render(t, tool(t, "KUBECTL", "kubectl"), "kustomize", filepath.Join("..", "config", folder))
}

// rendered and parsed contain, as functions that compute them once, what commands
// have printed and the objects in it. Many tests read the same manifests, and both
// take most of a second for the CRDs.
var rendered, parsed sync.Map

// render returns what a command prints.
func render(t *testing.T, program string, args ...string) []byte {
	t.Helper()
	once, _ := rendered.LoadOrStore(strings.Join(append([]string{program}, args...), "\x00"), sync.OnceValues(func() (string, error) {
		stdout, stderr, err := run(program, args...)
		if err != nil {
			return "", fmt.Errorf("%s %s: %w\n%s", filepath.Base(program), strings.Join(args, " "), err, stderr)
		}
		return stdout, nil
	}))
	stdout, err := once.(func() (string, error))()
	if err != nil {
		t.Fatal(err)
	}
	return []byte(stdout)
}

func isHelm3(t *testing.T) bool {
	t.Helper()
	return bytes.HasPrefix(helm(t, "version", "--short"), []byte("v3."))
}

func helm(t *testing.T, args ...string) []byte {
	t.Helper()
	stdout, stderr, err := run(tool(t, "HELM", "helm"), args...)
	for range 2 { // an API server on a busy machine
		if err == nil || !strings.Contains(stderr, "did not complete within requested timeout") {
			break
		}
		stdout, stderr, err = run(tool(t, "HELM", "helm"), args...)
	}
	if err != nil {
		t.Fatalf("helm %s: %v\n%s", strings.Join(args, " "), err, stderr)
	}
	return []byte(stdout)
}

// tool finds a program, preferring the one in its variable. A missing program fails
// the test, because a skipped test would not be noticed.
func tool(t *testing.T, variable, name string) string {
	t.Helper()
	if path := os.Getenv(variable); path != "" {
		return path
	}
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%s is not in PATH and %s is not set: run the tests by `make test-chart`, which brings it", name, variable)
	}
	return path
}

func run(program string, args ...string) (stdout, stderr string, err error) {
	var out, errs bytes.Buffer
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "GOGC=off") // of Helm, which ends soon: a third less CPU
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

func parse(t *testing.T, manifests []byte) []*unstructured.Unstructured {
	t.Helper()
	once, _ := parsed.LoadOrStore(string(manifests), sync.OnceValues(func() ([]*unstructured.Unstructured, error) { return decode(manifests) }))
	objects, err := once.(func() ([]*unstructured.Unstructured, error))()
	if err != nil {
		t.Fatal(fmt.Errorf("parsing what was rendered: %w", err))
	}
	copies := make([]*unstructured.Unstructured, 0, len(objects)) // tests change them
	for _, o := range objects {
		copies = append(copies, o.DeepCopy())
	}
	return copies
}

func decode(manifests []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for d := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifests), 4096); ; {
		o := &unstructured.Unstructured{}
		err := d.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		if len(o.Object) > 0 {
			objects = append(objects, o)
		}
	}
}

func readYAML(t *testing.T, file string, into any) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(raw, into); err != nil {
		t.Fatal(err)
	}
}

// kubectl apply stores the object as JSON in an annotation, and annotations are
// limited to 256 KiB.
func TestCRDs_AreSmallEnoughForKubectlApply(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../config/crd/bases/*.yaml")
	if err != nil || len(files) < 4 {
		t.Fatalf("%d definitions, error %v", len(files), err)
	}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		copied, err := yaml.YAMLToJSON(raw)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d KiB, %d as YAML", f, len(copied)/1024, len(raw)/1024)
		if len(copied) >= 250<<10 {
			t.Errorf("%s has %d bytes", f, len(copied))
		}
	}
}
