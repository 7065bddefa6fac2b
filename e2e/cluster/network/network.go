// Package network creates and removes the network of a cluster.
//
// One namespace holds a bridge, the switch; every node has a namespace of its
// own with an eth0 plugged into it. No namespace has a way out: a packet to a
// pod, a service or a node can reach nothing else, and nothing outside can
// reach the cluster. The machine's own namespace is not touched at all.
package network

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/platform-operator/platform-operator/e2e/cluster/config"
	"github.com/platform-operator/platform-operator/e2e/cluster/host"
)

// nsfsMagic distinguishes a namespace handle from an ordinary file left over in
// its place.
const nsfsMagic = 0x6e736673

// Exists reports whether a network namespace exists.
func Exists(name string) bool {
	var fs syscall.Statfs_t
	return syscall.Statfs(filepath.Join(config.NetnsDir, name), &fs) == nil && fs.Type == nsfsMagic
}

// ip runs one ip(8) command.
func ip(ctx context.Context, args ...string) error {
	_, err := host.Run(ctx, host.Options{}, "ip", args...)
	return err
}

// ipBatch runs several ip(8) commands in one namespace.
func ipBatch(ctx context.Context, netns string, commands ...string) error {
	_, err := host.Run(ctx, host.Options{Stdin: strings.NewReader(strings.Join(commands, "\n") + "\n")},
		"ip", "-n", netns, "-batch", "-")
	return err
}

// Ensure creates the switch, the nodes' namespaces and the routes
// between them. What exists is kept.
func Ensure(ctx context.Context, c config.Config, nodes int) error {
	if !Exists(c.SwitchNetns()) {
		if err := addNetns(ctx, c.SwitchNetns()); err != nil {
			return err
		}
		err := ipBatch(ctx, c.SwitchNetns(), "link set lo up", "link add br0 type bridge", "link set br0 up")
		if err != nil {
			return fmt.Errorf("creating the switch: %w", err)
		}
	}
	for n := 1; n <= nodes; n++ {
		if Exists(c.NodeNetns(n)) {
			continue
		}
		if err := addNetns(ctx, c.NodeNetns(n)); err != nil {
			return err
		}
		err := ipBatch(ctx, c.NodeNetns(n),
			"link set lo up",
			fmt.Sprintf("link add eth0 type veth peer name %s netns %s", switchPort(n), c.SwitchNetns()),
			fmt.Sprintf("addr add %s/24 dev eth0", config.NodeIP(n)),
			"link set eth0 up",
			// Service addresses need some route to be looked at all, before
			// kube-proxy's rules rewrite them.
			"route add default dev eth0",
		)
		if err == nil {
			err = ipBatch(ctx, c.SwitchNetns(), fmt.Sprintf("link set %s master br0 up", switchPort(n)))
		}
		if err != nil {
			return fmt.Errorf("plugging %s into the switch: %w", config.NodeName(n), err)
		}
	}
	for from := 1; from <= nodes; from++ {
		var routes []string
		for to := 1; to <= nodes; to++ {
			if to != from {
				routes = append(routes, fmt.Sprintf("route replace %s via %s", config.PodCIDR(to), config.NodeIP(to)))
			}
		}
		if len(routes) == 0 {
			continue
		}
		if err := ipBatch(ctx, c.NodeNetns(from), routes...); err != nil {
			return fmt.Errorf("adding routes to %s: %w", config.NodeName(from), err)
		}
	}
	return nil
}

// addNetns creates a namespace, even where a reboot left its empty handle.
func addNetns(ctx context.Context, name string) error {
	if err := os.Remove(filepath.Join(config.NetnsDir, name)); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("removing what is left of network namespace %s: %w", name, err)
	}
	if err := ip(ctx, "netns", "add", name); err != nil {
		return fmt.Errorf("creating network namespace %s: %w", name, err)
	}
	return nil
}

func switchPort(node int) string { return "p" + strconv.Itoa(node) }

// SetLink takes a node's cable out of the switch, or puts it back.
func SetLink(ctx context.Context, c config.Config, node int, up bool) error {
	state := "down"
	if up {
		state = "up"
	}
	if err := ip(ctx, "-n", c.SwitchNetns(), "link", "set", switchPort(node), state); err != nil {
		return fmt.Errorf("setting the link of %s %s: %w", config.NodeName(node), state, err)
	}
	return nil
}

// ResetNode does to a node's namespace what a reboot does: kube-proxy's
// rules and the pods' bridge would otherwise go on answering for a dead node.
func ResetNode(ctx context.Context, c config.Config, node int) error {
	netns := c.NodeNetnsFile(node)
	if _, err := host.Run(ctx, host.Options{}, "nsenter", "--net="+netns, "nft", "flush", "ruleset"); err != nil {
		return fmt.Errorf("clearing the packet filter of %s: %w", config.NodeName(node), err)
	}
	links, err := host.Run(ctx, host.Options{}, "ip", "-n", c.NodeNetns(node), "-o", "link", "show", "type", "bridge")
	if err != nil {
		return fmt.Errorf("listing the bridges of %s: %w", config.NodeName(node), err)
	}
	if !strings.Contains(links, " cni0:") {
		return nil // no pod ever ran
	}
	if err := ip(ctx, "-n", c.NodeNetns(node), "link", "del", "cni0"); err != nil {
		return fmt.Errorf("removing the pod bridge of %s: %w", config.NodeName(node), err)
	}
	return nil
}

// Remove deletes every namespace of the cluster.
func Remove(ctx context.Context, c config.Config) error {
	names := []string{c.SwitchNetns()}
	for n := 1; n <= config.MaxNodes; n++ {
		names = append(names, c.NodeNetns(n))
	}
	for _, name := range names {
		if _, err := os.Lstat(filepath.Join(config.NetnsDir, name)); err != nil {
			continue
		}
		if err := ip(ctx, "netns", "del", name); err != nil {
			return fmt.Errorf("removing network namespace %s: %w", name, err)
		}
	}
	// `ip netns add` mounted the folder on itself, which serves no purpose once
	// it is empty. If it is in use, the kernel refuses.
	if left, err := os.ReadDir(config.NetnsDir); err == nil && len(left) == 0 {
		_ = syscall.Unmount(config.NetnsDir, 0)
	}
	return nil
}
