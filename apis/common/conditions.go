package common

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Condition types that every kind reports. kstatus (and with it Flux, Argo CD
// and kubectl wait) reads Ready, Reconciling and Stalled together with
// status.observedGeneration.
const (
	// ConditionAvailable is True while something healthy serves, whatever
	// generation of the spec it was made from.
	ConditionAvailable = "Available"
	// ConditionReady is True when the spec of the condition's
	// observedGeneration is what serves, completely.
	ConditionReady = "Ready"
	// ConditionReconciling is present, and True, while the operator or
	// Kubernetes works towards the spec without needing anybody's help.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is present, and True, while no progress is possible
	// until somebody changes the spec or removes the cause in the cluster.
	ConditionStalled = "Stalled"
	// ConditionExposed is present where the spec asks for names of hosts, and
	// True when an ingress controller or a Gateway has taken them on.
	ConditionExposed = "Exposed"
)

// Reasons of conditions and of the events that go with them.
const (
	// ReasonServing: everything that was asked for serves.
	ReasonServing = "Serving"
	// ReasonRunning: the one container that was asked for runs.
	ReasonRunning = "Running"
	// ReasonScaledToZero: no replica was asked for, so none serves.
	ReasonScaledToZero = "ScaledToZero"
	// ReasonSuspended: spec.suspend is true, so no pod runs.
	ReasonSuspended = "Suspended"
	// ReasonMinimumReplicasAvailable: at least the minimum the rollout
	// strategy guarantees is available.
	ReasonMinimumReplicasAvailable = "MinimumReplicasAvailable"
	// ReasonMinimumReplicasUnavailable: fewer than that are available.
	ReasonMinimumReplicasUnavailable = "MinimumReplicasUnavailable"
	// ReasonProgressing: the children are being created or rolled out.
	ReasonProgressing = "Progressing"
	// ReasonWaiting: something that will change by itself is waited for, such
	// as the deletion of an earlier child of the same name.
	ReasonWaiting = "Waiting"
	// ReasonConflict: an object that we need is held by somebody else.
	ReasonConflict = "Conflict"
	// ReasonQuotaExceeded: a ResourceQuota refuses a child.
	ReasonQuotaExceeded = "QuotaExceeded"
	// ReasonNodePortUnavailable: the node port that the spec names is taken or
	// outside the cluster's range.
	ReasonNodePortUnavailable = "NodePortUnavailable"
	// ReasonForbidden: the API server does not let the operator write a child,
	// by RBAC or by an admission policy.
	ReasonForbidden = "Forbidden"
	// ReasonInvalid: the API server refuses a child as invalid.
	ReasonInvalid = "Invalid"
	// ReasonRolloutFailed: the rollout passed its progress deadline.
	ReasonRolloutFailed = "RolloutFailed"
	// ReasonRolledBack: the rollout failed and an earlier revision serves again.
	ReasonRolledBack = "RolledBack"
	// ReasonRevisionNotFound: the revision that the spec pins is not kept.
	ReasonRevisionNotFound = "RevisionNotFound"
	// ReasonUnschedulable: no node takes the pods.
	ReasonUnschedulable = "Unschedulable"
	// ReasonPaused: the spec says paused, and a child is not as it should be.
	ReasonPaused = "Paused"
	// ReasonReplicaFailure: pods cannot be created; the message says why.
	ReasonReplicaFailure = "ReplicaFailure"
	// ReasonReferenceNotFound: an object that the spec refers to is not there.
	ReasonReferenceNotFound = "ReferenceNotFound"
	// ReasonFeatureUnavailable: the cluster does not know a type of object that
	// the spec calls for.
	ReasonFeatureUnavailable = "FeatureUnavailable"
	// ReasonAccepted: an ingress controller or a Gateway leads the hosts here.
	ReasonAccepted = "Accepted"
	// ReasonNotAccepted: it refuses to.
	ReasonNotAccepted = "NotAccepted"
	// ReasonNotAllowed: the platform configuration does not allow what the spec
	// asks for.
	ReasonNotAllowed = "NotAllowed"
	// ReasonError: an unexpected error; it is retried with back-off.
	ReasonError = "Error"
	// ReasonChildDeleted is the reason of an event: the deletion policy is
	// Orphan, but a child was deleted before it could be released.
	ReasonChildDeleted = "ChildDeleted"
	// ReasonDeleting: the object is being deleted.
	ReasonDeleting = "Deleting"
)

// Status is what the status of every kind begins with.
type Status struct {
	// observedGeneration is the generation of the spec that this status speaks about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions say how the object is: Available (something healthy serves
	// now), Ready (this generation of the spec serves, completely), and, only
	// while they hold, Reconciling and Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
