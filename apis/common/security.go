package common

// SecurityProfile names a Pod Security Standard.
//
// +kubebuilder:validation:Enum=Restricted;Baseline
type SecurityProfile string

const (
	// SecurityRestricted follows current practice of hardening pods.
	SecurityRestricted SecurityProfile = "Restricted"
	// SecurityBaseline prevents what is known to raise privileges, and runs
	// images as they are.
	SecurityBaseline SecurityProfile = "Baseline"
)

// Security says how much the pods may do on their node.
type Security struct {
	// profile is the Pod Security Standard that the pods keep to: Restricted or
	// Baseline. Unset takes the kind's own. The stricter one can always be chosen.
	// +optional
	Profile SecurityProfile `json:"profile,omitempty"`

	// runAsUser is the user of the processes. Unset means the kind's own, or
	// else the image's. 0 cannot be chosen.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	RunAsUser *int64 `json:"runAsUser,omitempty"`

	// runAsGroup is their group. Unset means the number of runAsUser.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	RunAsGroup *int64 `json:"runAsGroup,omitempty"`

	// fsGroup is the group that volumes belong to.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	FSGroup *int64 `json:"fsGroup,omitempty"`

	// readOnlyRootFilesystem says that only volumes can be written. Unset takes
	// the kind's own.
	// +optional
	ReadOnlyRootFilesystem *bool `json:"readOnlyRootFilesystem,omitempty"`
}
