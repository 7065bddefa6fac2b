package compare

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/platform-operator/platform-operator/pkg/naming"
)

// Server-side apply removes only fields that its manager owns. The fields that
// a legacy operator wrote by plain updates, and additions in exclusive paths,
// belong to other managers, so an apply would leave them in place permanently.
// Therefore their ownership is first transferred to the operator. The apply
// that follows then removes those of them that the intent does not state.

// Scope reports whether a field of a managed fields entry is to be claimed.
type Scope func(entry metav1.ManagedFieldsEntry, path string) bool

// LegacyOperators is the scope of all fields that were written by plain updates, as
// legacy operators did, except by Kubernetes' own controllers and by kubectl:
// the annotation of kubectl rollout restart must survive, because its removal
// would restart the pods again.
func LegacyOperators(e metav1.ManagedFieldsEntry, _ string) bool {
	return e.Operation == metav1.ManagedFieldsOperationUpdate && !strings.HasPrefix(e.Manager, "kubectl") && !strings.HasPrefix(e.Manager, "kube-")
}

// Exclusive returns the scope of the fields under the exclusive paths, of every
// manager. For a path whose list is exclusive only in its elements, these are the
// elements that are not stated.
func Exclusive(exclusive []string, stated map[string]any) Scope {
	owned := map[string]map[string]bool{}
	for _, e := range exclusive {
		if list, only := strings.CutSuffix(e, elementsOnly); only {
			owned[e] = namesIn(stated, list)
		}
	}
	return func(_ metav1.ManagedFieldsEntry, path string) bool {
		return slices.ContainsFunc(exclusive, func(e string) bool {
			list, only := strings.CutSuffix(e, elementsOnly)
			rest, under := strings.CutPrefix(path, list)
			if only {
				name, _, _ := strings.Cut(strings.TrimPrefix(rest, "["), "]")
				return under && strings.HasPrefix(rest, "[") && !owned[e][name]
			}
			return under && (rest == "" || rest[0] == '.' || rest[0] == '[')
		})
	}
}

// namesIn returns the names of the elements of a stated list.
func namesIn(stated map[string]any, list string) map[string]bool {
	v, _, _ := unstructured.NestedFieldNoCopy(stated, strings.Split(list, ".")...)
	names := map[string]bool{}
	elements, _ := v.([]any)
	for _, e := range elements {
		m, _ := e.(map[string]any)
		if name, ok := m["name"].(string); ok {
			names[name] = true
		}
	}
	return names
}

// Claim transfers ownership of the fields in scope to the operator. It returns
// the JSON patch to be sent, or nil if no field has to be transferred. The
// patch contains the resource version of live, so that it cannot undo a change
// in between.
func Claim(live client.Object, in Scope) (client.Patch, error) {
	mine := metav1.ManagedFieldsEntry{Manager: naming.FieldManager, Operation: metav1.ManagedFieldsOperationApply, FieldsType: "FieldsV1"}
	ours, claimed := fieldpath.NewSet(), false
	var kept []metav1.ManagedFieldsEntry
	for _, e := range live.GetManagedFields() {
		set, err := fieldsIn(e)
		switch {
		case err != nil:
			return nil, err
		case set == nil:
			kept = append(kept, e)
			continue
		case IsOurs(e):
			ours, mine = ours.Union(set), e
			continue
		}
		taken := inScope(e, set, in)
		if taken.Empty() {
			kept = append(kept, e)
			continue
		}
		ours, claimed = ours.Union(taken), true
		if mine.APIVersion == "" {
			mine.APIVersion = e.APIVersion
		}
		if rest := set.Difference(taken); !rest.Empty() {
			if err := setFields(&e, rest); err != nil {
				return nil, err
			}
			kept = append(kept, e)
		}
	}
	if !claimed {
		return nil, nil
	}
	if err := setFields(&mine, ours); err != nil {
		return nil, err
	}
	patch, err := json.Marshal([]map[string]any{
		{"op": "replace", "path": "/metadata/managedFields", "value": append(kept, mine)},
		{"op": "replace", "path": "/metadata/resourceVersion", "value": live.GetResourceVersion()},
	})
	if err != nil {
		return nil, fmt.Errorf("encoding managed fields: %w", err)
	}
	return client.RawPatch("application/json-patch+json", patch), nil
}

