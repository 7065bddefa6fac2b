// Package blocks is a kind that has every block, for the tests of their schema.
//
// +groupName=blocks.test
// +versionName=v1
package blocks

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/platform-operator/platform-operator/apis/common"
)

// Block has every block.
//
// +kubebuilder:object:root=true
type Block struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec Spec `json:"spec"`
}

// Spec has every block.
type Spec struct {
	common.Container  `json:",inline"`
	common.Entrypoint `json:",inline"`

	// +optional
	Resources *common.Resources `json:"resources,omitempty"`
	// +optional
	Pod *common.Pod `json:"pod,omitempty"`
	// +optional
	Security *common.Security `json:"security,omitempty"`
	// +optional
	Service *common.ServiceOptions `json:"service,omitempty"`
	// +optional
	Expose *common.Expose `json:"expose,omitempty"`
	// +optional
	Autoscaling *common.Autoscaling `json:"autoscaling,omitempty"`
	// +optional
	PodDisruptionBudget *common.PodDisruptionBudget `json:"podDisruptionBudget,omitempty"`
	// +optional
	NetworkPolicy *common.NetworkPolicy `json:"networkPolicy,omitempty"`
	// +optional
	Monitoring *common.Monitoring `json:"monitoring,omitempty"`
}
