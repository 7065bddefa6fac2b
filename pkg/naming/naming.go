// Package naming defines the names that the operator uses: labels, annotations,
// the finalizer, the field manager and cache indexes. It also identifies
// children and their owners by them. Everything in it is pure.
package naming

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Domain is the prefix of the operator's labels, annotations and finalizers
// that are common to all kinds.
const Domain = "platform-operator.io"

const (
	// FieldManager is the field manager of server-side apply.
	FieldManager = "platform-operator"
	// Finalizer is set on an object only while the operator has to release its children
	// before it is deleted.
	Finalizer = Domain + "/teardown"
	// LabelManagedBy is set on every child. The caches select by it, so a child
	// without it is never observed.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// ManagedBy is the value of LabelManagedBy, and the operator's name.
	ManagedBy = "platform-operator"
	// AnnotationApplied is set on every child. Its value is the hash of the last
	// applied intent.
	AnnotationApplied = Domain + "/applied"
	// AnnotationOwner is set on every child. Its value is the UID of the owner.
	// It identifies a child whose owner reference was removed. A user can set it
	// on an unowned object with the name of a child to hand that object over.
	AnnotationOwner = Domain + "/owner-uid"
	// AnnotationOrphanOf is set on a child that outlives its owner, and therefore has
	// no owner reference. Its value is the kind, the group and the name of the owner,
	// such as WebServer.my.domain/web.
	AnnotationOrphanOf = Domain + "/orphan-of"
	// AnnotationTemplate is set on every pod of a rollout. Its value is the hash
	// of the template that the pod was created from.
	AnnotationTemplate = Domain + "/template"
	// AnnotationRestartedAt is set on pods whose replacement a user requested.
	// Its value is the time of the request.
	AnnotationRestartedAt = Domain + "/restarted-at"
	// AnnotationScaledBy is set on a child whose number of replicas is controlled
	// by another kind. Its value is the name of that kind. Nothing is decided by it.
	AnnotationScaledBy = Domain + "/scaled-by"
	// AnnotationSource is set on every snapshot of a user's ConfigMap. Its value
	// names the ConfigMap and its version. See pkg/configsource.
	AnnotationSource = Domain + "/source"
	// AnnotationSecrets is set on every pod that is replaced when a Secret that
	// it uses changes. Its value is a digest of the content of these Secrets at
	// the time of the pod's creation.
	AnnotationSecrets = Domain + "/secrets"
	// AnnotationKeep is set on a pod template whose pods also mount the content of
	// earlier revisions. Its value is how many.
	AnnotationKeep = Domain + "/keep"
	// AnnotationContents is set on the pods of such a template. Its value lists hashes
	// that identify what they mount, their own content first.
	AnnotationContents = Domain + "/contents"
	// AnnotationFailedRevision is set on a Deployment that was rolled back. Its
	// value is the name of the revision that failed.
	AnnotationFailedRevision = Domain + "/failed-revision"
	// AnnotationHealthyRevision is set on every Deployment. Its value is the name of
	// the last revision that was healthy when the Deployment was written.
	AnnotationHealthyRevision = Domain + "/healthy-revision"
	// AnnotationSharedRollout is set on a Deployment whose rollout was started by the
	// change of a ConfigMap or Secret instead of the object, and on the Job that
	// precedes it. Its value is the hash of the pod template.
	AnnotationSharedRollout = Domain + "/shared-rollout"
	// AnnotationCanary is set on a Deployment that holds the pods of its template. Its
	// value is the hash of that template.
	AnnotationCanary = Domain + "/canary"
	// AnnotationRetriedAt is set on a Deployment whose pods cannot be created, or whose rollout
	// does not continue. Its value is the time at which Kubernetes was last made to try again.
	AnnotationRetriedAt = Domain + "/retried-at"
	// AnnotationKeepAvailable is set on a PodDisruptionBudget whose pods are replaced
	// before they are evicted. Its value is the number of pods that remain available.
	AnnotationKeepAvailable = Domain + "/keep-available"
	// AnnotationEvictionRequested is set on a pod that is replaced before it is evicted.
	// Its value is the time of the first request to evict it.
	AnnotationEvictionRequested = Domain + "/eviction-requested"
)

// Indexes of the caches.
const (
	// IndexOwner indexes children by OwnerUID.
	IndexOwner = "owner-uid"
	// IndexUID indexes the objects of a kind by their own UID.
	IndexUID = "uid"
	// IndexReferences indexes objects by the names of the ConfigMaps that they
	// refer to.
	IndexReferences = "references"
	// IndexSecrets indexes objects by the names of the Secrets that they refer
	// to.
	IndexSecrets = "secrets"
	// IndexDisowned indexes the children without a controller by their AnnotationOrphanOf,
	// so that an object does not look at the orphans of all others.
	IndexDisowned = "disowned"
	// Disowned is the value of IndexDisowned for children without that annotation.
	Disowned = "true"
	// IndexUnowned indexes the unowned objects, those that are not children of
	// the operator, by a constant.
	IndexUnowned = "foreign"
	// Unowned is the only value of IndexForeign.
	Unowned = "true"
)

// IsChild reports whether o has the operator's label and an owner, as every child does.
func IsChild(o metav1.Object) bool { return IsLabelled(o) && OwnerUID(o) != "" }

// IsDisowned reports whether o is a child without a controller: it outlives its owner, the
// owner reference was removed, or it was restored from a backup.
func IsDisowned(o metav1.Object) bool { return metav1.GetControllerOfNoCopy(o) == nil && IsChild(o) }

// IsLabelled reports whether o has the label by which the caches select children.
func IsLabelled(o metav1.Object) bool { return o.GetLabels()[LabelManagedBy] == ManagedBy }

// OwnerUID returns the UID of the owner of a child, or "" if o is not a child.
// A child that the operator has written belongs to the owner that its annotation
// names if it has no controller: it outlives its owner, or the owner reference was
// removed by hand or by the garbage collector.
func OwnerUID(o metav1.Object) types.UID {
	if c := metav1.GetControllerOf(o); c != nil {
		return c.UID
	}
	annotations := o.GetAnnotations()
	if annotations[AnnotationApplied] == "" && annotations[AnnotationOrphanOf] == "" {
		return ""
	}
	return types.UID(annotations[AnnotationOwner])
}
