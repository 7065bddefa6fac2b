package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/platform-operator/platform-operator/apis/common"
)

// Kind is the name of the kind.
const Kind = "Redirect"

// PodLabel is the label of a Redirect's pods whose value is its name.
const PodLabel = "redirect"

// Redirect answers each HTTP request with a redirect to another URL.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=redirects,singular=redirect,categories=platform
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
type Redirect struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec defines the desired state of the Redirect.
	// +required
	Spec RedirectSpec `json:"spec"`

	// status defines the observed state of the Redirect.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status RedirectStatus `json:"status,omitzero"`
}

// RedirectSpec defines the desired state of a Redirect.
type RedirectSpec struct {
	// image is an nginx image.
	// +required
	Image common.Image `json:"image"`

	// to is the URL that requests are redirected to.
	// +required
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^https?://[-a-zA-Z0-9._~/]+$`
	To string `json:"to"`

	// replicas is the number of pods. Unset means one.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=64
	Replicas *int32 `json:"replicas,omitempty"`

	// podDisruptionBudget configures how many pods may be evicted at the same time.
	// +optional
	PodDisruptionBudget *common.PodDisruptionBudget `json:"podDisruptionBudget,omitempty"`

	// networkPolicy restricts the connections to the pods.
	// +optional
	NetworkPolicy *common.NetworkPolicy `json:"networkPolicy,omitempty"`

	// rollout configures how changes are rolled out.
	// +optional
	Rollout *common.Rollout `json:"rollout,omitempty"`

	// paused stops changes to all children.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// deletionPolicy defines what happens to the children when this object is
	// deleted.
	// +optional
	DeletionPolicy common.DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// RedirectStatus defines the observed state of a Redirect.
type RedirectStatus struct {
	common.Status        `json:",inline"`
	common.RolloutStatus `json:",inline"`

	// readyReplicas is the number of pods that are ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`
}

// RedirectList is a list of Redirects.
//
// +kubebuilder:object:root=true
type RedirectList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Redirect `json:"items"`
}

// GetStatus returns the part of the status that all kinds have in common.
func (r *Redirect) GetStatus() *common.Status { return &r.Status.Status }

// GetDeletionPolicy returns the deletion policy, or its default.
func (r *Redirect) GetDeletionPolicy() common.DeletionPolicy {
	if r.Spec.DeletionPolicy == "" {
		return common.DeletionPolicyDelete
	}
	return r.Spec.DeletionPolicy
}
