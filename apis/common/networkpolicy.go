package common

// NetworkPolicyPreset names a network policy.
//
// +kubebuilder:validation:Enum=Isolated
type NetworkPolicyPreset string

// NetworkPolicyIsolated lets in only what NetworkPolicy.From names, and only
// to the ports of the object.
const NetworkPolicyIsolated NetworkPolicyPreset = "Isolated"

// NetworkPolicy says who may connect to the pods.
type NetworkPolicy struct {
	// preset Isolated lets connections in only to the pods' own ports and only
	// from those in from. Connections from the pods to elsewhere are as before.
	// +required
	Preset NetworkPolicyPreset `json:"preset"`

	// from is who may connect. Unset means all pods of the same namespace.
	// Gateways, ingress controllers, clients outside of the cluster and
	// Prometheus have to be named when they are elsewhere.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	From []NetworkPolicyPeer `json:"from,omitempty"`
}

// NetworkPolicyPeer is who may connect.
//
// +kubebuilder:validation:XValidation:rule="has(self.ipBlock) != (has(self.podSelector) || has(self.namespaceSelector))",message="either ipBlock, or podSelector, namespaceSelector or both must be set"
type NetworkPolicyPeer struct {
	// podSelector selects pods, in the same namespace unless namespaceSelector
	// is set. {} selects all.
	// +optional
	PodSelector *LabelSelector `json:"podSelector,omitempty"`

	// namespaceSelector selects namespaces. {} selects all.
	// +optional
	NamespaceSelector *LabelSelector `json:"namespaceSelector,omitempty"`

	// ipBlock is a range of addresses.
	// +optional
	IPBlock *IPBlock `json:"ipBlock,omitempty"`
}

// IPBlock is a range of addresses.
//
// +kubebuilder:validation:XValidation:rule="!has(self.except) || !isCIDR(self.cidr) || self.except.all(e, isCIDR(e) && cidr(self.cidr).containsCIDR(e) && cidr(e).prefixLength() > cidr(self.cidr).prefixLength())",message="except must hold ranges within cidr",fieldPath=".except"
type IPBlock struct {
	// cidr is the range, such as 192.0.2.0/24 or 2001:db8::/64.
	// +required
	// +kubebuilder:validation:MaxLength=49
	// +kubebuilder:validation:XValidation:rule="isCIDR(self) && cidr(self) == cidr(self).masked()",message="must be a range such as 192.0.2.0/24, without bits beyond its prefix"
	CIDR string `json:"cidr"`

	// except are ranges within cidr that are left out.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=49
	Except []string `json:"except,omitempty"`
}
