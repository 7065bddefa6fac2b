//go:build chart

package charts_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/platform-operator/platform-operator/config/crd"
	"github.com/platform-operator/platform-operator/pkg/testkit/rbac"
)

// TestKinds_DisabledOnesAreNotInstalled renders the chart with each kind alone, and
// with all kinds except one. The rules of the operator must be those of the enabled
// kinds, and nothing may be left of the other kinds, except for the hook that
// releases objects before the chart is uninstalled.
func TestKinds_DisabledOnesAreNotInstalled(t *testing.T) {
	t.Parallel()
	defs, err := crd.All()
	must(t, err)
	var names []string
	for _, d := range defs {
		names = append(names, d.Spec.Names.Kind)
	}
	for _, one := range names {
		others := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == one })
		for name, enabled := range map[string][]string{one + " alone": {one}, "without " + one: others} {
			t.Run(name, func(t *testing.T) {
				objects := parse(t, template(t, "--set", "config.kinds={"+strings.Join(enabled, ",")+"}", "--set", "metrics.dashboards.enabled=true"))
				var want, got []rbac.Permission
				for _, kind := range enabled {
					raw, err := os.ReadFile(filepath.Join(chart, "files", "roles", strings.ToLower(kind)+".yaml"))
					must(t, err)
					var r rbacv1.ClusterRole
					must(t, yaml.Unmarshal(raw, &r))
					want = slices.AppendSeq(want, rbac.Each(r.Rules))
				}
				for _, r := range roles(t, objects) {
					if r.where == "ClusterRole platform-operator-manager" {
						got = slices.AppendSeq(got, rbac.Each(r.rules))
					}
				}
				if diff := cmp.Diff(permissions(want), permissions(got)); diff != "" {
					t.Errorf("permissions of the operator (-markers +chart):\n%s", diff)
				}
				for _, o := range objects {
					// The policies are the same for all kinds.
					if o.GetAnnotations()["helm.sh/hook"] != "" || strings.HasPrefix(o.GetKind(), "ValidatingAdmissionPolicy") || strings.HasPrefix(o.GetName(), "platform-operator-dashboard-") && !strings.Contains(o.GetName(), "-kind-") {
						continue
					}
					text, err := yaml.Marshal(o)
					must(t, err)
					for _, d := range defs {
						n := d.Spec.Names
						found := slices.ContainsFunc([]string{d.Spec.Group, n.Plural, "kind-" + n.Singular}, func(s string) bool { return strings.Contains(string(text), s) })
						if found && !slices.Contains(enabled, n.Kind) {
							t.Errorf("%s %s refers to %s, which is disabled", o.GetKind(), o.GetName(), n.Kind)
						}
						if installed := o.GetName() == d.Name; installed && o.GetAnnotations()["helm.sh/resource-policy"] != "keep" {
							t.Errorf("%s would be deleted, and all objects with it, when its kind is disabled", d.Name)
						}
					}
				}
			})
		}
	}
}

// permissions returns the distinct permissions as text, sorted.
func permissions(all []rbac.Permission) []string {
	var text []string
	for _, p := range all {
		text = append(text, strings.Join([]string{p.Group, p.Resource, p.Name, p.Verb}, " "))
	}
	slices.Sort(text)
	return slices.Compact(text)
}

// Without access to the cluster it is not known whether the CRD exists, and deleting
// it would delete all objects.
func TestKinds_CRDIsNeverDeleted(t *testing.T) {
	t.Parallel()
	found := false
	for _, o := range parse(t, template(t, "--set", "config.kinds={WebServer}", "--set", "crds.keep=false")) {
		found = found || o.GetName() == "memcacheds.cache.example.com"
	}
	if !found {
		t.Error("the CRD of a disabled kind is not rendered, and has no annotation by which Helm would keep it")
	}
}

