//go:build chart

package charts_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	gocmp "github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/platform-operator/platform-operator/pkg/testkit/apiserver"
	"github.com/platform-operator/platform-operator/pkg/testkit/rbac"
)

// attempt is a request of testdata/account.yaml.
type attempt struct {
	As        string         `json:"as"`
	Try       string         `json:"try"`
	Do        string         `json:"do"`
	Like      string         `json:"like"`
	Target    string         `json:"target"`
	With      map[string]any `json:"with"`
	Permitted *bool          `json:"permitted"`
	Refused   string         `json:"refused"`
	Because   string         `json:"because"`
}

// child is the metadata of every child that the attempts are like.
const child = `
  namespace: team-a
  name: web
  labels: {app.kubernetes.io/managed-by: platform-operator}
  ownerReferences: [{apiVersion: my.domain/v1, kind: WebServer, name: web, uid: 0a, controller: true, blockOwnerDeletion: true}]
`

const podSpec = `{automountServiceAccountToken: false, containers: [{name: c, image: i}]}`

// examples are the objects that the attempts are like.
var examples = map[string]string{ //nolint:gosec // no credentials
	"Deployment":              `{apiVersion: apps/v1, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: ` + podSpec + `}}}`,
	"Pod":                     `{apiVersion: v1, spec: ` + podSpec + `}`,
	"ControllerRevision":      `{apiVersion: apps/v1, revision: 1, data: {template: {spec: ` + podSpec + `}}}`,
	"Job":                     `{apiVersion: batch/v1, spec: {template: {spec: {restartPolicy: Never, automountServiceAccountToken: false, containers: [{name: c, image: i}]}}}}`,
	"ConfigMap":               `{apiVersion: v1, data: {a: b}, metadata: {annotations: {platform-operator.io/source: site@1}}}`,
	"Service":                 `{apiVersion: v1, spec: {selector: {webserver_cr: web}, ports: [{port: 80}]}}`,
	"Ingress":                 `{apiVersion: networking.k8s.io/v1, spec: {defaultBackend: {service: {name: web, port: {number: 80}}}}}`,
	"NetworkPolicy":           `{apiVersion: networking.k8s.io/v1, spec: {podSelector: {matchLabels: {app: web}}}}`,
	"HorizontalPodAutoscaler": `{apiVersion: autoscaling/v2, spec: {maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}}`,
	"PodDisruptionBudget":     `{apiVersion: policy/v1, spec: {maxUnavailable: 1, selector: {matchLabels: {memcached_cr: web}}}}`,
	"Secret":                  `{apiVersion: v1}`,
	"Lease":                   `{apiVersion: coordination.k8s.io/v1, metadata: {namespace: ` + namespace + `, name: platform-operator, labels: null, ownerReferences: null}}`,
	"ClusterRoleBinding": `{apiVersion: rbac.authorization.k8s.io/v1, metadata: {namespace: null, labels: null, ownerReferences: null},
		roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}}`,
	"WebServer":                    `{apiVersion: my.domain/v1, metadata: {ownerReferences: null, finalizers: [example.com/other]}, spec: {image: "nginx:1.23.1", replicas: 3}}`,
	"MutatingWebhookConfiguration": `{apiVersion: admissionregistration.k8s.io/v1}`,
	"ValidatingAdmissionPolicy":    `{apiVersion: admissionregistration.k8s.io/v1}`,
}

