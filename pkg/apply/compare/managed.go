package compare

import (
	"bytes"
	"cmp"
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

// Scope reports whether a field of a managed fields entry is to be claimed.
type Scope func(entry metav1.ManagedFieldsEntry, path string) bool

// LegacyOperators is the scope of all fields that were written by plain updates, as
// legacy operators did, except by Kubernetes' own controllers and by kubectl:
// the annotation of kubectl rollout restart must survive, because its removal
// would restart the pods again.
func LegacyOperators(e metav1.ManagedFieldsEntry, _ string) bool {
	return e.Operation == metav1.ManagedFieldsOperationUpdate && !strings.HasPrefix(e.Manager, "kubectl") && !strings.HasPrefix(e.Manager, "kube-")
}

// Extra returns the scope of the fields at and below the differences that are extra, of
// every manager.
func Extra(differences []Difference) Scope {
	return func(_ metav1.ManagedFieldsEntry, path string) bool {
		return slices.ContainsFunc(differences, func(d Difference) bool {
			rest, under := strings.CutPrefix(path, d.Path)
			return d.IsExtra() && under && (rest == "" || rest[0] == '.' || rest[0] == '[')
		})
	}
}

// Claim transfers ownership of the fields in scope to the operator. It returns the resulting
// managed fields, or nil if no field has to be transferred. The scope may be nil.
func Claim(live client.Object, in Scope) ([]metav1.ManagedFieldsEntry, error) {
	if in == nil {
		return nil, nil
	}
	mine := metav1.ManagedFieldsEntry{Manager: naming.FieldManager, Operation: metav1.ManagedFieldsOperationApply, FieldsType: "FieldsV1"}
	ours, claimed := fieldpath.NewSet(), false
	var kept []metav1.ManagedFieldsEntry
	for _, e := range live.GetManagedFields() {
		if e.Subresource != "" || e.FieldsV1 == nil { // an apply removes none of these
			kept = append(kept, e)
			continue
		}
		set, taken := fieldpath.NewSet(), fieldpath.NewSet()
		if err := set.FromJSON(e.FieldsV1.GetRawReader()); err != nil {
			return nil, fmt.Errorf("reading the fields of manager %q of %s: %w", e.Manager, live.GetName(), err)
		}
		if IsOurs(e) {
			ours, mine = ours.Union(set), e
			continue
		}
		set.Iterate(func(p fieldpath.Path) {
			if in(e, pathString(p)) {
				taken.Insert(p.Copy())
			}
		})
		if taken.Empty() {
			kept = append(kept, e)
			continue
		}
		ours, claimed = ours.Union(taken), true
		mine.APIVersion = cmp.Or(mine.APIVersion, e.APIVersion)
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
	err := setFields(&mine, ours)
	return append(kept, mine), err
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
