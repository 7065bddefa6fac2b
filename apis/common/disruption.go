package common

import "k8s.io/apimachinery/pkg/util/intstr"

// PodDisruptionBudget configures how many pods may be evicted at the same time.
// If the number of replicas would make every eviction impossible, a pod is replaced
// before it is evicted, or else the budget is relaxed to one pod at a time.
//
// +kubebuilder:validation:ExactlyOneOf=minAvailable;maxUnavailable
type PodDisruptionBudget struct {
	// minAvailable is the number or percentage of pods that must remain
	// available.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:Pattern=`^[0-9]{1,2}%$`
	// +kubebuilder:validation:XValidation:rule="type(self) == string || (self >= 0 && self <= 10000)",message="must be a number of pods, or a percentage less than 100%, so that a node can be drained"
	MinAvailable *intstr.IntOrString `json:"minAvailable,omitempty"`

	// maxUnavailable is the number or percentage of pods that may be
	// unavailable.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:Pattern=`^([1-9][0-9]?|100)%$`
	// +kubebuilder:validation:XValidation:rule="type(self) == string || (self >= 1 && self <= 10000)",message="must be at least 1 or 1%, so that a node can be drained"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
}
