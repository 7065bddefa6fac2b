package common

import (
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// FailurePolicy defines what happens after a rollout has failed.
//
// +kubebuilder:validation:Enum=Rollback;Halt
type FailurePolicy string

const (
	// OnFailureRollback rolls back to the last healthy revision.
	OnFailureRollback FailurePolicy = "Rollback"
	// OnFailureHalt leaves the failed rollout unchanged for investigation.
	OnFailureHalt FailurePolicy = "Halt"
)

// Rollout configures how changes are rolled out, and what happens if a rollout
// fails.
//
// +kubebuilder:validation:XValidation:rule="(has(self.progressDeadlineSeconds) ? self.progressDeadlineSeconds : 600) > (has(self.minReadySeconds) ? self.minReadySeconds : 0)",message="progressDeadlineSeconds (default 600) must be greater than minReadySeconds",fieldPath=".progressDeadlineSeconds"
// +kubebuilder:validation:XValidation:rule="!(has(self.maxSurge) && has(self.maxUnavailable)) || !string(self.maxSurge).matches('^0+%?$') || !string(self.maxUnavailable).matches('^0+%?$')",message="maxUnavailable must not be 0 if maxSurge is 0, because no pod could be replaced",fieldPath=".maxUnavailable"
// +kubebuilder:validation:XValidation:rule="!has(self.strategy) || self.strategy != 'Recreate' || !has(self.maxSurge) && !has(self.maxUnavailable)",message="maxSurge and maxUnavailable have no effect with strategy Recreate: remove them",fieldPath=".strategy"
// +kubebuilder:validation:XValidation:rule="!has(self.strategy) || self.strategy != 'Recreate' || !has(self.canary)",message="strategy Recreate ends all pods before new ones start, so that there is no canary: remove canary",fieldPath=".canary"
type Rollout struct {
	// strategy is how pods are replaced. RollingUpdate starts new pods before
	// it ends old ones. Recreate ends all pods first, for pods that cannot run
	// at the same time. Unset means RollingUpdate.
	// +optional
	// +kubebuilder:validation:Enum=RollingUpdate;Recreate
	Strategy appsv1.DeploymentStrategyType `json:"strategy,omitempty"`

	// maxSurge is the number or percentage of pods that may exist in addition
	// to the desired replicas during a rollout. Unset means 25%.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=8
	// +kubebuilder:validation:Pattern=`^[0-9]+%$`
	// +kubebuilder:validation:XValidation:rule="type(self) == string || (self >= 0 && self <= 10000)",message="must be from 0 to 10000, or a percentage such as 25%"
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`

	// maxUnavailable is the number or percentage of replicas that may be
	// unavailable during a rollout. Unset means 25%, rounded down, which is 0
	// for up to three replicas. 0 keeps all replicas available.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=8
	// +kubebuilder:validation:Pattern=`^(100|[0-9]{1,2})%$`
	// +kubebuilder:validation:XValidation:rule="type(self) == string || (self >= 0 && self <= 10000)",message="must be from 0 to 10000, or a percentage such as 25%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// minReadySeconds is how long a new pod must be ready before it counts as
	// available. Unset means 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	MinReadySeconds *int32 `json:"minReadySeconds,omitempty"`

	// progressDeadlineSeconds is how long a rollout may make no progress before
	// it is considered failed. Unset means 600.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`

	// onFailure defines what happens after a rollout has failed. Rollback, the
	// default, returns to the last healthy revision and does not change the
	// spec. Halt leaves the failed rollout unchanged.
	// +optional
	OnFailure FailurePolicy `json:"onFailure,omitempty"`

	// revisionHistoryLimit is the number of revisions to keep in addition to
	// those in use. Unset means 10. Fewer are kept if they have more than 4 MiB
	// together with the ConfigMaps that they mount.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=50
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`

	// restartedAt triggers a rollout of all pods whenever it changes; set it to
	// the current time. It also retries a failed rollout.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[-+]([01][0-9]|2[0-3]):[0-5][0-9])$`
	// +kubebuilder:validation:XValidation:rule="type(self) == google.protobuf.Timestamp",message="must be a time, not a list"
	RestartedAt *metav1.Time `json:"restartedAt,omitempty"`

	// pinnedRevision rolls out this revision, regardless of the rest of the
	// spec, until the field is removed. See status.revisions and kubectl get
	// controllerrevisions for the revisions that exist.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=9007199254740991
	PinnedRevision *int64 `json:"pinnedRevision,omitempty"`

	// canary makes a new revision begin with a few pods, which serve in addition
	// to the replicas until they are promoted. Before that, maxSurge,
	// maxUnavailable and minReadySeconds do not apply. Unset means none. Removing
	// it promotes.
	// +optional
	Canary *Canary `json:"canary,omitempty"`

	// promotedRevision is a revision that is no canary, or no longer: all of its
	// pods are rolled out.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=9007199254740991
	PromotedRevision *int64 `json:"promotedRevision,omitempty"`

	// restartOnConfigChange triggers a rollout when a ConfigMap that the pods
	// use changes. Pods then use an immutable snapshot, which earlier revisions
	// keep. If the platform configuration allows the operator to read Secrets, a
	// change of a Secret triggers a rollout too; Secrets have no snapshots. The
	// default depends on the kind.
	// +optional
	RestartOnConfigChange *bool `json:"restartOnConfigChange,omitempty"`
}

// PromotePolicy defines what ends the hold of a canary.
//
// +kubebuilder:validation:Enum=Automatic;Manual
type PromotePolicy string

const (
	// PromoteAutomatic promotes a canary whose pods were ready for a while.
	PromoteAutomatic PromotePolicy = "Automatic"
	// PromoteManual waits for rollout.promotedRevision.
	PromoteManual PromotePolicy = "Manual"
)

// Canary configures the pods that a new revision begins with.
//
// +kubebuilder:validation:XValidation:rule="!has(self.promote) || self.promote != 'Manual' || !has(self.holdSeconds)",message="holdSeconds has no effect with promote Manual: remove it",fieldPath=".holdSeconds"
// +kubebuilder:validation:XValidation:rule="!has(self.minRequests) || has(self.maxErrorRatio)",message="minRequests has no effect without maxErrorRatio: set it, or remove minRequests",fieldPath=".minRequests"
type Canary struct {
	// pods is the number of pods, but not more than there are replicas. Unset
	// means 1. An autoscaler that changes the number of replicas meanwhile changes
	// that of the canary in proportion.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	Pods *int32 `json:"pods,omitempty"`

	// holdSeconds is how long the pods must be ready, without a restart, before
	// they are promoted. Unset means 300.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=604800
	HoldSeconds *int32 `json:"holdSeconds,omitempty"`

	// promote defines what ends the hold. Automatic, the default, ends it after
	// holdSeconds. Manual waits for promotedRevision.
	// +optional
	Promote PromotePolicy `json:"promote,omitempty"`

	// maxErrorRatio is the share of requests to one pod that may be answered with
	// a 5xx status, such as 5% or 0.5%. A canary that certainly exceeds it is a
	// failed rollout, and one that had too few requests is not promoted by
	// itself. Unset means that requests are not counted. Setting or removing it
	// replaces the pods.
	// +optional
	// +kubebuilder:validation:MaxLength=5
	// +kubebuilder:validation:Pattern=`^(0\.[1-9]|[1-9][0-9]?(\.[0-9])?)%$`
	MaxErrorRatio string `json:"maxErrorRatio,omitempty"`

	// minRequests is the number of requests to one pod without which it is not
	// judged. Unset means 50.
	// +optional
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=1000000
	MinRequests *int32 `json:"minRequests,omitempty"`
}

// CanaryVerdict is what is known about the errors of a canary.
//
// +kubebuilder:validation:Enum=NotJudged;Passed;Exceeded
type CanaryVerdict string

const (
	// CanaryNotJudged means that a pod had too few requests, or too little time.
	CanaryNotJudged CanaryVerdict = "NotJudged"
	// CanaryPassed means that rollout.canary.maxErrorRatio was not exceeded.
	CanaryPassed CanaryVerdict = "Passed"
	// CanaryExceeded means that a pod exceeded it.
	CanaryExceeded CanaryVerdict = "Exceeded"
)

// CanaryStatus is the observed state of a canary.
type CanaryStatus struct {
	// revision is the number of the revision.
	// +required
	Revision int64 `json:"revision"`

	// readyPods is the number of its pods that are ready.
	// +required
	ReadyPods int32 `json:"readyPods"`

	// trafficPercent is the share of its pods in all ready pods, which is their
	// share of the traffic if that is distributed evenly.
	// +required
	TrafficPercent int32 `json:"trafficPercent"`

	// since is when its pods were ready. It is unset until then.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`

	// until is when it is promoted if its pods remain ready. It is unset until they
	// are, and if rollout.canary.promote is Manual.
	// +optional
	Until *metav1.Time `json:"until,omitempty"`

	// verdict is what is known about its errors. It is unset without
	// rollout.canary.maxErrorRatio.
	// +optional
	Verdict CanaryVerdict `json:"verdict,omitempty"`

	// requests and errors are the requests to its pods that were judged, and those
	// of them that were answered with a 5xx status.
	// +optional
	Requests int64 `json:"requests,omitempty"`
	// +optional
	Errors int64 `json:"errors,omitempty"`
}

// Before is a command that runs to its end before a revision is rolled out.
//
// +kubebuilder:validation:XValidation:rule="has(self.command) && self.command.size() > 0 || has(self.args) && self.args.size() > 0",message="set command or args: without them, the Job would run the application itself"
type Before struct {
	Entrypoint `json:",inline"`

	// env are environment variables in addition to those of the application. One
	// of the same name takes precedence.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:XValidation:rule="self.map(e, has(e.value) ? e.value.size() : 0).sum() <= 262144",message="the values must have at most 262144 characters in all; use a ConfigMap and a volume for larger values"
	Env []EnvVar `json:"env,omitempty"`

	// deadlineSeconds is how long the command may take, from the creation of the
	// Job. Unset means 600.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	DeadlineSeconds *int32 `json:"deadlineSeconds,omitempty"`
}

// Revisions contains the numbers of the revisions in use, the names of
// their ControllerRevisions, and the hash of the current template.
type Revisions struct {
	// current is the revision that is being rolled out or is serving.
	// +optional
	Current int64 `json:"current,omitempty"`

	// lastHealthy is the last revision whose pods were all available for a minute,
	// or for progressDeadlineSeconds if that is shorter. The first revision is
	// recorded at once. A failed rollout is rolled back to it.
	// +optional
	LastHealthy int64 `json:"lastHealthy,omitempty"`

	// failed is the revision of the current spec, if its rollout failed.
	// +optional
	Failed int64 `json:"failed,omitempty"`

	// currentName is the name of the ControllerRevision of current.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	CurrentName string `json:"currentName,omitempty"`

	// currentTemplate is the hash of the pod template of current. It shows whether
	// another client has given the Deployment another template.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	CurrentTemplate string `json:"currentTemplate,omitempty"`

	// lastHealthyName is the name of the ControllerRevision of lastHealthy.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	LastHealthyName string `json:"lastHealthyName,omitempty"`

	// failedName is the name of the ControllerRevision of failed.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	FailedName string `json:"failedName,omitempty"`

	// failedBefore is the name of the revision of the current spec, if its
	// rollout.before failed. There is no ControllerRevision of it.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	FailedBefore string `json:"failedBefore,omitempty"`
}

// ActionType is an action that the operator takes without a change of the spec.
//
// +kubebuilder:validation:Enum=AllowEviction;Halt;Rollback
type ActionType string

const (
	// ActionRollback is a rollback to the last healthy revision.
	ActionRollback ActionType = "Rollback"
	// ActionHalt is a failed rollout that was left unchanged.
	ActionHalt ActionType = "Halt"
	// ActionAllowEviction is the permission to evict a pod that was not replaced.
	ActionAllowEviction ActionType = "AllowEviction"
)

// Action is an action that the operator took without a change of the spec.
type Action struct {
	// type is the action that was taken.
	// +required
	Type ActionType `json:"type"`

	// reason is why the action was taken, in CamelCase.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason"`

	// message describes why the action was taken, such as with the last log
	// lines of a container.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	Message string `json:"message,omitempty"`

	// revision is the number of the revision that the action is about.
	// +optional
	Revision int64 `json:"revision,omitempty"`

	// time is when the action was taken.
	// +required
	Time metav1.Time `json:"time"`
}

// RolloutStatus is the observed state of rollouts.
type RolloutStatus struct {
	// revisions are the revisions in use.
	// +optional
	Revisions *Revisions `json:"revisions,omitempty"`

	// canary is the revision that is held as a canary. It is unset if there is none.
	// +optional
	Canary *CanaryStatus `json:"canary,omitempty"`

	// image is the image that is serving: the image of the spec once all of its
	// pods are available, and the previous image until then.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Image string `json:"image,omitempty"`

	// imageID is the image with its digest, as reported by a node.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	ImageID string `json:"imageID,omitempty"`

	// pendingChanges are changes to the pods that this version of the operator
	// would make. They are applied together with the next change of the spec or
	// of rollout.restartedAt, because upgrading the operator does not restart
	// pods.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=256
	PendingChanges []string `json:"pendingChanges,omitempty"`

	// lastActions are the actions that the operator took without a change of
	// the spec, newest first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	LastActions []Action `json:"lastActions,omitempty"`
}

// Inputs returns the fields that are part of the pod template, or nil if none
// is set.
func (r *Rollout) Inputs() *Rollout {
	if r == nil || r.RestartedAt == nil {
		return nil
	}
	return &Rollout{RestartedAt: r.RestartedAt}
}

// Judged reports whether the errors of canaries are counted.
func (r *Rollout) Judged() bool { return r != nil && r.Canary != nil && r.Canary.MaxErrorRatio != "" }

// Bounds returns by how many pods a rollout exceeds and falls below the desired number, with
// the defaults of Kubernetes. They have no effect with the strategy Recreate.
func (r Rollout) Bounds() (maxSurge, maxUnavailable intstr.IntOrString) {
	maxSurge, maxUnavailable = intstr.FromString("25%"), intstr.FromString("25%")
	if r.MaxSurge != nil {
		maxSurge = *r.MaxSurge
	}
	if r.MaxUnavailable != nil {
		maxUnavailable = *r.MaxUnavailable
	}
	return maxSurge, maxUnavailable
}
