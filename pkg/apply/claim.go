package apply

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/platform-operator/platform-operator/pkg/naming"
)

// Server-side apply removes only what its manager owns. What an older operator
// wrote by plain updates, and what somebody added where nothing of others may
// stand, belongs to other managers, and applying would leave it there for
// ever. So ownership of those fields is moved to us first; the apply that
// follows then removes whatever of it we do not state.

// scope says which fields are to be claimed from which managers.
type scope func(entry metav1.ManagedFieldsEntry, path string) bool

// everythingOfSeeds claims all that was written by plain updates, as the seed
// operators did, but not by Kubernetes' own controllers and not by people:
// a restart annotation of kubectl rollout must survive, or pods restart again.
func everythingOfSeeds(e metav1.ManagedFieldsEntry, _ string) bool {
	return e.Operation == metav1.ManagedFieldsOperationUpdate && !keepsOwnership(e.Manager)
}

// within claims what exists under the exclusive paths, from every manager. For
// a path that is exclusive for its elements only, it claims the elements that
// are not stated.
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

// claim moves ownership of the fields in scope to us and returns the JSON patch
// that does it; nil when there is nothing to move. The patch holds the
// resource version that live had, so that it cannot undo a change in between.
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

// pathString writes a field path as exclusive paths are written: list elements
// by their name, "spec.template.spec.containers[webserver].env"; elements of
// lists with another key by nothing but the list.
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
