package common

// AddressType says from where an address can be reached.
//
// +kubebuilder:validation:Enum=Cluster;NodePort;LoadBalancer;Ingress;Gateway
type AddressType string

const (
	// AddressCluster can be reached from pods of the cluster.
	AddressCluster AddressType = "Cluster"
	// AddressNodePort can be reached on every node's address. No node address
	// is written into it: the operator has no right on nodes.
	AddressNodePort AddressType = "NodePort"
	// AddressLoadBalancer can be reached from wherever the load balancer is.
	AddressLoadBalancer AddressType = "LoadBalancer"
	// AddressIngress can be reached from wherever the ingress controller is.
	AddressIngress AddressType = "Ingress"
	// AddressGateway can be reached from wherever the Gateway is.
	AddressGateway AddressType = "Gateway"
)

// Address is a place where the object can be reached.
type Address struct {
	// type says from where the address can be reached.
	// +required
	Type AddressType `json:"type"`

	// url is the address with its scheme. A NodePort address has the word
	// "<node>" in the place of the host.
	// +required
	// +kubebuilder:validation:MaxLength=2048
	URL string `json:"url"`
}