// fieldsIn returns the fields of an entry that an apply can remove, or nil for the fields
// of a subresource.
func fieldsIn(e metav1.ManagedFieldsEntry) (*fieldpath.Set, error) {
	if e.Subresource != "" || e.FieldsV1 == nil {
		return nil, nil
	}
	set := fieldpath.NewSet()
	if err := set.FromJSON(e.FieldsV1.GetRawReader()); err != nil {
		return nil, fmt.Errorf("reading the fields of manager %q: %w", e.Manager, err)
	}
	return set, nil
}

// inScope returns the fields of an entry that are to be claimed.
func inScope(e metav1.ManagedFieldsEntry, set *fieldpath.Set, in Scope) *fieldpath.Set {
	taken := fieldpath.NewSet()
	set.Iterate(func(p fieldpath.Path) {
		if in(e, pathString(p)) {
			taken.Insert(p.Copy())
		}
	})
	return taken
}

func setFields(e *metav1.ManagedFieldsEntry, s *fieldpath.Set) error {
	raw, err := s.ToJSON()
	if err != nil {
		return fmt.Errorf("encoding the fields of manager %q: %w", e.Manager, err)
	}
	f := metav1.FieldsV1{}
	f.SetRawBytes(bytes.TrimSpace(raw))
	e.FieldsV1 = &f
	return nil
}

// ReduceManagedFields reduces the managed fields of an object to what this package needs of
// an object in a cache: who wrote and how, which shows whether another client created a
// child, and whether the operator applied the replicas of a Deployment.
func ReduceManagedFields(o metav1.Object) {
	_, isDeployment := o.(*appsv1.Deployment)
	entries := o.GetManagedFields()
	for i, e := range entries {
		entries[i] = metav1.ManagedFieldsEntry{Manager: e.Manager, Operation: e.Operation, Subresource: e.Subresource}
		if isDeployment && IsOurs(e) && hasReplicas(e.FieldsV1) {
			entries[i].FieldsV1 = metav1.NewFieldsV1(`{"f:spec":{"f:replicas":{}}}`)
		}
	}
	o.SetManagedFields(entries)
}

// HasAppliedReplicas reports whether the operator's last apply of a Deployment contains the
// number of replicas, so that the API server removes it when the operator no longer applies
// it.
func HasAppliedReplicas(live *appsv1.Deployment) bool {
	return slices.ContainsFunc(live.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		return IsOurs(e) && hasReplicas(e.FieldsV1)
	})
}

func hasReplicas(set *metav1.FieldsV1) bool {
	var fields struct {
		Spec struct {
			Replicas *struct{} `json:"f:replicas"`
		} `json:"f:spec"`
	}
	return set != nil && json.Unmarshal(set.GetRawBytes(), &fields) == nil && fields.Spec.Replicas != nil
}

// IsOurs reports whether an entry is that of the operator's applies.
func IsOurs(e metav1.ManagedFieldsEntry) bool {
	return e.Manager == naming.FieldManager && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == ""
}

// pathString writes a field path in the notation of Difference.Path.
func pathString(p fieldpath.Path) string {
	var b strings.Builder
	for _, e := range p {
		switch {
		case e.FieldName != nil:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(*e.FieldName)
		case e.Key != nil && len(*e.Key) > 0:
			fmt.Fprintf(&b, "[%v]", (*e.Key)[0].Value.Unstructured())
		case e.Value != nil:
			fmt.Fprintf(&b, "[%v]", (*e.Value).Unstructured())
		}
	}
	return b.String()
}
