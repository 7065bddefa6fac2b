package common

import "k8s.io/apimachinery/pkg/util/intstr"

// PodDisruptionBudget says how many pods a drain of nodes may take at a time.
// A budget that would let none go, for there are not enough replicas, is eased
// to one at a time.
//
// +kubebuilder:validation:ExactlyOneOf=minAvailable;maxUnavailable
type PodDisruptionBudget struct {
	// minAvailable is how many pods, or what part of them, must stay.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:Pattern=`^[0-9]{1,2}%$`
	// +kubebuilder:validation:XValidation:rule="type(self) == string || (self >= 0 && self <= 10000)",message="must be a number of pods, or a percentage less than 100%, so that a node can be drained"
	MinAvailable *intstr.IntOrString `json:"minAvailable,omitempty"`

	// maxUnavailable is how many pods, or what part of them, may be missing.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:Pattern=`^([1-9][0-9]?|100)%$`
	// +kubebuilder:validation:XValidation:rule="type(self) == string || (self >= 1 && self <= 10000)",message="must be at least 1 or 1%, so that a node can be drained"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
}
