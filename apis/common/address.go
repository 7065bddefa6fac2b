package common

// AddressType is the scope from which an address can be reached.
//
// +kubebuilder:validation:Enum=Cluster;NodePort;LoadBalancer;Ingress;Gateway
type AddressType string

const (
	// AddressCluster is an address inside the cluster.
	AddressCluster AddressType = "Cluster"
	// AddressNodePort is a port on every node. Its host is a placeholder,
	// because the operator has no permission to list Nodes.
	AddressNodePort AddressType = "NodePort"
	// AddressLoadBalancer is the address of a load balancer.
	AddressLoadBalancer AddressType = "LoadBalancer"
	// AddressIngress is a host of an Ingress.
	AddressIngress AddressType = "Ingress"
	// AddressGateway is a host of an HTTPRoute.
	AddressGateway AddressType = "Gateway"
)

// Address is a URL of the object, and the scope from which it can be reached.
type Address struct {
	// type is the scope from which the address can be reached.
	// +required
	Type AddressType `json:"type"`

	// url is the address with its scheme. A NodePort address has the
	// placeholder "<node>" as its host.
	// +required
	// +kubebuilder:validation:MaxLength=2048
	URL string `json:"url"`
}
