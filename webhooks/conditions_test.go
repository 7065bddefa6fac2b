package webhooks_test

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	apiserver "k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"

	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/webhooks"
	"github.com/platform-operator/platform-operator/webhooks/admissiontest/corpus"
)

// mutatingWebhooks returns the compiled match conditions of the generated
// configuration, by API group.
func mutatingWebhooks(t *testing.T) map[string]matchconditions.Matcher {
	t.Helper()
	raw, err := os.ReadFile("../config/webhook/manifests.yaml")
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(string(raw), "---\n"), "\n---\n")
	var configuration admissionregistrationv1.MutatingWebhookConfiguration
	if err := yaml.UnmarshalStrict([]byte(first), &configuration); err != nil {
		t.Fatal(err)
	}
	compiler := cel.NewConditionCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	all := map[string]matchconditions.Matcher{}
	for _, w := range configuration.Webhooks {
		var expressions []cel.ExpressionAccessor
		for _, c := range w.MatchConditions {
			expressions = append(expressions, new(matchconditions.MatchCondition(c)))
		}
		compiled := compiler.CompileCondition(expressions, cel.OptionalVariableDeclarations{HasAuthorizer: true}, environment.StoredExpressions)
		all[w.Rules[0].APIGroups[0]] = matchconditions.NewMatcher(compiled, w.FailurePolicy, "webhook", "admit", w.Name)
	}
	return all
}

// calls reports whether the API server calls the mutating webhook for an object. old
// is nil for a creation.
func calls(t *testing.T, m matchconditions.Matcher, obj, old map[string]any) bool {
	t.Helper()
	u := &unstructured.Unstructured{Object: obj}
	operation, was := apiserver.Create, runtime.Object(nil)
	if old != nil {
		operation, was = apiserver.Update, &unstructured.Unstructured{Object: old}
	}
	gvk := u.GroupVersionKind()
	attributes := &apiserver.VersionedAttributes{
		Attributes:    apiserver.NewAttributesRecord(u, was, gvk, "default", u.GetName(), runtimeschema.GroupVersionResource{}, "", operation, nil, false, nil),
		VersionedKind: gvk,
	}
	attributes.VersionedObject.Set(u)
	attributes.VersionedOldObject.Set(was)
	result := m.Match(t.Context(), attributes, nil, nil)
	if result.Error != nil {
		t.Errorf("%v: the API server refuses the request: %v", obj, result.Error)
	}
	return result.Matches
}

// changes reports whether the mutating webhook changes an object if it is called.
func changes(t *testing.T, obj map[string]any) bool {
	t.Helper()
	raw, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	r := webhooks.AddFinalizer(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Object: runtime.RawExtension{Raw: raw}}})
	return len(r.Patches) > 0
}

// agree compares the match conditions with what the webhook changes: it may add defaults to
// every new object. Objects that the webhook cannot read may be sent to it: the schema
// refuses them afterwards.
func agree(t *testing.T, m matchconditions.Matcher, obj, old map[string]any, edited bool) {
	t.Helper()
	want := edited && (old == nil || changes(t, obj))
	_, _, unreadable := unstructured.NestedString(obj, "spec", "deletionPolicy")
	if got := calls(t, m, obj, old); got != want && (want || unreadable == nil) {
		t.Errorf("%v, before %v: called %v, want %v", obj, old, got, want)
	}
}

func TestMatchConditions_CallTheWebhookIfItChangesTheObject(t *testing.T) {
	matchers := mutatingWebhooks(t)
	all, err := kinds()
	if err != nil {
		t.Fatal(err)
	}
	finalizers := [][]any{nil, {}, {naming.Finalizer}, {"example.com/hold"}, {"example.com/hold", naming.Finalizer}}
	// The schema is validated after the mutating webhooks.
	specs := []any{
		nil,
		[]any{},
		"Orphan",
		map[string]any{},
		map[string]any{"deletionPolicy": "Delete"},
		map[string]any{"deletionPolicy": "Orphan"},
		map[string]any{"deletionPolicy": "orphan"},
		map[string]any{"deletionPolicy": nil},
		map[string]any{"deletionPolicy": int64(5)},
		map[string]any{"deletionPolicy": map[string]any{}},
	}
	for _, k := range all {
		t.Run(k.Kind.GVK.Kind, func(t *testing.T) {
			m := matchers[k.Kind.GVK.Group]
			if m == nil {
				t.Fatal("it has no mutating webhook")
			}
			object := func(spec any, finalizers []any) map[string]any {
				metadata := map[string]any{"name": "a"}
				if finalizers != nil {
					metadata["finalizers"] = finalizers
				}
				o := map[string]any{"apiVersion": k.APIVersion, "kind": k.Kind.GVK.Kind, "metadata": metadata}
				if spec != nil {
					o["spec"] = spec
				}
				return o
			}
			for _, has := range finalizers {
				for _, spec := range specs {
					agree(t, m, object(spec, has), nil, true)
					for _, had := range finalizers {
						for _, old := range specs {
							obj, before := object(spec, has), object(old, had)
							agree(t, m, obj, before, spec == nil || old == nil || !reflect.DeepEqual(spec, old))
							for _, o := range []map[string]any{obj, before} {
								o["metadata"].(map[string]any)["deletionTimestamp"] = "2026-01-02T03:04:05Z"
							}
							agree(t, m, obj, before, false)
						}
					}
				}
			}
			cases, err := corpus.Read("../e2e/testdata/specs", k.Kind)
			if err != nil {
				t.Fatal(err)
			}
			tried := 0
			for _, c := range cases {
				obj, _, err := k.Decode(c.Object)
				if err != nil {
					continue // the API server refuses it before admission
				}
				for _, f := range [][]string{nil, {naming.Finalizer}} {
					(&unstructured.Unstructured{Object: obj}).SetFinalizers(f)
					agree(t, m, obj, nil, true)
					tried++
				}
			}
			if tried < 300 {
				t.Errorf("only %d objects of the corpus", tried)
			}
		})
	}
}