// fixtures are the objects that exist. Those that "unowned" refers to have neither
// the label nor the owner of a child.
var fixtures = []struct{ kind, namespace, name, with string }{
	{"WebServer", "team-a", "web", ""},
	{"WebServer", "kube-system", "web", ""},
	{"Deployment", "team-a", "owned", ""},
	{"Deployment", "team-a", "edited", `{spec: {template: {spec: {hostNetwork: true}}}}`},
	{"Deployment", "team-a", "estranged", `{metadata: {ownerReferences: null, annotations: {platform-operator.io/owner-uid: 0a}}}`},
	{"Deployment", "team-a", "misowned", `{metadata: {annotations: {platform-operator.io/owner-uid: 0a}, ownerReferences: [{apiVersion: example.com/v1, kind: WebServer, name: web, uid: 0a, controller: true}]}}`},
	{"Deployment", "team-a", "given", `{metadata: {annotations: {platform-operator.io/owner-uid: 0a}, ownerReferences: [{apiVersion: example.com/v1, kind: App, name: app, uid: 0b, controller: true}]}}`},
	{"Deployment", "team-a", "foreign", `{metadata: {labels: null, ownerReferences: [{apiVersion: v1, kind: Namespace, name: team-a, uid: 0c}]}}`},
	{"Deployment", "team-a", "unowned", unowned},
	{"Deployment", "kube-system", "system", unowned},
	{"ControllerRevision", "team-a", "owned", ""},
	{"ControllerRevision", "team-a", "unowned", unowned},
	{"ControllerRevision", "team-a", "estranged", `{metadata: {ownerReferences: null, annotations: {platform-operator.io/owner-uid: 0a}}}`},
	{"ConfigMap", "team-a", "owned", `{metadata: {annotations: null}}`},
	{"ConfigMap", "team-a", "snapshot", ""},
	{"ConfigMap", "team-a", "unowned", unowned},
	{"ConfigMap", "kube-system", "system", unowned},
	{"Service", "kube-system", "system", unowned},
	{"Pod", "team-a", "unowned", `{metadata: {ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: 0a, controller: true}]}}`},
	{"NetworkPolicy", "team-a", "unowned", unowned},
	{"PodDisruptionBudget", "team-a", "owned", ""},
	{"Secret", "team-a", "unowned", unowned},
}

const unowned = `{metadata: {labels: null, annotations: null, ownerReferences: null}}`

// users are the accounts that make the attempts.
func users(admin *rest.Config) map[string]*rest.Config {
	as := func(name string, groups ...string) *rest.Config {
		c := rest.CopyConfig(admin)
		c.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: append(groups, "system:authenticated")}
		return c
	}
	return map[string]*rest.Config{
		"operator": as("system:serviceaccount:"+namespace+":platform-operator", "system:serviceaccounts", "system:serviceaccounts:"+namespace),

		"administrator":          as("jane", "system:masters"),
		"backup":                 as("system:serviceaccount:velero:velero", "system:masters"),
		"StatefulSet controller": as("system:serviceaccount:kube-system:statefulset-controller", "system:masters"),
		"garbage collector":      as("system:serviceaccount:kube-system:generic-garbage-collector", "system:masters"),
	}
}

// TestAdmissionPolicies makes each attempt of testdata/account.yaml on an API server
// on which the chart is installed, without its policies and with them, and compares
// the answers with the file.
func TestAdmissionPolicies(t *testing.T) {
	t.Parallel()
	admin, c, kubeconfig := startServer(t)
	install := slices.Concat([]string{
		"upgrade", "--install", "platform-operator", chart, "--kubeconfig", kubeconfig, "--namespace", namespace, "--create-namespace",
		"--set", "config.pods.labels={istio.io/rev}", "--set", "config.annotations={external-dns.alpha.kubernetes.io/*}",
	}, image)
	helm(t, append(install, "--set", "admissionPolicy.enabled=false")...)
	removeWebhooks(t, c)
	for _, name := range []string{"team-a", "argocd"} {
		must(t, c.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}}}))
	}
	for _, f := range fixtures {
		must(t, c.Create(t.Context(), object(t, f.kind, f.namespace, f.name, f.with)))
	}

	attempts := readAttempts(t)
	clients := map[string]client.Client{}
	for name, cfg := range users(admin) {
		cfg.QPS = -1
		u, err := client.New(cfg, client.Options{Mapper: c.RESTMapper()})
		must(t, err)
		clients[name] = client.NewDryRunClient(u)
	}
	for _, a := range attempts {
		err := a.make(t, clients[a.As])
		if permitted := a.Permitted == nil || *a.Permitted; permitted != (err == nil) || err != nil && !(apierrors.IsForbidden(err) && strings.Contains(err.Error(), "cannot ")) {
			t.Errorf("%s, without the policies: got %v, want permitted %v", a.Try, err, permitted)
		}
	}

	helm(t, install...)
	webhooks := get(t, c, "admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "platform-operator").Object["webhooks"]
	removeWebhooks(t, c)
	messages := waitForPolicies(t, c, attempts, clients)
	for _, a := range attempts {
		err := a.make(t, clients[a.As])
		switch {
		case a.Permitted != nil && !*a.Permitted:
			if !apierrors.IsForbidden(err) {
				t.Errorf("%s: got %v, want it to be forbidden", a.Try, err)
			}
		case a.Refused == "":
			if err != nil {
				t.Errorf("%s: %v", a.Try, err)
			}
		case err == nil:
			t.Errorf("%s: it is allowed, want it to be refused", a.Try)
		case !strings.Contains(err.Error(), "ValidatingAdmissionPolicy 'platform-operator-") || !strings.Contains(err.Error(), a.Refused):
			t.Errorf("%s: got %v, want %q", a.Try, err, a.Refused)
		}
		for m := range messages {
			if err != nil && strings.Contains(err.Error(), m) {
				messages[m] = true
			}
		}
	}
	for m, refuses := range messages {
		if !refuses {
			t.Errorf("no attempt is refused because %s", m)
		}
	}
	admitsChildren(t, clients["operator"])
	refusesNothingWithoutOperator(t, c, clients["administrator"], webhooks)
}