// TestInstall_KindsCanBeDisabled installs the chart with all kinds, disables one of which
// there is an object, and enables it again: the CRD and the object must survive, and
// its webhooks must go and come back.
func TestInstall_KindsCanBeDisabled(t *testing.T) {
	t.Parallel()
	cfg, c, kubeconfig := startServer(t)
	must(t, c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	install := slices.Concat([]string{"upgrade", "--install", "platform-operator", chart, "--kubeconfig", kubeconfig, "--namespace", namespace}, image)
	without := []string{"--set", "config.kinds={DemoApplication,ImmortalContainer,WebServer}"}
	webhooks := func(want int) {
		t.Helper()
		for _, kind := range []string{"Mutating", "Validating"} {
			configuration := get(t, c, "admissionregistration.k8s.io/v1", kind+"WebhookConfiguration", "platform-operator")
			all, _, err := unstructured.NestedSlice(configuration.Object, "webhooks")
			must(t, err)
			n := 0
			for _, w := range all {
				if strings.Contains(w.(map[string]any)["name"].(string), "memcacheds") {
					n++
				}
			}
			if kind == "Validating" {
				want *= 2 // with scale
			}
			if n != want {
				t.Errorf("%s: %d webhooks for Memcached, want %d", kind, n, want)
			}
		}
	}

	helm(t, slices.Concat(install, without)...)
	const name = "memcacheds.cache.example.com"
	other := &unstructured.Unstructured{}
	other.SetAPIVersion("apiextensions.k8s.io/v1")
	other.SetKind("CustomResourceDefinition")
	if err := c.Get(t.Context(), client.ObjectKey{Name: name}, other); !apierrors.IsNotFound(err) {
		t.Errorf("the CRD of a kind that was never enabled: got %v, want NotFound", err)
	}
	webhooks(0)

	// The CRD of another operator, which Helm would refuse to adopt.
	readYAML(t, filepath.Join(chart, "files", "crds", "cache.example.com_memcacheds.yaml"), &other.Object)
	must(t, c.Create(t.Context(), other.DeepCopy()))
	helm(t, slices.Concat(install, without, []string{"--set", "crds.keep=false"})...)
	must(t, c.Delete(t.Context(), other))

	for _, keep := range []string{"true", "false"} {
		helm(t, append(install, "--set", "crds.keep="+keep)...)
		webhooks(1)
		// As the operator writes it.
		for _, kind := range []string{"Mutating", "Validating"} {
			configuration := get(t, c, "admissionregistration.k8s.io/v1", kind+"WebhookConfiguration", "platform-operator")
			setCABundle(t, configuration, cfg.CAData)
			must(t, c.Update(t.Context(), configuration, client.FieldOwner("platform-operator")))
		}
		uid := get(t, c, "apiextensions.k8s.io/v1", "CustomResourceDefinition", name).GetUID()
		// crds.keep does not apply to what this upgrade no longer renders.
		helm(t, slices.Concat(install, without)...)
		webhooks(0)
		live := get(t, c, "apiextensions.k8s.io/v1", "CustomResourceDefinition", name)
		if live.GetUID() != uid || live.GetDeletionTimestamp() != nil {
			t.Errorf("crds.keep=%s: disabling the kind has deleted its CRD, and all objects", keep)
		}
	}
}

// Evictions are asked about only where the operator has pods that are replaced first. All webhooks
// concern the watched namespaces, because others may be those of another release.
func TestKinds_EvictionsOfOthersAreNotAskedAbout(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		set        string
		evictions  int
		namespaces any
	}{
		"all kinds":        {set: "config.maxReplicas=50", evictions: 1},
		"one of the kinds": {set: "config.kinds={DemoApplication}", evictions: 1},
		"other kinds":      {set: "config.kinds={Memcached,ImmortalContainer}"},
		"some namespaces":  {set: "config.watchNamespaces={a,b}", evictions: 1, namespaces: []any{"a", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			var want any
			if tc.namespaces != nil {
				want = []any{map[string]any{"key": "kubernetes.io/metadata.name", "operator": "In", "values": tc.namespaces}}
			}
			evictions := 0
			for _, o := range parse(t, template(t, "--set", tc.set)) {
				hooks, _, _ := unstructured.NestedSlice(o.Object, "webhooks")
				for _, h := range hooks {
					h := h.(map[string]any)
					if h["name"] == "evict.pods.platform-operator.io" {
						evictions++
					}
					got, _, _ := unstructured.NestedFieldNoCopy(h, "namespaceSelector", "matchExpressions")
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("namespaces of %s (-want +got):\n%s", h["name"], diff)
					}
				}
			}
			if evictions != tc.evictions {
				t.Errorf("%d webhooks for evictions, want %d", evictions, tc.evictions)
			}
		})
	}
}
