package workload

import (
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/platform-operator/platform-operator/pkg/podstate"
)

// nodes are the last two nodes on which pods of a kind were observed. The operator may not
// list nodes: in a cluster of one node, pods are never observed on another.
type nodes struct {
	mu    sync.Mutex
	names [2]string
}

// only returns the node that all of several pods of an object are on, or "" if there are
// others or if pods have been observed on no other node.
func (n *nodes) only(pods []corev1.Pod) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	node, count := "", 0
	for i := range pods {
		p := &pods[i]
		if on := p.Spec.NodeName; on != "" && on != n.names[0] {
			n.names = [2]string{on, n.names[0]}
		}
		if p.DeletionTimestamp != nil || podstate.HasEnded(p) {
			continue
		}
		if count++; count > 1 && p.Spec.NodeName != node {
			return ""
		}
		node = p.Spec.NodeName
	}
	if count < 2 || n.names[1] == "" {
		return ""
	}
	return node
}