// refusesNothingWithoutOperator deletes what the deletion of the operator's namespace deletes.
func refusesNothingWithoutOperator(t *testing.T, c, administrator client.Client, webhooks any) {
	t.Helper()
	raw, err := json.Marshal(map[string]any{"webhooks": webhooks})
	must(t, err)
	configuration := get(t, c, "admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "platform-operator")
	must(t, c.Patch(t.Context(), configuration, client.RawPatch(types.MergePatchType, raw)))
	refused := func(want bool) {
		t.Helper()
		for _, kind := range []string{"ConfigMap", "WebServer"} {
			var answer error
			if err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
				answer = administrator.Create(t.Context(), object(t, kind, "", "another", ""))
				return (answer != nil) == want, nil
			}); err != nil {
				t.Fatalf("%s: got %v, want it to be refused: %v", kind, answer, want)
			}
		}
	}
	refused(true)
	binding := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": map[string]any{"namespace": namespace, "name": "platform-operator"},
	}}
	must(t, c.Delete(t.Context(), binding))
	refused(false)
}

// admitsChildren creates the children of the golden files of all kinds as the operator.
func admitsChildren(t *testing.T, c client.Client) {
	t.Helper()
	files, err := filepath.Glob("../controllers/*/testdata/seed/want.yaml")
	must(t, err)
	kinds := map[string]bool{}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		must(t, err)
		for _, o := range parse(t, raw) {
			if len(o.GetOwnerReferences()) == 0 {
				continue
			}
			o.SetNamespace("team-a")
			o.SetResourceVersion("")
			o.SetUID("")
			if err := c.Create(t.Context(), o); err != nil {
				t.Errorf("%s: %s %s: %v", f, o.GetKind(), o.GetName(), err)
			}
			kinds[o.GetOwnerReferences()[0].Kind+" "+o.GetKind()] = true
		}
	}
	for _, want := range []string{"WebServer ControllerRevision", "WebServer Deployment", "DemoApplication Deployment", "Memcached Deployment", "ImmortalContainer Pod"} {
		if !kinds[want] {
			t.Errorf("the golden files have no %s", want)
		}
	}
}

// removeWebhooks empties the webhook configurations: there is no operator that answers.
func removeWebhooks(t *testing.T, c client.Client) {
	t.Helper()
	for _, kind := range []string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"} {
		u := get(t, c, "admissionregistration.k8s.io/v1", kind, "platform-operator")
		must(t, c.Patch(t.Context(), u, client.RawPatch(types.MergePatchType, []byte(`{"webhooks":null}`))))
	}
}

// waitForPolicies waits until the API server enforces the policies, which it reads by
// a watch, and returns their messages. It fails for an expression that does not fit
// the types of the objects.
func waitForPolicies(t *testing.T, c client.Client, attempts []attempt, clients map[string]client.Client) map[string]bool {
	t.Helper()
	for _, user := range []string{"operator", "administrator"} {
		i := slices.IndexFunc(attempts, func(a attempt) bool { return a.As == user && a.Refused != "" })
		err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
			err := attempts[i].make(t, clients[user])
			return err != nil, nil
		})
		if err != nil {
			t.Fatalf("%s: the policies have no effect: %v", attempts[i].Try, err)
		}
	}
	messages := map[string]bool{}
	for _, name := range []string{"platform-operator-account", "platform-operator-revisions"} {
		var p admissionv1.ValidatingAdmissionPolicy
		must(t, c.Get(t.Context(), client.ObjectKey{Name: name}, &p))
		for _, v := range p.Spec.Validations {
			messages[v.Message] = false
		}
	}
	return messages
}

