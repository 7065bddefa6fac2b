package apply

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/platform-operator/platform-operator/pkg/naming"
)

// Server-side apply removes only fields that its manager owns. The fields that
// a legacy operator wrote by plain updates, and additions in exclusive paths,
// belong to other managers, so an apply would leave them in place permanently.
// Therefore their ownership is first transferred to the operator. The apply
// that follows then removes those of them that the intent does not state.

// scope reports whether a field of a managed fields entry is to be claimed.
type scope func(entry metav1.ManagedFieldsEntry, path string) bool

// everythingOfLegacyOperators claims all fields that were written by plain updates, as
// legacy operators did, except by Kubernetes' own controllers and by kubectl:
// the annotation of kubectl rollout restart must survive, because its removal
// would restart the pods again.
func everythingOfLegacyOperators(e metav1.ManagedFieldsEntry, _ string) bool {
	return e.Operation == metav1.ManagedFieldsOperationUpdate && !keepsOwnership(e.Manager)
}

// within claims the fields under the exclusive paths, from every manager. For a
// path whose list is exclusive only in its elements, it claims the elements
// that are not stated.
func within(exclusive []string, stated map[string]any) scope {
	owned := map[string]map[string]bool{}
	for _, e := range exclusive {
		if list, only := strings.CutSuffix(e, elementsOnly); only {
			owned[e] = namesIn(stated, list)
		}
	}
	return func(_ metav1.ManagedFieldsEntry, path string) bool {
		for _, e := range exclusive {
			list, only := strings.CutSuffix(e, elementsOnly)
			rest, under := strings.CutPrefix(path, list)
			switch {
			case !under:
			case only:
				name, _, _ := strings.Cut(strings.TrimPrefix(rest, "["), "]")
				if strings.HasPrefix(rest, "[") && !owned[e][name] {
					return true
				}
			case rest == "" || rest[0] == '.' || rest[0] == '[':
				return true
			}
		}
		return false
	}
}

// namesIn returns the names of the elements of a stated list.
func namesIn(stated map[string]any, list string) map[string]bool {
	var v any = stated
	for step := range strings.SplitSeq(list, ".") {
		m, _ := v.(map[string]any)
		v = m[step]
	}
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

func keepsOwnership(manager string) bool {
	return strings.HasPrefix(manager, "kubectl") || strings.HasPrefix(manager, "kube-")
}

// claim transfers ownership of the fields in scope to the operator. It returns
// the JSON patch to be sent, or nil if no field has to be transferred. The
// patch contains the resource version of live, so that it cannot undo a change
// in between.
func claim(live client.Object, in scope) (client.Patch, error) {
	ours := fieldpath.NewSet()
	oursAt, version := -1, ""
	entries := live.GetManagedFields()
	kept := make([]metav1.ManagedFieldsEntry, 0, len(entries)+1)
	moved := false
	for _, e := range entries {
		if e.Subresource != "" || e.FieldsV1 == nil {
			kept = append(kept, e)
			continue
		}
		set := fieldpath.NewSet()
		if err := set.FromJSON(e.FieldsV1.GetRawReader()); err != nil {
			return nil, fmt.Errorf("reading the fields of manager %q: %w", e.Manager, err)
		}
		if isOurs(e) {
			ours = ours.Union(set)
			oursAt, version = len(kept), e.APIVersion
			kept = append(kept, e)
			continue
		}
		taken := fieldpath.NewSet()
		set.Iterate(func(p fieldpath.Path) {
			if in(e, pathString(p)) {
				taken.Insert(p.Copy())
			}
		})
		if taken.Empty() {
			kept = append(kept, e)
			continue
		}
		moved = true
		ours = ours.Union(taken)
		if version == "" {
			version = e.APIVersion
		}
		if rest := set.Difference(taken); !rest.Empty() {
			if err := setFields(&e, rest); err != nil {
				return nil, err
			}
			kept = append(kept, e)
		}
	}
	if !moved {
		return nil, nil
	}
	mine := metav1.ManagedFieldsEntry{
		Manager: naming.FieldManager, Operation: metav1.ManagedFieldsOperationApply,
		APIVersion: version, FieldsType: "FieldsV1",
	}
	if oursAt >= 0 {
		mine = kept[oursAt]
	}
	if err := setFields(&mine, ours); err != nil {
		return nil, err
	}
	if oursAt >= 0 {
		kept[oursAt] = mine
	} else {
		kept = append(kept, mine)
	}
	patch, err := json.Marshal([]map[string]any{
		{"op": "replace", "path": "/metadata/managedFields", "value": kept},
		{"op": "replace", "path": "/metadata/resourceVersion", "value": live.GetResourceVersion()},
	})
	if err != nil {
		return nil, fmt.Errorf("encoding managed fields: %w", err)
	}
	return client.RawPatch("application/json-patch+json", patch), nil
}

// ReduceManagedFields reduces the managed fields of an object to what this package needs of
// an object in a cache: who wrote and how, which shows whether another client created a
// child, and whether the operator applied the replicas of a Deployment.
func ReduceManagedFields(o metav1.Object) {
	_, isDeployment := o.(*appsv1.Deployment)
	entries := o.GetManagedFields()
	for i, e := range entries {
		entries[i] = metav1.ManagedFieldsEntry{Manager: e.Manager, Operation: e.Operation, Subresource: e.Subresource}
		if isDeployment && isOurs(e) && hasReplicas(e.FieldsV1) {
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
		return isOurs(e) && hasReplicas(e.FieldsV1)
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

func isOurs(e metav1.ManagedFieldsEntry) bool {
	return e.Manager == naming.FieldManager && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == ""
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

// pathString writes a field path in the form of exclusive paths: list elements
// by their name, "spec.template.spec.containers[webserver].env". An element of
// a list with another key is written as the path of the list.
func pathString(p fieldpath.Path) string {
	var b strings.Builder
	for _, e := range p {
		switch {
		case e.FieldName != nil:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(*e.FieldName)
		case e.Key != nil:
			for _, k := range *e.Key {
				if k.Name == "name" {
					b.WriteByte('[')
					b.WriteString(k.Value.AsString())
					b.WriteByte(']')
				}
			}
		}
	}
	return b.String()
}
