//go:build chart

package charts_test

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/platform-operator/platform-operator/pkg/testkit/rbac"
)

// renderings are all ways to install that differ in their permissions.
func renderings(t *testing.T) map[string][]*unstructured.Unstructured {
	t.Helper()
	return map[string][]*unstructured.Unstructured{
		"config/default":  parse(t, kustomize(t, "default")),
		"chart":           parse(t, template(t)),
		"some namespaces": parse(t, template(t, "--set", "config.watchNamespaces={team-a,team-b}")),
		"cert-manager":    parse(t, template(t, "--set", "webhooks.certManager.enabled=true")),
		"production":      parse(t, template(t, "-f", filepath.Join(chart, "values-production.yaml"))),
		"everything on": parse(t, template(t, "-f", filepath.Join(chart, "values-production.yaml"),
			"--set", "webhooks.certManager.enabled=false", "--set", "metrics.serviceMonitor.enabled=true", "--set", "config.restartOnSecretChange=true")),
		"everything off": parse(t, template(t, "--set", "webhooks.enabled=false", "--set", "rbac.aggregate=false",
			"--set", "config.featureGates.GatewayAPI=false", "--set", "config.featureGates.PodMonitors=false")),
	}
}

// role is a Role or a ClusterRole.
type role struct {
	where string
	rules []rbacv1.PolicyRule
}

func roles(t *testing.T, objects []*unstructured.Unstructured) []role {
	t.Helper()
	var all []role
	for _, o := range objects {
		if o.GetKind() != "Role" && o.GetKind() != "ClusterRole" {
			continue
		}
		var r rbacv1.ClusterRole // a Role has the same rules
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &r); err != nil {
			t.Fatal(err)
		}
		all = append(all, role{o.GetKind() + " " + o.GetName(), r.Rules})
	}
	return all
}

// escalating lists permissions by which an account can get the permissions of other
// accounts or of nodes. No object of the chart may grant one of them.
var escalating = []struct {
	what            string
	group, resource string // regular expressions; a resource without group is of the core group
	verb            string // a regular expression; "" is any
	names           bool   // limited to resourceNames, it affects only objects of the operator
	reads           bool   // reading is allowed if the platform configuration enables it
	issues          bool   // accepted, if limited to resourceNames, if the operator issues its certificate
}{
	{what: "makes itself any role", verb: "escalate|bind"},
	{what: "impersonates other users", verb: "impersonate"},
	{what: "reads or writes every Secret", resource: "secrets", names: true, reads: true},
	{what: "runs commands in pods", resource: "pods/(exec|attach|portforward|proxy|ephemeralcontainers)"},
	{what: "reaches what it has no network to", resource: "services/proxy"},
	{what: "acts as kubelet", resource: "nodes/.*"},
	{what: "changes nodes", resource: "nodes", verb: writing},
	{what: "makes tokens of accounts", resource: "serviceaccounts/token"},
	{what: "makes accounts", resource: "serviceaccounts", verb: writing},
	{what: "changes who may what", group: `rbac\.authorization\.k8s\.io`, verb: writing},
	{what: "changes others' admission", group: `admissionregistration\.k8s\.io`, names: true},
	// resourceNames limits which configuration can be changed, but not its content: one
	// with a rule for all resources sees and changes every request of the cluster.
	{what: "intercepts all requests", group: `admissionregistration\.k8s\.io`, verb: writing, issues: true},
	{what: "changes a namespace, and so its Pod Security", resource: "namespaces(/.*)?", verb: writing},
	{what: "approves or signs certificates", group: `certificates\.k8s\.io`},
	{what: "mounts any folder of a node", resource: "persistentvolumes", verb: writing},
	{what: "changes what kinds there are", group: `apiextensions\.k8s\.io`, verb: writing},
	{what: "takes any request for an API", group: `apiregistration\.k8s\.io`, verb: writing},
}

const writing = "create|update|patch|delete|deletecollection"

// accepted are permissions that the values of an installation need.
type accepted struct {
	secrets bool // restartOnSecretChange
	issues  bool // the operator issues its certificate
}