func (a attempt) make(t *testing.T, c client.Client) error {
	t.Helper()
	if a.Do == "create" {
		kind := object(t, a.Like, "", "", "")
		with, err := yaml.Marshal(a.With)
		must(t, err)
		o := object(t, kind.GetKind(), "", "", string(with))
		return c.Create(t.Context(), o)
	}
	kind, key, _ := strings.Cut(a.Target, " ")
	namespace, name, _ := strings.Cut(key, "/")
	o := object(t, kind, "", "", "")
	o = &unstructured.Unstructured{Object: map[string]any{"apiVersion": o.GetAPIVersion(), "kind": kind}}
	o.SetNamespace(namespace)
	o.SetName(name)
	switch a.Do {
	case "get":
		return c.Get(t.Context(), client.ObjectKeyFromObject(o), o)
	case "delete":
		return c.Delete(t.Context(), o)
	default:
		with, err := json.Marshal(a.With)
		must(t, err)
		return c.Patch(t.Context(), o, client.RawPatch(types.MergePatchType, with))
	}
}

// object returns the example of a kind, with a merge patch applied to it, and with
// the given namespace and name if they are set.
func object(t *testing.T, kind, namespace, name, with string) *unstructured.Unstructured {
	t.Helper()
	merged := []byte(`{}`)
	for _, layer := range []string{"metadata:" + child, examples[kind], with} {
		patch, err := yaml.YAMLToJSON([]byte(layer))
		must(t, err)
		if string(patch) == "null" {
			continue
		}
		merged, err = jsonpatch.MergePatch(merged, patch)
		must(t, err)
	}
	o := &unstructured.Unstructured{}
	must(t, json.Unmarshal(merged, &o.Object))
	o.SetKind(kind)
	if namespace != "" {
		o.SetNamespace(namespace)
	}
	if name != "" {
		o.SetName(name)
	}
	return o
}

func readAttempts(t *testing.T) []attempt {
	t.Helper()
	raw, err := os.ReadFile("testdata/account.yaml")
	must(t, err)
	var all []attempt
	if err := yaml.UnmarshalStrict(raw, &all); err != nil {
		t.Fatalf("testdata/account.yaml: %v", err)
	}
	for i, a := range all {
		if a.Because == "" || (a.Like == "") == (a.Target == "") {
			t.Fatalf("%s: because and either like or target are required", a.Try)
		}
		if a.As == "" {
			all[i].As = "operator"
		}
	}
	return all
}

// startServer starts an API server without nodes, and stops it after the test. The
// last result is a file for helm and kubectl.
func startServer(t *testing.T) (cfg *rest.Config, c client.Client, kubeconfig string) {
	t.Helper()
	server := &envtest.Environment{}
	cfg, err := apiserver.Start(server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop() })
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	must(t, os.WriteFile(kubeconfig, server.KubeConfig, 0o600))
	c, err = client.New(cfg, client.Options{})
	must(t, err)
	return cfg, c, kubeconfig
}

