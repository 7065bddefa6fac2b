package common

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// FailurePolicy says what becomes of a rollout that fails.
//
// +kubebuilder:validation:Enum=Rollback;Halt
type FailurePolicy string

const (
	// OnFailureRollback goes back to the last revision that was healthy.
	OnFailureRollback FailurePolicy = "Rollback"
	// OnFailureHalt leaves the rollout where it stopped, for a person to look at.
	OnFailureHalt FailurePolicy = "Halt"
)

// Rollout says how a change reaches the pods, and what becomes of one that fails.
//
// +kubebuilder:validation:XValidation:rule="(has(self.progressDeadlineSeconds) ? self.progressDeadlineSeconds : 600) > (has(self.minReadySeconds) ? self.minReadySeconds : 0)",message="progressDeadlineSeconds, 600 unless it is set, must be greater than minReadySeconds",fieldPath=".progressDeadlineSeconds"
// +kubebuilder:validation:XValidation:rule="!(has(self.maxSurge) && has(self.maxUnavailable)) || !string(self.maxSurge).matches('^0+%?$') || !string(self.maxUnavailable).matches('^0+%?$')",message="maxUnavailable must not be 0 where maxSurge is 0: no pod could ever be replaced",fieldPath=".maxUnavailable"
type Rollout struct {
	// maxSurge is how many pods, or what part of the replicas, may exist beside
	// the replicas during a rollout. Unset means 25%.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=8
	// +kubebuilder:validation:Pattern=`^[0-9]+%$`
	// +kubebuilder:validation:XValidation:rule="type(self) == string || (self >= 0 && self <= 10000)",message="must be from 0 to 10000, or a percentage such as 25%"
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`

	// maxUnavailable is how many replicas, or what part of them, may be missing
	// during a rollout. Unset means 25%, rounded down: none of up to three. 0
	// keeps all of them serving.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=8
	// +kubebuilder:validation:Pattern=`^(100|[0-9]{1,2})%$`
	// +kubebuilder:validation:XValidation:rule="type(self) == string || (self >= 0 && self <= 10000)",message="must be from 0 to 10000, or a percentage such as 25%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// minReadySeconds is for how long a new pod must be ready before it counts.
	// Unset means 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	MinReadySeconds *int32 `json:"minReadySeconds,omitempty"`

	// progressDeadlineSeconds is how long a rollout may go without progress
	// before it has failed. Unset means 600.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`

	// onFailure says what becomes of a rollout that fails: Rollback, the
	// default, serves the last healthy revision again and leaves the spec as
	// it is; Halt leaves everything where it stopped. Halt that is set after a
	// rollback keeps what serves by then.
	// +optional
	OnFailure FailurePolicy `json:"onFailure,omitempty"`

	// revisionHistoryLimit is how many revisions are kept beside those in use.
	// Unset means 10.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=50
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`

	// restartedAt replaces all pods whenever it changes; set it to the time of
	// now. A rollout that failed is tried again.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[-+]([01][0-9]|2[0-3]):[0-5][0-9])$`
	RestartedAt *metav1.Time `json:"restartedAt,omitempty"`

	// pinnedRevision serves that revision, whatever the rest of the spec says,
	// until it is removed. status.revisions and kubectl get
	// controllerrevisions tell which there are.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=9007199254740991
	PinnedRevision *int64 `json:"pinnedRevision,omitempty"`

	// restartOnConfigChange replaces the pods when a ConfigMap that they use
	// changes. Each then gets an unchangeable copy of it, so that an earlier
	// revision has its own content. Where the platform lets the operator read
	// Secrets, their changes replace the pods too; of these there are no copies.
	// What unset means, the kind says.
	// +optional
	RestartOnConfigChange *bool `json:"restartOnConfigChange,omitempty"`
}

// Revisions are the revisions in use: their numbers, and the names of their
// ControllerRevisions.
type Revisions struct {
	// current is the revision that is to serve.
	// +optional
	Current int64 `json:"current,omitempty"`

	// lastHealthy is the revision whose pods were all available last: a failed
	// rollout is rolled back to it.
	// +optional
	LastHealthy int64 `json:"lastHealthy,omitempty"`

	// failed is the revision that the spec asks for, if its rollout failed.
	// +optional
	Failed int64 `json:"failed,omitempty"`

	// currentName is the name of the ControllerRevision of current.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	CurrentName string `json:"currentName,omitempty"`

	// lastHealthyName is the name of the ControllerRevision of lastHealthy.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	LastHealthyName string `json:"lastHealthyName,omitempty"`

	// failedName is the name of the ControllerRevision of failed.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	FailedName string `json:"failedName,omitempty"`
}

// ActionType is what the operator did by itself.
//
// +kubebuilder:validation:Enum=Rollback;Halt
type ActionType string

const (
	// ActionRollback went back to the last healthy revision.
	ActionRollback ActionType = "Rollback"
	// ActionHalt left a failed rollout where it stopped.
	ActionHalt ActionType = "Halt"
)

// Action is something that the operator did by itself, and why.
type Action struct {
	// type is what was done.
	// +required
	Type ActionType `json:"type"`

	// reason is a word for why.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason"`

	// message is the evidence, such as the last lines of a container's log.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	Message string `json:"message,omitempty"`

	// revision is the revision that it was about.
	// +optional
	Revision int64 `json:"revision,omitempty"`

	// time is when it was done.
	// +required
	Time metav1.Time `json:"time"`
}

// RolloutStatus is what the status of a kind that rolls out pods says about it.
type RolloutStatus struct {
	// revisions are the numbers of the revisions in use.
	// +optional
	Revisions *Revisions `json:"revisions,omitempty"`

	// image is the image that serves: the spec's, once all its pods are
	// available, and the previous one until then.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Image string `json:"image,omitempty"`

	// imageID is that image by its digest, as a node pulled it.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	ImageID string `json:"imageID,omitempty"`

	// pendingChanges are changes that this version of the operator would make
	// to the pods. They wait for your next change of the spec, or of
	// rollout.restartedAt: upgrading the operator restarts nothing.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=256
	PendingChanges []string `json:"pendingChanges,omitempty"`

	// lastActions is what the operator did by itself, the newest first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	LastActions []Action `json:"lastActions,omitempty"`
}

// Inputs is what of a Rollout the pods depend on, nil for nothing.
func (r *Rollout) Inputs() *Rollout {
	if r == nil || r.RestartedAt == nil {
		return nil
	}
	return &Rollout{RestartedAt: r.RestartedAt}
}