// dangers returns the escalating permissions in a role that are not accepted.
func dangers(r role, ok accepted) []string {
	var found []string
	say := func(what, permission string) {
		found = append(found, fmt.Sprintf("%s %s: %s", r.where, what, permission))
	}
	for _, rule := range r.rules {
		for _, word := range slices.Concat(rule.Verbs, rule.APIGroups, rule.Resources, rule.NonResourceURLs, rule.ResourceNames) {
			if strings.Contains(word, "*") {
				say("has a wildcard", word)
			}
		}
		for _, e := range escalating {
			if (e.names || e.issues && ok.issues) && len(rule.ResourceNames) > 0 {
				continue
			}
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						reads := verb == "get" || verb == "list" || verb == "watch"
						if e.reads && ok.secrets && reads {
							continue
						}
						anyGroup := e.group == "" && e.resource == ""
						if (anyGroup || e.group == "" && group == "" || e.group != "" && matches(e.group, group)) && matches(e.resource, resource) && matches(e.verb, verb) {
							say(e.what, verb+" "+resource)
						}
					}
				}
			}
		}
	}
	return found
}

func matches(pattern, word string) bool {
	return pattern == "" || regexp.MustCompile("^("+pattern+")$").MatchString(word)
}

// misbound returns the bindings that refer to a role that is not rendered, or to an
// account that does not belong to the operator.
func misbound(t *testing.T, objects []*unstructured.Unstructured) []string {
	t.Helper()
	have, accounts := map[string]bool{}, map[string]bool{}
	for _, o := range objects {
		switch o.GetKind() {
		case "Role", "ClusterRole":
			have[o.GetKind()+" "+o.GetName()] = true
		case "ServiceAccount":
			accounts[o.GetNamespace()+"/"+o.GetName()] = true
		}
	}
	var found []string
	for _, o := range objects {
		if o.GetKind() != "RoleBinding" && o.GetKind() != "ClusterRoleBinding" {
			continue
		}
		var b rbacv1.ClusterRoleBinding // a RoleBinding has the same fields
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &b); err != nil {
			t.Fatal(err)
		}
		if to := b.RoleRef.Kind + " " + b.RoleRef.Name; !have[to] {
			found = append(found, fmt.Sprintf("%s %s grants %s, which is not part of the chart", o.GetKind(), o.GetName(), to))
		}
		for _, s := range b.Subjects {
			if s.Kind != "ServiceAccount" || !accounts[s.Namespace+"/"+s.Name] {
				found = append(found, fmt.Sprintf("%s %s grants permissions to %s %s/%s", o.GetKind(), o.GetName(), s.Kind, s.Namespace, s.Name))
			}
		}
	}
	return found
}

func TestRBAC_AllowsNoEscalation(t *testing.T) {
	t.Parallel()
	// The operator issues its certificate in these.
	issues := []string{"config/default", "chart", "some namespaces", "everything on"}
	for name, objects := range renderings(t) {
		t.Run(name, func(t *testing.T) {
			all := roles(t, objects)
			if len(all) < 5 {
				t.Fatalf("only %d roles: the test sees nothing", len(all))
			}
			for _, r := range all {
				for _, d := range dangers(r, accepted{
					secrets: name == "everything on" && r.where == "ClusterRole platform-operator-manager",
					issues:  slices.Contains(issues, name) && r.where == "ClusterRole platform-operator-webhooks",
				}) {
					t.Error(d)
				}
			}
			for _, d := range misbound(t, objects) {
				t.Error(d)
			}
		})
	}
}