// TestAdmissionPolicies_CoverEveryPermission checks that the policy applies to
// everything that the operator may write, so that a new permission is confined too.
func TestAdmissionPolicies_CoverEveryPermission(t *testing.T) {
	t.Parallel()
	// What cannot be confined further, and why.
	exempt := map[string]string{
		"events":                          "anyone who reports events needs them for any object",
		"tokenreviews":                    "stores nothing",
		"subjectaccessreviews":            "stores nothing",
		"mutatingwebhookconfigurations":   "no policy applies to them",
		"validatingwebhookconfigurations": "no policy applies to them",
	}
	objects := parse(t, template(t, "--set", "config.restartOnSecretChange=true"))
	var policy admissionv1.ValidatingAdmissionPolicy
	for _, o := range objects {
		if o.GetKind() == "ValidatingAdmissionPolicy" && o.GetName() == "platform-operator-account" {
			must(t, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &policy))
		}
	}
	covered := map[string]bool{}
	for _, r := range policy.Spec.MatchConstraints.ResourceRules {
		for _, g := range r.APIGroups {
			for _, resource := range r.Resources {
				covered[resource+"."+g] = true
			}
		}
	}
	writes, used := 0, map[string]bool{}
	for _, o := range objects {
		if o.GetAnnotations()["helm.sh/hook"] != "" || strings.HasSuffix(o.GetName(), "-edit") {
			continue // of other accounts
		}
		for _, r := range roles(t, []*unstructured.Unstructured{o}) {
			for p := range rbac.Each(r.rules) {
				if slices.Contains([]string{"get", "list", "watch"}, p.Verb) || strings.Contains(p.Resource, "/") {
					continue
				}
				writes++
				if used[p.Resource] = true; !covered[p.Resource+"."+p.Group] && exempt[p.Resource] == "" {
					t.Errorf("the policy does not apply to %s %s.%s", p.Verb, p.Resource, p.Group)
				}
			}
		}
	}
	if writes < 30 {
		t.Errorf("only %d permissions to write: the test sees nothing", writes)
	}
	for resource := range exempt {
		if !used[resource] {
			t.Errorf("the operator has no permission to write %s", resource)
		}
	}
}

// TestAdmissionPolicies_InProduction checks that the values for production change none of the
// policies, with which TestAdmissionPolicies makes the attempts.
func TestAdmissionPolicies_InProduction(t *testing.T) {
	t.Parallel()
	policies := func(args ...string) (all []*unstructured.Unstructured) {
		for _, o := range parse(t, template(t, args...)) {
			if strings.HasPrefix(o.GetKind(), "ValidatingAdmissionPolicy") {
				all = append(all, o)
			}
		}
		return all
	}
	want := policies()
	if diff := gocmp.Diff(want, policies("-f", filepath.Join(chart, "values-production.yaml"))); diff != "" || len(want) == 0 {
		t.Errorf("%d policies (-default +production):\n%s", len(want), diff)
	}
}

// TestAdmissionPolicies_WithOtherNames checks that the policies name the account, the
// namespace and the Secret of the release.
func TestAdmissionPolicies_WithOtherNames(t *testing.T) {
	t.Parallel()
	var all []string
	for _, o := range parse(t, helm(t, slices.Concat([]string{
		"template", "other", chart, "--namespace", "elsewhere", "--set", "fullnameOverride=mine", "--set", "serviceAccount.name=someone",
		"--set", "config.serviceAccounts=true", "--set", "admissionPolicy.backupAccounts=null", "--set", "admissionPolicy.infrastructure={here,there}",
	}, image)...)) {
		if !strings.HasPrefix(o.GetKind(), "ValidatingAdmissionPolicy") {
			continue
		}
		raw, err := json.Marshal(o.Object)
		must(t, err)
		all = append(all, o.GetKind()+" "+o.GetName())
		if strings.Contains(string(raw), namespace) {
			t.Errorf("%s %s refers to %s", o.GetKind(), o.GetName(), namespace)
		}
		if o.GetKind() == "ValidatingAdmissionPolicyBinding" {
			continue
		}
		for _, want := range map[string][]string{
			"mine-account":   {"system:serviceaccount:elsewhere:someone", `"'elsewhere'"`, `"'mine-webhook-cert'"`, `"expression":"true","name":"serviceAccounts"`, `"['here', 'there']"`},
			"mine-revisions": {"(request.userInfo.username in ['system:serviceaccount:elsewhere:someone',"},
		}[o.GetName()] {
			if !strings.Contains(string(raw), want) {
				t.Errorf("%s does not contain %s", o.GetName(), want)
			}
		}
	}
	slices.Sort(all)
	want := []string{
		"ValidatingAdmissionPolicy mine-account", "ValidatingAdmissionPolicy mine-revisions",
		"ValidatingAdmissionPolicyBinding mine-account", "ValidatingAdmissionPolicyBinding mine-revisions",
	}
	if diff := gocmp.Diff(want, all); diff != "" {
		t.Errorf("policies (-want +got):\n%s", diff)
	}
}
