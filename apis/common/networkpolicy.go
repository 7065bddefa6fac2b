package common

// NetworkPolicyPreset is the name of a predefined NetworkPolicy.
//
// +kubebuilder:validation:Enum=Isolated
type NetworkPolicyPreset string

// NetworkPolicyIsolated allows connections only from the peers in
// NetworkPolicy.From, and only to the ports of the object.
const NetworkPolicyIsolated NetworkPolicyPreset = "Isolated"

// NetworkPolicy configures which connections to the pods are allowed.
type NetworkPolicy struct {
	// preset Isolated allows connections only from the peers in from, and only
	// to the ports of the pods. Connections from the pods are not restricted.
	// +required
	Preset NetworkPolicyPreset `json:"preset"`

	// from lists the peers that may connect. Unset means all pods of the same
	// namespace. Gateways, ingress controllers, clients outside of the cluster
	// and Prometheus must be listed if they run elsewhere.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	From []NetworkPolicyPeer `json:"from,omitempty"`
}

// NetworkPolicyPeer selects clients that may connect.
//
// +kubebuilder:validation:XValidation:rule="has(self.ipBlock) != (has(self.podSelector) || has(self.namespaceSelector))",message="either ipBlock, or podSelector, namespaceSelector or both must be set"
type NetworkPolicyPeer struct {
	// podSelector selects pods. They are in the same namespace, unless
	// namespaceSelector is set. {} selects all pods.
	// +optional
	PodSelector *LabelSelector `json:"podSelector,omitempty"`

	// namespaceSelector selects namespaces. {} selects all namespaces.
	// +optional
	NamespaceSelector *LabelSelector `json:"namespaceSelector,omitempty"`

	// ipBlock is a range of IP addresses.
	// +optional
	IPBlock *IPBlock `json:"ipBlock,omitempty"`
}

// IPBlock is a range of IP addresses.
//
// +kubebuilder:validation:XValidation:rule="!has(self.except) || self.except.all(e, !isCIDR(e) || cidr(e) == cidr(e).masked())",message="except must contain ranges without bits beyond their prefix",fieldPath=".except"
// +kubebuilder:validation:XValidation:rule="!has(self.except) || !isCIDR(self.cidr) || self.except.all(e, isCIDR(e) && cidr(self.cidr).containsCIDR(e) && cidr(e).prefixLength() > cidr(self.cidr).prefixLength())",message="except must contain ranges within cidr",fieldPath=".except"
type IPBlock struct {
	// cidr is the range, such as 192.0.2.0/24 or 2001:db8::/64.
	// +required
	// +kubebuilder:validation:MaxLength=49
	// +kubebuilder:validation:XValidation:rule="isCIDR(self) && cidr(self) == cidr(self).masked()",message="must be a range such as 192.0.2.0/24, without bits beyond its prefix"
	CIDR string `json:"cidr"`

	// except lists ranges within cidr that are excluded.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=49
	Except []string `json:"except,omitempty"`
}
