package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/platform-operator/platform-operator/apis/common"
)

// Kind is the kind's name.
const Kind = "ImmortalContainer"

// ImmortalContainer is one container that never stays dead: a pod named
// <name>-immortalpod that comes back under the same name however it ended.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=immortalcontainers,singular=immortalcontainer,shortName=immortal,categories=platform
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Starts",type=integer,JSONPath=`.status.startTimes`,description="pods that were released to run"
// +kubebuilder:printcolumn:name="Restarts",type=integer,JSONPath=`.status.containerRestarts`,description="restarts of the container in the current pod"
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=`.spec.image`
// +kubebuilder:printcolumn:name="Pod",type=string,JSONPath=`.status.currentPod`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="metadata.name must be no more than 63 characters: it becomes the value of the pod's label app"
type ImmortalContainer struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is wanted.
	// +required
	Spec ImmortalContainerSpec `json:"spec"`

	// status is what is there, as the operator last saw it.
	// +optional
	Status ImmortalContainerStatus `json:"status,omitzero"`
}

// ImmortalContainerSpec is what is wanted. A change of image, pod.labels or
// pod.annotations reaches the running pod in place; any other change of what
// the pod is made from deletes it and makes it anew.
type ImmortalContainerSpec struct {
	// image is the container image that runs. A change of it reaches the
	// running pod in place: same pod, same address, same node; only the
	// container starts anew.
	// +required
	Image common.Image `json:"image"`

	common.Container  `json:",inline"`
	common.Entrypoint `json:",inline"`

	// resources are what the container asks for and may use at most. Unset
	// means none.
	// +optional
	Resources *common.Resources `json:"resources,omitempty"`

	// pod says more about the pod. labels and annotations reach the running pod
	// in place.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.topologySpreadConstraints) || self.topologySpreadConstraints.all(c, has(c.labelSelector))",message="each must have a labelSelector: one pod alone cannot be spread",fieldPath=".topologySpreadConstraints"
	Pod *common.Pod `json:"pod,omitempty"`

	// security says how much the pod may do on its node. Unset means profile
	// Baseline, in which images run as they are.
	// +optional
	Security *common.Security `json:"security,omitempty"`

	// networkPolicy says who may connect to the pod, to whichever port the
	// container listens on.
	// +optional
	NetworkPolicy *common.NetworkPolicy `json:"networkPolicy,omitempty"`

	// suspend says that no pod shall run: one that does is deleted. The counts
	// of the status stay.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// paused leaves the pod and the network policy as they are: a pod that ends
	// does not come back meanwhile. Only their owner references follow
	// deletionPolicy. The status is still kept.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// deletionPolicy says what becomes of the pod when this object is deleted.
	// Delete, the default, deletes it too; Orphan leaves it running, managed
	// by nobody, and then it is no longer immortal.
	// +optional
	DeletionPolicy common.DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// ImmortalContainerStatus is what is there, as the operator last saw it.
type ImmortalContainerStatus struct {
	common.Status `json:",inline"`

	// currentPod is the name of the pod, empty while spec.suspend has ended it.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	CurrentPod string `json:"currentPod,omitempty"`

	// podUID is the UID of the pod that was counted last.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	PodUID string `json:"podUID,omitempty"`

	// startTimes is the number of pods that were released to run, each counted
	// once, whatever crashed in between. Restarts of the container within a
	// pod are in containerRestarts.
	// +optional
	StartTimes int64 `json:"startTimes,omitempty"`

	// containerRestarts is the number of restarts of the container in the
	// current pod.
	// +optional
	ContainerRestarts int32 `json:"containerRestarts"`

	// image is the image that the container runs, or last ran.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Image string `json:"image,omitempty"`
}

// ImmortalContainerList is a list of ImmortalContainers.
//
// +kubebuilder:object:root=true
type ImmortalContainerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ImmortalContainer `json:"items"`
}

// GetStatus returns the part of the status that every kind has.
func (i *ImmortalContainer) GetStatus() *common.Status { return &i.Status.Status }

// GetDeletionPolicy returns the deletion policy in force.
func (i *ImmortalContainer) GetDeletionPolicy() common.DeletionPolicy {
	if i.Spec.DeletionPolicy == "" {
		return common.DeletionPolicyDelete
	}
	return i.Spec.DeletionPolicy
}
