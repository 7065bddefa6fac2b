// Package naming holds the names that the operator gives to what it makes:
// labels, annotations, the finalizer, the field manager, and the rules that
// names of objects must keep. Everything in it is pure.
package naming

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Domain is the prefix of the labels, annotations and finalizers that are ours
// and belong to no single kind.
const Domain = "platform-operator.io"

const (
	// FieldManager owns, in server-side apply, the fields that we state.
	FieldManager = "platform-operator"
	// Finalizer is on an object only while its teardown has work that garbage
	// collection cannot do.
	Finalizer = Domain + "/teardown"
	// LabelManagedBy is on every child, and the caches select by it: a child
	// without it would never be seen again.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// ManagedBy is the value of LabelManagedBy, and the operator's own name.
	ManagedBy = "platform-operator"
	// AnnotationApplied is on every child: the hash of what was last applied.
	AnnotationApplied = Domain + "/applied"
	// AnnotationOwner is on every child: the UID of the object that it belongs
	// to. It tells that a child is ours whose owner reference was taken away,
	// and a user may set it on an object of a child's name to hand that over.
	AnnotationOwner = Domain + "/owner-uid"
	// AnnotationTemplate is on every pod that a rollout made: the hash of the
	// template that it was made from.
	AnnotationTemplate = Domain + "/template"
	// AnnotationRestartedAt is on pods that a user asked to be replaced, and
	// says when.
	AnnotationRestartedAt = Domain + "/restarted-at"
	// AnnotationScaledBy is on a child whose number of replicas is not ours to
	// say, and names the kind that says it.
	AnnotationScaledBy = Domain + "/scaled-by"
	// AnnotationSource is on every copy of a ConfigMap of a user's: which it is
	// a copy of, and of which version. See pkg/references.
	AnnotationSource = Domain + "/source"
	// AnnotationSecrets is on every pod that is replaced when a Secret changes
	// that it uses: a digest of what these held when it was made.
	AnnotationSecrets = Domain + "/secrets"
	// AnnotationFailedRevision is on a Deployment that was rolled back: the name
	// of the revision that failed.
	AnnotationFailedRevision = Domain + "/failed-revision"
)

// Indexes of the caches.
const (
	// IndexOwner is by OwnerUID.
	IndexOwner = "owner-uid"
	// IndexReferences is by the names of the ConfigMaps that an object refers to.
	IndexReferences = "references"
	// IndexSecrets is by the names of the Secrets that an object refers to.
	IndexSecrets = "secrets"
	// IndexForeign has, under Foreign, what is not a child of ours.
	IndexForeign = "foreign"
	// Foreign is the only value of IndexForeign.
	Foreign = "true"
)

// IsChild tells whether o is made by the operator, as far as can be seen of it.
func IsChild(o metav1.Object) bool {
	return o.GetLabels()[LabelManagedBy] == ManagedBy && metav1.GetControllerOf(o) != nil
}

// OwnerUID returns the UID of the object that a child belongs to, or "" if it is
// not a child. A child that the operator has written still belongs to its owner
// when the reference to it is removed, by hand or by the garbage collector,
// unless it was given another owner.
func OwnerUID(o metav1.Object) types.UID {
	if c := metav1.GetControllerOf(o); c != nil {
		return c.UID
	}
	annotations := o.GetAnnotations()
	uid := types.UID(annotations[AnnotationOwner])
	if annotations[AnnotationApplied] == "" || HasOtherOwner(o, uid) {
		return ""
	}
	return uid
}

// HasOtherOwner reports whether an object has an owner that is neither the given
// one nor the Namespace that retains children of an orphaning object.
func HasOtherOwner(o metav1.Object, owner types.UID) bool {
	return slices.ContainsFunc(o.GetOwnerReferences(), func(r metav1.OwnerReference) bool {
		return r.UID != owner && !IsNamespace(r, o.GetNamespace())
	})
}

// IsNamespace reports whether an owner reference is to the Namespace of that name.
func IsNamespace(r metav1.OwnerReference, name string) bool {
	return r.APIVersion == "v1" && r.Kind == "Namespace" && r.Name == name
}
