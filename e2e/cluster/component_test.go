package main

import (
	"slices"
	"strings"
	"testing"
)

func TestComponents(t *testing.T) {
	names := func(list []component) []string {
		var names []string
		for _, c := range list {
			names = append(names, c.Name)
		}
		slices.Sort(names)
		return names
	}
	all := slices.Sorted(slices.Values(componentNames()))
	if got := names(nodeComponents(spec{Nodes: 2}, 1)); !slices.Equal(got, all) {
		t.Errorf("node1 runs %v, want %v", got, all)
	}
	if got := names(nodeComponents(spec{Nodes: 2}, 2)); !slices.Equal(got, []string{"containerd", "kube-proxy", "kubelet"}) {
		t.Errorf("node2 runs %v", got)
	}
	if got := names(nodeComponents(spec{Nodes: 1, ControlPlaneOnly: true}, 1)); !slices.Equal(got, []string{
		"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler",
	}) {
		t.Errorf("a control plane alone runs %v", got)
	}
	hasFlag := func(s spec, component, flag string) bool {
		for _, c := range nodeComponents(s, 1) {
			if c.Name == component {
				return slices.ContainsFunc(c.Args, func(a string) bool { return strings.HasPrefix(a, flag) })
			}
		}
		return false
	}
	for _, on := range []bool{true, false} {
		s := spec{Nodes: 1, Audit: on, FastFailover: on}
		if hasFlag(s, apiServerName, "--audit-log-path") != on {
			t.Errorf("audit %v: wrong flags", on)
		}
		if hasFlag(s, controllerManagerName, "--node-monitor-grace-period") != on {
			t.Errorf("fast failover %v: wrong flags", on)
		}
		if !hasFlag(s, controllerManagerName, "--horizontal-pod-autoscaler-sync-period=5s") {
			t.Errorf("fast failover %v: autoscalers are slow", on)
		}
	}
}
