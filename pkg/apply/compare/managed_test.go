package compare

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/platform-operator/platform-operator/pkg/naming"
)

const (
	update  = metav1.ManagedFieldsOperationUpdate
	byApply = metav1.ManagedFieldsOperationApply

	replicasOnly   = `{"f:spec":{"f:replicas":{}}}`
	imageOnly      = `{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{"f:image":{}}}}}}}`
	restartedAt    = `{"f:spec":{"f:template":{"f:metadata":{"f:annotations":{"f:kubectl.kubernetes.io/restartedAt":{}}}}}}`
	env            = `{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{"f:env":{".":{},"k:{\"name\":\"A\"}":{".":{},"f:name":{},"f:value":{}}}}}}}}}`
	replicasAndEnv = `{"f:spec":{"f:replicas":{},"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{"f:env":{".":{},"k:{\"name\":\"A\"}":{".":{},"f:name":{},"f:value":{}}}}}}}}}`
	envOfSidecar   = `{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"web2\"}":{"f:env":{".":{},"k:{\"name\":\"A\"}":{".":{},"f:name":{}}}}}}}}}`
	envFrom        = `{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{"f:envFrom":{}}}}}}}`
	statusFields   = `{"f:status":{"f:readyReplicas":{}}}`
)

func entry(manager string, op metav1.ManagedFieldsOperationType, fields string, subresource ...string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{
		Manager: manager, Operation: op, APIVersion: "apps/v1", FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(fields), Subresource: strings.Join(subresource, ""),
	}
}

// owned formats each entry as "manager operation subresource", with its paths.
func owned(t *testing.T, entries []metav1.ManagedFieldsEntry) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, e := range entries {
		s := fieldpath.NewSet()
		if err := s.FromJSON(e.FieldsV1.GetRawReader()); err != nil {
			t.Fatal(err)
		}
		key := strings.TrimSpace(e.Manager + " " + string(e.Operation) + " " + e.Subresource)
		s.Iterate(func(p fieldpath.Path) { all[key] = append(all[key], p.String()) })
	}
	return all
}