// TestRBAC_EscalationIsDetected adds each forbidden permission to a role and expects it to be
// found.
func TestRBAC_EscalationIsDetected(t *testing.T) {
	t.Parallel()
	rule := func(group, resource, verb string, names ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{verb}, ResourceNames: names}
	}
	const rbacGroup, webhooks = "rbac.authorization.k8s.io", "admissionregistration.k8s.io"
	for what, rules := range map[string][]rbacv1.PolicyRule{
		"has a wildcard":                               {rule("", "pods", "*"), rule("", "*", "get"), rule("*", "things", "get"), rule("apps", "*/scale", "get"), {NonResourceURLs: []string{"/*"}, Verbs: []string{"get"}}},
		"makes itself any role":                        {rule(rbacGroup, "clusterroles", "escalate"), rule(rbacGroup, "roles", "bind")},
		"impersonates other users":                     {rule("", "users", "impersonate"), rule("authentication.k8s.io", "userextras/scopes", "impersonate")},
		"reads or writes every Secret":                 {rule("", "secrets", "get"), rule("", "secrets", "list"), rule("", "secrets", "watch"), rule("", "secrets", "create"), rule("", "secrets", "patch")},
		"runs commands in pods":                        {rule("", "pods/exec", "create"), rule("", "pods/attach", "get"), rule("", "pods/ephemeralcontainers", "patch")},
		"reaches what it has no network to":            {rule("", "services/proxy", "get")},
		"acts as kubelet":                              {rule("", "nodes/proxy", "get")},
		"changes nodes":                                {rule("", "nodes", "patch")},
		"makes tokens of accounts":                     {rule("", "serviceaccounts/token", "create", "default")},
		"makes accounts":                               {rule("", "serviceaccounts", "create")},
		"changes who may what":                         {rule(rbacGroup, "roles", "create"), rule(rbacGroup, "clusterrolebindings", "update"), rule(rbacGroup, "rolebindings", "patch", "one")},
		"changes others' admission":                    {rule(webhooks, "validatingwebhookconfigurations", "update"), rule(webhooks, "mutatingwebhookconfigurations", "list"), rule(webhooks, "validatingadmissionpolicies", "delete")},
		"intercepts all requests":                      {rule(webhooks, "mutatingwebhookconfigurations", "patch", "one"), rule(webhooks, "validatingwebhookconfigurations", "update", "one")},
		"changes a namespace, and so its Pod Security": {rule("", "namespaces", "patch"), rule("", "namespaces/finalize", "update")},
		"approves or signs certificates":               {rule("certificates.k8s.io", "certificatesigningrequests/approval", "update"), rule("certificates.k8s.io", "signers", "approve", "kubernetes.io/kubelet-serving")},
		"mounts any folder of a node":                  {rule("", "persistentvolumes", "create")},
		"changes what kinds there are":                 {rule("apiextensions.k8s.io", "customresourcedefinitions", "patch")},
		"takes any request for an API":                 {rule("apiregistration.k8s.io", "apiservices", "update")},
	} {
		for _, planted := range rules {
			got := dangers(role{"ClusterRole planted", []rbacv1.PolicyRule{rule("apps", "deployments", "list"), planted}}, accepted{})
			if !slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, what) }) {
				t.Errorf("%+v: got %q, want one that it %s", planted, got, what)
			}
		}
	}
	if got := dangers(role{"ClusterRole planted", []rbacv1.PolicyRule{rule("", "secrets", "list")}}, accepted{secrets: true}); len(got) > 0 {
		t.Errorf("with restartOnSecretChange: %q", got)
	}
	if got := dangers(role{"ClusterRole planted", []rbacv1.PolicyRule{rule("", "secrets", "create")}}, accepted{secrets: true}); len(got) != 1 {
		t.Errorf("with restartOnSecretChange Secrets may be read, not written; got %q", got)
	}
	for _, harmless := range []rbacv1.PolicyRule{
		rule("", "secrets", "patch", "one"), rule(webhooks, "validatingwebhookconfigurations", "list", "one"),
		rule("", "namespaces", "get"), rule("apiextensions.k8s.io", "customresourcedefinitions", "list"),
	} {
		if got := dangers(role{"ClusterRole planted", []rbacv1.PolicyRule{harmless}}, accepted{}); len(got) > 0 {
			t.Errorf("%+v: got %q", harmless, got)
		}
	}
	inject := rule(webhooks, "mutatingwebhookconfigurations", "patch", "one")
	if got := dangers(role{"ClusterRole planted", []rbacv1.PolicyRule{inject}}, accepted{issues: true}); len(got) > 0 {
		t.Errorf("if the operator issues its certificate: %q", got)
	}
	if inject.ResourceNames = nil; len(dangers(role{"ClusterRole planted", []rbacv1.PolicyRule{inject}}, accepted{issues: true})) == 0 {
		t.Error("if the operator issues its certificate, it may change all webhook configurations")
	}
	bindings := parse(t, []byte(`
kind: ClusterRoleBinding
metadata: {name: a}
roleRef: {kind: ClusterRole, name: cluster-admin}
subjects: [{kind: Group, name: "system:authenticated"}]
`))
	if got := misbound(t, bindings); len(got) != 2 {
		t.Errorf("a binding of cluster-admin to everybody: got %q", got)
	}
}

