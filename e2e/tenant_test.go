//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// versions are the API versions that tenants try.
var versions = map[string]string{
	"WebServer": "my.domain/v1", "DemoApplication": "paas.cmft.com/v1",
	"ImmortalContainer": "immortalcontainer.flugel.it/v1alpha1", "Memcached": "cache.example.com/v1alpha1",
}

// TestTenant_ReachesNothingElse tries everything in testdata/tenant.yaml as a user
// who is only permitted to create objects of these kinds in one namespace.
func TestTenant_ReachesNothingElse(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	tenant := "--as=system:serviceaccount:" + ns + ":tenant"
	if err := apply(t, strings.ReplaceAll(`
apiVersion: v1
kind: ServiceAccount
metadata: {name: tenant, namespace: NS}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: tenant, namespace: NS}
rules:
- apiGroups: [my.domain, paas.cmft.com, immortalcontainer.flugel.it, cache.example.com]
  resources: [webservers, demoapplications, immortalcontainers, memcacheds]
  verbs: ["*"]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: tenant, namespace: NS}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: tenant}
subjects: [{kind: ServiceAccount, name: tenant, namespace: NS}]
---
apiVersion: v1
kind: Secret
metadata: {name: own, namespace: NS}
stringData: {k: v}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: own, namespace: NS}
data: {index.html: hello}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: victim, namespace: NS}
spec:
  replicas: 0
  selector: {matchLabels: {role: victim}}
  template:
    metadata: {labels: {role: victim}}
    spec: {containers: [{name: c, image: "nginx:1.27.4"}]}
---
apiVersion: v1
kind: Service
metadata: {name: holder, namespace: NS}
spec: {type: NodePort, selector: {role: victim}, ports: [{port: 80, nodePort: 32754}]}
`, "NS", ns)); err != nil {
		t.Fatal(err)
	}
	const victims = `jsonpath={range .items[*]}{.metadata.uid} {.metadata.generation} {.spec} {.metadata.managedFields[*].manager}{"\n"}{end}`
	before := kubectl(t, "-n", ns, "get", "deployment/victim", "service/holder", "-o", victims)

	counts := map[string]int{}
	for _, a := range tenantTries(t) {
		counts[a.Outcome]++
		object := a.object(t, ns)
		_, err := run(t.Context(), object, "kubectl", tenant, "create", "-f", "-")
		switch {
		case a.Outcome != "Refused" && err != nil:
			t.Errorf("%s: should be %s: %v", a.Try, a.Outcome, err)
		case a.Outcome == "Refused" && err == nil:
			t.Errorf("%s: admitted", a.Try)
		case a.Outcome == "Refused" && !strings.Contains(err.Error(), a.Says):
			t.Errorf("%s: refused with %v, which does not say %q", a.Try, err, a.Says)
		}
		if err == nil {
			continue
		}
		// If a client does not request strict validation, unknown fields are
		// dropped, but nothing else is accepted.
		if _, err = run(t.Context(), object, "kubectl", tenant, "create", "--validate=ignore", "-f", "-"); err == nil && !strings.HasPrefix(a.Says, "unknown field") {
			t.Errorf("%s: admitted from a client that asks for no validation", a.Try)
		}
	}
	spellings(t, ns, tenant)
	if len(counts) != 3 {
		t.Errorf("there must be attempts of all three outcomes: %v", counts)
	}
	if _, err := run(t.Context(), "", "kubectl", tenant, "-n", ns, "patch", "webserver", "victim", "--subresource=status", "--type=merge", "-p", `{"status":{"replicas":9}}`); err == nil {
		t.Error("a tenant writes the status")
	}
	eventually(t, "the operator to have seen all of it", func() error {
		for _, o := range listed[example](t, ns, "platform") {
			if o.Status.ObservedGeneration != o.Metadata.Generation {
				return fmt.Errorf("%s has not been seen", o.Metadata.Name)
			}
		}
		return nil
	})
	eventuallyPrints(t, "Conflict", "-n", ns, "get", "webserver", "victim", "-o", `jsonpath={.status.conditions[?(@.type=="Stalled")].reason}`)
	if after := kubectl(t, "-n", ns, "get", "deployment/victim", "service/holder", "-o", victims); after != before {
		t.Errorf("others' objects changed from\n%s\nto\n%s", before, after)
	}
	reachesNothing(t, ns)
	t.Logf("%d attempts: %v", len(tenantTries(t)), counts)
}

