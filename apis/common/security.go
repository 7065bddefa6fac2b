package common

// SecurityProfile is the name of a Pod Security Standard.
//
// +kubebuilder:validation:Enum=Restricted;Baseline
type SecurityProfile string

const (
	// SecurityRestricted follows the current best practices of pod hardening.
	SecurityRestricted SecurityProfile = "Restricted"
	// SecurityBaseline prevents known privilege escalations. Most images run
	// unchanged.
	SecurityBaseline SecurityProfile = "Baseline"
)

// Security configures the security context of the pods.
type Security struct {
	// profile is the Pod Security Standard that the pods comply with:
	// Restricted or Baseline. The default depends on the kind. Restricted is
	// always allowed.
	// +optional
	Profile SecurityProfile `json:"profile,omitempty"`

	// runAsUser is the user ID of the processes. Unset means the default of the
	// kind, or else that of the image. 0 is not allowed.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	RunAsUser *int64 `json:"runAsUser,omitempty"`

	// runAsGroup is the group ID of the processes. Unset means the value of
	// runAsUser.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	RunAsGroup *int64 `json:"runAsGroup,omitempty"`

	// fsGroup is the group that owns the volumes.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	FSGroup *int64 `json:"fsGroup,omitempty"`

	// readOnlyRootFilesystem mounts the root file system of the container
	// read-only. The default depends on the kind.
	// +optional
	ReadOnlyRootFilesystem *bool `json:"readOnlyRootFilesystem,omitempty"`
}