func TestClaim(t *testing.T) {
	envOfWeb := Extra([]Difference{{Path: "spec.template.spec.containers[web].env", Verb: removed}, {Path: "spec.replicas", Verb: changed}})
	oursBefore := entry(naming.FieldManager, byApply, imageOnly)

	for name, tc := range map[string]struct {
		scope  Scope
		before []metav1.ManagedFieldsEntry
		want   []metav1.ManagedFieldsEntry // nil if no field has to be transferred
	}{
		"all fields of a legacy operator": {
			LegacyOperators,
			[]metav1.ManagedFieldsEntry{entry("manager", update, replicasAndEnv)},
			[]metav1.ManagedFieldsEntry{entry(naming.FieldManager, byApply, replicasAndEnv)},
		},
		"of several managers, in addition to owned fields": {
			LegacyOperators,
			[]metav1.ManagedFieldsEntry{entry("manager", update, replicasOnly), oursBefore, entry("webserver-operator", update, env)},
			[]metav1.ManagedFieldsEntry{entry(naming.FieldManager, byApply, replicasOnly), entry(naming.FieldManager, byApply, imageOnly), entry(naming.FieldManager, byApply, env)},
		},
		"kubectl keeps a restart": {
			LegacyOperators, []metav1.ManagedFieldsEntry{entry("kubectl-rollout", update, restartedAt)}, nil,
		},
		"kubectl keeps a restart in addition to the legacy operator": {
			LegacyOperators,
			[]metav1.ManagedFieldsEntry{entry("manager", update, replicasOnly), entry("kubectl-rollout", update, restartedAt)},
			[]metav1.ManagedFieldsEntry{entry(naming.FieldManager, byApply, replicasOnly), entry("kubectl-rollout", update, restartedAt)},
		},
		"Kubernetes controllers keep their fields": {
			LegacyOperators, []metav1.ManagedFieldsEntry{entry("kube-controller-manager", update, replicasOnly)}, nil,
		},
		"who applies keeps it": {
			LegacyOperators, []metav1.ManagedFieldsEntry{entry("argocd-controller", byApply, replicasOnly)}, nil,
		},
		"the status is never claimed": {
			LegacyOperators, []metav1.ManagedFieldsEntry{entry("manager", update, statusFields, "status")}, nil,
		},
		"a scale stays with who scaled": {
			LegacyOperators, []metav1.ManagedFieldsEntry{entry("manager", update, replicasOnly, "scale")}, nil,
		},
		"nothing is managed": {LegacyOperators, nil, nil},
		"all owned already":  {LegacyOperators, []metav1.ManagedFieldsEntry{oursBefore}, nil},

		"only the exclusive path": {
			envOfWeb,
			[]metav1.ManagedFieldsEntry{oursBefore, entry("kubectl-edit", update, replicasAndEnv)},
			[]metav1.ManagedFieldsEntry{entry(naming.FieldManager, byApply, imageOnly), entry(naming.FieldManager, byApply, env), entry("kubectl-edit", update, replicasOnly)},
		},
		"the exclusive path of who applied": {
			envOfWeb,
			[]metav1.ManagedFieldsEntry{oursBefore, entry("argocd-controller", byApply, env)},
			[]metav1.ManagedFieldsEntry{entry(naming.FieldManager, byApply, imageOnly), entry(naming.FieldManager, byApply, env)},
		},
		"not of a container whose name only begins so": {
			envOfWeb, []metav1.ManagedFieldsEntry{oursBefore, entry("kubectl-edit", update, envOfSidecar)}, nil,
		},
		"not of a field whose name only begins so": {
			envOfWeb, []metav1.ManagedFieldsEntry{oursBefore, entry("kubectl-edit", update, envFrom)}, nil,
		},
		"not a field next to it": {
			envOfWeb, []metav1.ManagedFieldsEntry{oursBefore, entry("kubectl-edit", update, replicasOnly)}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "42", ManagedFields: tc.before}}
			untouched := d.DeepCopy()
			after, err := Claim(d, tc.scope)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(owned(t, untouched.ManagedFields), owned(t, d.ManagedFields)); diff != "" {
				t.Errorf("the object was changed:\n%s", diff)
			}
			if tc.want == nil {
				if after != nil {
					t.Fatalf("fields were claimed: %v", owned(t, after))
				}
				return
			}
			if diff := cmp.Diff(sorted(owned(t, tc.want)), sorted(owned(t, after))); diff != "" {
				t.Errorf("owners (-want +got):\n%s", diff)
			}
			ourEntries := 0
			for _, e := range after {
				if IsOurs(e) {
					ourEntries++
				}
				if e.APIVersion != "apps/v1" || e.FieldsType != "FieldsV1" {
					t.Errorf("entry of %s has API version %q and fields of type %q: the server would drop it", e.Manager, e.APIVersion, e.FieldsType)
				}
			}
			if ourEntries != 1 {
				t.Errorf("got %d entries of the operator, want 1", ourEntries)
			}
		})
	}
}

func TestClaim_NamesTheManagerOfUnreadableFields(t *testing.T) {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{entry("manager", update, `{"x`)}}}
	if _, err := Claim(d, LegacyOperators); err == nil || !strings.Contains(err.Error(), `"manager"`) {
		t.Errorf("got %v", err)
	}
}

func TestPathString(t *testing.T) {
	name, number := "web", 80
	for want, p := range map[string]fieldpath.Path{
		"spec.replicas": fieldpath.MakePathOrDie("spec", "replicas"),
		"spec.template.spec.containers[web].env": fieldpath.MakePathOrDie("spec", "template", "spec", "containers",
			fieldpath.KeyByFields("name", name), "env"),
		"spec.ports[80].nodePort": fieldpath.MakePathOrDie("spec", "ports", fieldpath.KeyByFields("port", number, "protocol", "TCP"), "nodePort"),
		"spec.tolerations.effect": fieldpath.MakePathOrDie("spec", "tolerations", 0, "effect"),
		"":                        {},
	} {
		if got := pathString(p); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// sorted converts the lists of paths to sets.
func sorted(m map[string][]string) map[string]map[string]bool {
	sets := map[string]map[string]bool{}
	for k, paths := range m {
		sets[k] = map[string]bool{}
		for _, p := range paths {
			sets[k][p] = true
		}
	}
	return sets
}