// TestRBAC_UserRolesCoverTheKinds checks that the rules that are aggregated to the
// ClusterRoles view and edit cover all kinds of the operator, and nothing else.
func TestRBAC_UserRolesCoverTheKinds(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"chart", "config/default"} {
		t.Run(name, func(t *testing.T) {
			objects := renderings(t)[name]
			want := map[string][]string{}
			for _, o := range objects {
				if o.GetKind() != "CustomResourceDefinition" {
					continue
				}
				group, _, _ := unstructured.NestedString(o.Object, "spec", "group")
				plural, _, _ := unstructured.NestedString(o.Object, "spec", "names", "plural")
				versions, _, _ := unstructured.NestedSlice(o.Object, "spec", "versions")
				_, scales, _ := unstructured.NestedMap(versions[0].(map[string]any), "subresources", "scale")
				parts := map[string][]string{"view": {"", "/status"}, "edit": {""}}
				if scales {
					parts = map[string][]string{"view": {"", "/status", "/scale"}, "edit": {"", "/scale"}}
				}
				for role, verbs := range map[string][]string{"view": {"get", "list", "watch"}, "edit": {"create", "delete", "deletecollection", "patch", "update"}} {
					for _, part := range parts[role] {
						for _, verb := range verbs {
							want[role] = append(want[role], verb+" "+plural+part+"."+group)
						}
					}
				}
			}
			if len(want["view"]) < 4*6 {
				t.Fatalf("the view role should have %q: the test sees nothing", want["view"])
			}
			aggregated := map[string]map[string]string{
				"view": {"rbac.authorization.k8s.io/aggregate-to-view": "true"},
				"edit": {"rbac.authorization.k8s.io/aggregate-to-edit": "true", "rbac.authorization.k8s.io/aggregate-to-admin": "true"},
			}
			for _, o := range objects {
				role, ours := strings.CutPrefix(o.GetName(), "platform-operator-")
				if o.GetKind() != "ClusterRole" || !ours {
					continue
				}
				labels := map[string]string{}
				for k, v := range o.GetLabels() {
					if strings.HasPrefix(k, "rbac.authorization.k8s.io/") {
						labels[k] = v
					}
				}
				if diff := gocmp.Diff(len(aggregated[role]), len(labels)); diff != "" {
					t.Errorf("ClusterRole %s is added to other roles by %v", o.GetName(), labels)
				}
				if aggregated[role] == nil {
					continue
				}
				if diff := gocmp.Diff(aggregated[role], labels); diff != "" {
					t.Errorf("%s is added to (-want +got):\n%s", o.GetName(), diff)
				}
				var got []string
				for _, r := range roles(t, []*unstructured.Unstructured{o}) {
					for x := range rbac.Each(r.rules) {
						got = append(got, x.Verb+" "+x.Resource+"."+x.Group)
					}
				}
				slices.Sort(got)
				slices.Sort(want[role])
				if diff := gocmp.Diff(want[role], got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", o.GetName(), diff)
				}
				delete(want, role)
			}
			if len(want) > 0 {
				t.Errorf("there is no role for %v", want)
			}
		})
	}
}

// TestRBAC_EveryPermissionIsDocumented compares docs/rbac.md with the granted permissions.
func TestRBAC_EveryPermissionIsDocumented(t *testing.T) {
	t.Parallel()
	type row struct{ where, group, resource, names string }
	granted := map[row][]string{}
	objects := renderings(t)["everything on"]
	for _, o := range objects {
		where, mine := map[string]string{
			"ClusterRole platform-operator-manager": "watched namespaces", "ClusterRole platform-operator-cluster": "cluster",
			"ClusterRole platform-operator-webhooks": "cluster", "Role platform-operator": "own namespace",
		}[o.GetKind()+" "+o.GetName()]
		if !mine {
			continue
		}
		for _, r := range roles(t, []*unstructured.Unstructured{o}) {
			for x := range rbac.Each(r.rules) {
				k := row{where, cmp.Or(x.Group, "core"), x.Resource, cmp.Or(x.Name, "all")}
				granted[k] = append(granted[k], x.Verb)
			}
		}
	}
	if len(granted) < 20 {
		t.Fatalf("only %d rows: the test sees nothing", len(granted))
	}
	text, err := os.ReadFile("../docs/rbac.md")
	if err != nil {
		t.Fatal(err)
	}
	explained := map[row][]string{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 6 {
			continue
		}
		for i := range cells {
			cells[i] = strings.Trim(strings.TrimSpace(cells[i]), "`")
		}
		if cells[0] == "where" || strings.HasPrefix(cells[0], "---") {
			continue
		}
		if cells[5] == "" {
			t.Errorf("no reason: %s", line)
		}
		// One group, or one for each resource.
		groups := strings.Split(cells[1], ", ")
		for i, resource := range strings.Split(cells[2], ", ") {
			k := row{cells[0], strings.Trim(groups[i%len(groups)], "`"), strings.Trim(resource, "`"), cells[3]}
			explained[k] = append(explained[k], strings.Split(cells[4], ", ")...)
		}
	}
	for _, m := range []map[row][]string{granted, explained} {
		for k := range m {
			slices.Sort(m[k])
		}
	}
	if diff := gocmp.Diff(granted, explained, gocmp.AllowUnexported(row{})); diff != "" {
		t.Errorf("docs/rbac.md (-granted +explained):\n%s", diff)
	}
}
