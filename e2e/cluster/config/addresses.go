package config

import (
	"fmt"
)

// The addresses are the same in every cluster: each lives in network
// namespaces of its own, with no way out, so nothing can collide.
const (
	PodNetwork     = "10.244.0.0/16"
	ServiceNetwork = "10.96.0.0/16"
	APIServiceIP   = "10.96.0.1"
	DNSServiceIP   = "10.96.0.10"
	APIServerPort  = "6443"
	registryPort   = "5000"
	MaxNodes       = 8
	ControlNode    = 1 // runs etcd, the API server, the controllers and the registry too
)

// NodeName returns the name of a node: node1, node2 and so on.
func NodeName(node int) string { return fmt.Sprintf("node%d", node) }

// NodeIP returns the address of a node.
func NodeIP(node int) string { return fmt.Sprintf("10.10.10.%d", node) }

// PodCIDR returns the network of the pods of a node.
func PodCIDR(node int) string { return fmt.Sprintf("10.244.%d.0/24", node-1) }

// APIServerURL returns the API server's URL inside the cluster's network.
func APIServerURL() string { return "https://" + NodeIP(ControlNode) + ":" + APIServerPort }

// RegistryAddress returns the registry's address inside the cluster's network.
func RegistryAddress() string { return NodeIP(ControlNode) + ":" + registryPort }

// ParseNode understands "node2".
func ParseNode(s string) (int, bool) {
	var n int
	if _, err := fmt.Sscanf(s, "node%d", &n); err != nil || NodeName(n) != s || n < 1 || n > MaxNodes {
		return 0, false
	}
	return n, true
}
