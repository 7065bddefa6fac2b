package main

import (
	"fmt"
)

// The addresses are the same in every cluster: each lives in network
// namespaces of its own, with no way out, so nothing can collide.
const (
	podNetwork     = "10.244.0.0/16"
	serviceNetwork = "10.96.0.0/16"
	apiServiceIP   = "10.96.0.1"
	dnsServiceIP   = "10.96.0.10"
	apiServerPort  = "6443"
	registryPort   = "5000"
	maxNodes       = 8
	controlNode    = 1 // runs etcd, the API server, the controllers and the registry too
)

func nodeName(node int) string { return fmt.Sprintf("node%d", node) }

func nodeIP(node int) string { return fmt.Sprintf("10.10.10.%d", node) }

func podCIDR(node int) string { return fmt.Sprintf("10.244.%d.0/24", node-1) }

func apiServerURL() string { return "https://" + nodeIP(controlNode) + ":" + apiServerPort }

func registryAddress() string { return nodeIP(controlNode) + ":" + registryPort }

// parseNode understands "node2".
func parseNode(s string) (int, bool) {
	var n int
	if _, err := fmt.Sscanf(s, "node%d", &n); err != nil || nodeName(n) != s || n < 1 || n > maxNodes {
		return 0, false
	}
	return n, true
}