// object returns an attempt as a document.
func (a attempt) object(t *testing.T, ns string) string {
	t.Helper()
	raw, err := json.Marshal(map[string]any{
		"apiVersion": versions[a.Kind], "kind": a.Kind, "metadata": map[string]any{"name": a.Name, "namespace": ns}, "spec": a.Spec,
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(raw) + "\n---\n"
}

// spellings makes the attempts in other words, which have the same outcome.
func spellings(t *testing.T, ns, tenant string) {
	t.Helper()
	for _, validation := range []string{"strict", "ignore"} {
		var documents strings.Builder
		var all []attempt
		for _, a := range tenantTries(t) {
			for _, also := range a.Also {
				if validation == "strict" || also.Outcome == "Refused" && !strings.HasPrefix(also.Says, "unknown field") {
					all = append(all, also)
					documents.WriteString(also.object(t, ns))
				}
			}
		}
		created, refused := run(t.Context(), documents.String(), "kubectl", tenant, "create", "--validate="+validation, "-f", "-")
		for _, a := range all {
			if admitted := strings.Contains(created, "/"+a.Name+" created"); admitted != (a.Outcome != "Refused") {
				t.Errorf("%s, as %s with validation %s: admitted is %t", a.Try, a.Name, validation, admitted)
			}
			if refused == nil || !strings.Contains(refused.Error(), a.Says) {
				t.Errorf("%s, as %s with validation %s: nothing says %q", a.Try, a.Name, validation, a.Says)
			}
		}
		t.Logf("%d other spellings with validation %s", len(all), validation)
	}
}

// reachesNothing checks all objects in the namespace of a tenant, and that the
// operator has created no child in another namespace for the tenant's objects.
func reachesNothing(t *testing.T, ns string) {
	t.Helper()
	owners := map[string]bool{}
	for _, o := range listed[metav1.PartialObjectMetadata](t, ns, "platform") {
		owners[string(o.UID)] = true
	}
	const children = "deployments,services,configmaps,pods,ingresses,networkpolicies,poddisruptionbudgets,horizontalpodautoscalers,controllerrevisions"
	for _, o := range listed[metav1.PartialObjectMetadata](t, "", children) {
		for _, r := range o.OwnerReferences {
			if owners[string(r.UID)] && o.Namespace != ns {
				t.Errorf("%s %s/%s belongs to an object of %s", o.Kind, o.Namespace, o.Name, ns)
			}
		}
	}
	templates := map[string]corev1.PodTemplateSpec{}
	for _, d := range listed[appsv1.Deployment](t, ns, "deployments") {
		templates["Deployment "+d.Name] = d.Spec.Template
	}
	for _, p := range listed[corev1.Pod](t, ns, "pods") {
		templates["Pod "+p.Name] = corev1.PodTemplateSpec{ObjectMeta: p.ObjectMeta, Spec: p.Spec}
	}
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(templates) < 10 {
		t.Errorf("got only %d pods and templates, want at least 10: the admitted attempts create more", len(templates))
	}
	for name, template := range templates {
		for _, r := range evaluator.EvaluatePod(api.LevelVersion{Level: api.LevelBaseline, Version: api.LatestVersion()}, &template.ObjectMeta, &template.Spec) {
			if !r.Allowed {
				t.Errorf("%s: %s: %s", name, r.ForbiddenReason, r.ForbiddenDetail)
			}
		}
		if a := template.Spec.ServiceAccountName; a != "" && a != "default" {
			t.Errorf("%s runs as %s", name, a)
		}
		if name == "Deployment victim" {
			continue // not created by the operator
		}
		if m := template.Spec.AutomountServiceAccountToken; m == nil || *m {
			t.Errorf("%s mounts the token of its service account", name)
		}
		if template.Spec.PriorityClassName != "" || strings.HasPrefix(name, "Deployment") && template.Spec.NodeName != "" {
			t.Errorf("%s has priority class %q and node %q", name, template.Spec.PriorityClassName, template.Spec.NodeName)
		}
	}
	for _, s := range listed[corev1.Service](t, ns, "services") {
		if s.Name == "holder" {
			continue
		}
		if len(s.Spec.ExternalIPs) > 0 || s.Spec.ExternalName != "" || slices.ContainsFunc(slices.Collect(maps.Keys(s.Annotations)), func(k string) bool { return !strings.HasPrefix(k, "platform-operator.io/") }) {
			t.Errorf("Service %s reaches out: %+v", s.Name, s)
		}
		// It must not select the pods of more than one object.
		selected := slices.DeleteFunc(slices.Collect(maps.Keys(templates)), func(name string) bool {
			if !strings.HasPrefix(name, "Deployment") || len(s.Spec.Selector) == 0 {
				return true
			}
			for k, v := range s.Spec.Selector {
				if templates[name].Labels[k] != v {
					return true
				}
			}
			return false
		})
		if len(selected) > 1 {
			t.Errorf("Service %s selects the pods of %v", s.Name, selected)
		}
	}
}

// listed returns the objects of some types, in a namespace or in all.
func listed[T any](t *testing.T, ns, types string) []T {
	t.Helper()
	args := []string{"get", types, "-o", "json"}
	if ns == "" {
		args = append(args, "-A")
	} else {
		args = append(args, "-n", ns)
	}
	var list struct{ Items []T }
	if err := json.Unmarshal([]byte(kubectl(t, args...)), &list); err != nil {
		t.Fatalf("reading the %s: %v", types, err)
	}
	return list.Items
}
