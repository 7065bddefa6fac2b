package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/platform-operator/platform-operator/apis/common"
)

// Kind is the name of the kind.
const Kind = "ImmortalContainer"

// PodLabel is the label of an ImmortalContainer's pods whose value is its name.
const PodLabel = "immortalcontainer_cr"

// ImmortalContainer is a single container that is always restarted: a pod named
// <name>-immortalpod, which is created again under the same name whenever it
// ends.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=immortalcontainers,singular=immortalcontainer,shortName=immortal,categories=platform
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Starts",type=integer,JSONPath=`.status.startTimes`,description="pods that were released to run"
// +kubebuilder:printcolumn:name="Restarts",type=integer,JSONPath=`.status.containerRestarts`,description="restarts of the container in the current pod"
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=`.status.image`,description="image that runs"
// +kubebuilder:printcolumn:name="Pod",type=string,JSONPath=`.status.currentPod`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="metadata.name must be no more than 63 characters: it becomes the value of the pod's label app"
type ImmortalContainer struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec defines the desired state of the ImmortalContainer.
	// +required
	Spec ImmortalContainerSpec `json:"spec"`

	// status defines the observed state of the ImmortalContainer.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status ImmortalContainerStatus `json:"status,omitzero"`
}

// ImmortalContainerSpec defines the desired state of an ImmortalContainer. A
// change of image, pod.labels or pod.annotations updates the running pod in
// place; a change of any other field that is part of the pod replaces it.
type ImmortalContainerSpec struct {
	// image is the container image. A change updates the running pod in place:
	// the pod, its address and its node stay the same, and only the container
	// is restarted.
	// +required
	Image common.Image `json:"image"`

	common.Container  `json:",inline"`
	common.Entrypoint `json:",inline"`

	// resources are the compute resources of the container. Unset means none.
	// +optional
	Resources *common.Resources `json:"resources,omitempty"`

	// pod configures the pod. Changes of labels and annotations update the
	// running pod in place.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.topologySpreadConstraints) || self.topologySpreadConstraints.all(c, has(c.labelSelector))",message="each constraint must have a labelSelector, because a single pod cannot be spread",fieldPath=".topologySpreadConstraints"
	// +kubebuilder:validation:XValidation:rule="!has(self.drainSeconds)",message="an ImmortalContainer has no Service to drain; remove the field",fieldPath=".drainSeconds",reason=FieldValueForbidden
	// +kubebuilder:validation:XValidation:rule="!has(self.initContainers)",message="an ImmortalContainer is one container; remove the field",fieldPath=".initContainers",reason=FieldValueForbidden
	Pod *common.Pod `json:"pod,omitempty"`

	// security configures the security context of the pod. Unset means the
	// profile Baseline, in which most images run unchanged.
	// +optional
	Security *common.Security `json:"security,omitempty"`

	// networkPolicy restricts the connections to the pod, on all ports of the
	// container.
	// +optional
	NetworkPolicy *common.NetworkPolicy `json:"networkPolicy,omitempty"`

	// suspend deletes the pod and creates no other while it is true. The
	// counters in the status are kept.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// paused stops changes to the pod and the NetworkPolicy, except that their
	// owner references follow deletionPolicy. A pod that ends meanwhile is not
	// replaced. The status is still updated.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// deletionPolicy defines what happens to the pod when this object is
	// deleted. Delete, the default, deletes it. Orphan keeps it running; it is
	// no longer managed and no longer replaced when it ends.
	// +optional
	DeletionPolicy common.DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// ImmortalContainerStatus defines the observed state of an ImmortalContainer.
type ImmortalContainerStatus struct {
	common.Status `json:",inline"`

	// currentPod is the name of the pod. It is empty while the object is
	// suspended.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	CurrentPod string `json:"currentPod,omitempty"`

	// podUID is the UID of the pod that was counted last.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	PodUID string `json:"podUID,omitempty"`

	// startTimes is the number of pods that were released to run. Each pod is
	// counted exactly once, even if the operator crashes. Restarts of the
	// container within a pod are counted in containerRestarts.
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

// PodLabels returns the labels by which the pods are selected. The first one is that of the
// legacy operator; the second one distinguishes the pod from those of other kinds,
// which have the first label too.
func (i *ImmortalContainer) PodLabels() map[string]string {
	return map[string]string{"app": i.Name, PodLabel: i.Name}
}

// GetStatus returns the part of the status that all kinds have in common.
func (i *ImmortalContainer) GetStatus() *common.Status { return &i.Status.Status }

// GetStarts returns the number of pods that were released to run, and the number
// of restarts of the container in the current pod.
func (i *ImmortalContainer) GetStarts() (pods, restarts int64) {
	return i.Status.StartTimes, int64(i.Status.ContainerRestarts)
}

// GetDeletionPolicy returns the deletion policy, or its default.
func (i *ImmortalContainer) GetDeletionPolicy() common.DeletionPolicy {
	if i.Spec.DeletionPolicy == "" {
		return common.DeletionPolicyDelete
	}
	return i.Spec.DeletionPolicy
}
