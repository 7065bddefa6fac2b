package component

import (
	"slices"
	"strings"
	"testing"

	"github.com/platform-operator/platform-operator/e2e/cluster/state"
)

func TestForNode(t *testing.T) {
	names := func(list []Component) []string {
		var names []string
		for _, c := range list {
			names = append(names, c.Name)
		}
		slices.Sort(names)
		return names
	}
	all := slices.Sorted(slices.Values(Names()))
	if got := names(ForNode(state.Spec{Nodes: 2}, 1)); !slices.Equal(got, all) {
		t.Errorf("node1 runs %v, want %v", got, all)
	}
	if got := names(ForNode(state.Spec{Nodes: 2}, 2)); !slices.Equal(got, []string{"containerd", "kube-proxy", "kubelet"}) {
		t.Errorf("node2 runs %v", got)
	}
	if got := names(ForNode(state.Spec{Nodes: 1, ControlPlaneOnly: true}, 1)); !slices.Equal(got, []string{
		"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler",
	}) {
		t.Errorf("a control plane alone runs %v", got)
	}
	hasFlag := func(s state.Spec, component, flag string) bool {
		for _, c := range ForNode(s, 1) {
			if c.Name == component {
				return slices.ContainsFunc(c.Args, func(a string) bool { return strings.HasPrefix(a, flag) })
			}
		}
		return false
	}
	for _, only := range []bool{true, false} {
		s := state.Spec{Nodes: 1, ControlPlaneOnly: only}
		if hasFlag(s, apiServerName, "--audit-log-path") == only {
			t.Errorf("control plane only %v: wrong flags", only)
		}
		if !hasFlag(s, controllerManagerName, "--horizontal-pod-autoscaler-sync-period=5s") {
			t.Error("autoscalers are slow")
		}
	}
}
