package common

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Condition types that every kind reports. kstatus, and therefore Flux, reads Ready,
// Reconciling and Stalled together with status.observedGeneration; so do kubectl wait
// and, for Argo CD, the script in config/gitops.
const (
	// ConditionAvailable is True while the object is serving, regardless of
	// which generation of the spec.
	ConditionAvailable = "Available"
	// ConditionReady is True when the spec of the condition's
	// observedGeneration is completely rolled out and serving.
	ConditionReady = "Ready"
	// ConditionReconciling is present, and True, while the object is converging
	// to the spec and needs no intervention.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is present, and True, while progress requires a change
	// of the spec or of the cluster.
	ConditionStalled = "Stalled"
	// ConditionExposed is present if the spec asks for hosts, and True when an
	// ingress controller or a Gateway has accepted them.
	ConditionExposed = "Exposed"
)

// Reasons of conditions and of the events that go with them.
const (
	// ReasonServing: the current spec is completely rolled out and serving.
	ReasonServing = "Serving"
	// ReasonRunning: the container is running.
	ReasonRunning = "Running"
	// ReasonScaledToZero: the spec asks for no replicas.
	ReasonScaledToZero = "ScaledToZero"
	// ReasonSuspended: spec.suspend is true, so no pod runs.
	ReasonSuspended = "Suspended"
	// ReasonReplicasAvailable: at least one replica is available.
	ReasonReplicasAvailable = "ReplicasAvailable"
	// ReasonNoReplicasAvailable: the spec asks for replicas, and none is
	// available.
	ReasonNoReplicasAvailable = "NoReplicasAvailable"
	// ReasonProgressing: children are being created or rolled out.
	ReasonProgressing = "Progressing"
	// ReasonBeforeRollout: the command that precedes the rollout runs.
	ReasonBeforeRollout = "BeforeRollout"
	// ReasonCanary: a few pods of the new revision serve until they are promoted.
	ReasonCanary = "Canary"
	// ReasonNotJudged: a canary had too few requests to be promoted by itself.
	ReasonNotJudged = "NotJudged"
	// ReasonRolloutWaiting: too many other objects are being rolled out because
	// of the same kind of change.
	ReasonRolloutWaiting = "RolloutWaiting"
	// ReasonRolloutHeld: these rollouts failed.
	ReasonRolloutHeld = "RolloutHeld"
	// ReasonWaiting: the operator waits for a change that needs no
	// intervention, such as the deletion of an earlier child of the same name.
	ReasonWaiting = "Waiting"
	// ReasonConflict: an unowned object has the name of a child.
	ReasonConflict = "Conflict"
	// ReasonDisputed: another client keeps changing a child.
	ReasonDisputed = "Disputed"
	// ReasonQuotaExceeded: a ResourceQuota does not allow a child.
	ReasonQuotaExceeded = "QuotaExceeded"
	// ReasonNodePortUnavailable: the node port in the spec is allocated to
	// another Service or outside of the cluster's range.
	ReasonNodePortUnavailable = "NodePortUnavailable"
	// ReasonAddressesExhausted: the cluster has no free address or node port for a
	// Service.
	ReasonAddressesExhausted = "AddressesExhausted"
	// ReasonForbidden: RBAC does not allow the operator to write a child.
	ReasonForbidden = "Forbidden"
	// ReasonAdmissionRefused: a Pod Security Standard, a LimitRange, a policy or a
	// webhook of the cluster does not admit a child.
	ReasonAdmissionRefused = "AdmissionRefused"
	// ReasonWebhookFailed: an admission webhook of the cluster cannot be called.
	ReasonWebhookFailed = "WebhookFailed"
	// ReasonInvalid: the API server rejects a child as invalid.
	ReasonInvalid = "Invalid"
	// ReasonRolloutFailed: the rollout exceeded its progress deadline.
	ReasonRolloutFailed = "RolloutFailed"
	// ReasonRolledBack: the rollout failed and was rolled back to an earlier
	// revision.
	ReasonRolledBack = "RolledBack"
	// ReasonRevisionNotFound: the pinned revision does not exist.
	ReasonRevisionNotFound = "RevisionNotFound"
	// ReasonUnschedulable: the pods cannot be scheduled to any node.
	ReasonUnschedulable = "Unschedulable"
	// ReasonImagePull: an image cannot be pulled.
	ReasonImagePull = "ImagePull"
	// ReasonContainerNotCreated: the kubelet cannot create a container.
	ReasonContainerNotCreated = "ContainerNotCreated"
	// ReasonCrash: a container exits.
	ReasonCrash = "Crash"
	// ReasonNotReady: a container runs, and is not ready.
	ReasonNotReady = "NotReady"
	// ReasonNodeLost: the node of a pod does not respond.
	ReasonNodeLost = "NodeLost"
	// ReasonPaused: spec.paused is true, and a child differs from its desired
	// state.
	ReasonPaused = "Paused"
	// ReasonReplicaFailure: pods cannot be created, for a cause that has no reason of
	// its own; the message has it.
	ReasonReplicaFailure = "ReplicaFailure"
	// ReasonInjectedContainer: a container that is not in the pod template, but was
	// added to the pods, keeps them from serving.
	ReasonInjectedContainer = "InjectedContainer"
	// ReasonReferenceNotFound: an object that the spec refers to does not
	// exist.
	ReasonReferenceNotFound = "ReferenceNotFound"
	// ReasonFeatureUnavailable: the cluster does not serve an API that the spec
	// needs.
	ReasonFeatureUnavailable = "FeatureUnavailable"
	// ReasonAccepted: an ingress controller or a Gateway has accepted the hosts of
	// the object.
	ReasonAccepted = "Accepted"
	// ReasonNotAccepted: an ingress controller or a Gateway rejects the hosts.
	ReasonNotAccepted = "NotAccepted"
	// ReasonHostClaimed: an older object has the same host and path.
	ReasonHostClaimed = "HostClaimed"
	// ReasonNotAllowed: the platform configuration does not allow what the spec
	// asks for.
	ReasonNotAllowed = "NotAllowed"
	// ReasonCertificateInvalid: the certificate in a Secret has expired or does not match
	// the key, so that no client can connect by TLS.
	ReasonCertificateInvalid = "CertificateInvalid"
	// ReasonAutoscalingFailed: the pods serve, but the autoscaler cannot scale them.
	ReasonAutoscalingFailed = "AutoscalingFailed"
	// ReasonRestored: a child that another client changed is as the spec states again.
	ReasonRestored = "Restored"
	// ReasonError: an unexpected error, which is retried with back-off.
	ReasonError = "Error"
	// ReasonDeleting: the object is being deleted.
	ReasonDeleting = "Deleting"
)

// Status is the part of the status that all kinds have in common.
type Status struct {
	// observedGeneration is the generation of the spec that this status
	// describes. It is -1 until the object is reconciled for the first time.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions describe the state of the object: Available (it is serving),
	// Ready (the current generation of the spec is completely rolled out and
	// serving), and, only while they apply, Reconciling and Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
