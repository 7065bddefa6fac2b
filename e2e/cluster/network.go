package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// nsfsMagic tells a namespace handle from an ordinary file left over there.
const nsfsMagic = 0x6e736673

func netnsExists(name string) bool {
	var fs syscall.Statfs_t
	return syscall.Statfs(filepath.Join(netnsDir, name), &fs) == nil && fs.Type == nsfsMagic
}

// ip runs one ip(8) command.
func ip(ctx context.Context, args ...string) error {
	_, err := run(ctx, runOptions{}, "ip", args...)
	return err
}

// ipBatch runs several ip(8) commands in one namespace.
func ipBatch(ctx context.Context, netns string, commands ...string) error {
	_, err := run(ctx, runOptions{stdin: strings.NewReader(strings.Join(commands, "\n") + "\n")},
		"ip", "-n", netns, "-batch", "-")
	return err
}

// ensureNetwork creates the switch, the nodes' namespaces and the routes
// between them. What exists is kept.
func ensureNetwork(ctx context.Context, c config, nodes int) error {
	if !netnsExists(c.switchNetns()) {
		if err := addNetns(ctx, c.switchNetns()); err != nil {
			return err
		}
		err := ipBatch(ctx, c.switchNetns(), "link set lo up", "link add br0 type bridge", "link set br0 up")
		if err != nil {
			return fmt.Errorf("creating the switch: %w", err)
		}
	}
	for n := 1; n <= nodes; n++ {
		if netnsExists(c.nodeNetns(n)) {
			continue
		}
		if err := addNetns(ctx, c.nodeNetns(n)); err != nil {
			return err
		}
		err := ipBatch(ctx, c.nodeNetns(n),
			"link set lo up",
			fmt.Sprintf("link add eth0 type veth peer name %s netns %s", switchPort(n), c.switchNetns()),
			fmt.Sprintf("addr add %s/24 dev eth0", nodeIP(n)),
			"link set eth0 up",
			// Service addresses need some route to be looked at all, before
			// kube-proxy's rules rewrite them.
			"route add default dev eth0",
		)
		if err == nil {
			err = ipBatch(ctx, c.switchNetns(), fmt.Sprintf("link set %s master br0 up", switchPort(n)))
		}
		if err != nil {
			return fmt.Errorf("plugging %s into the switch: %w", nodeName(n), err)
		}
	}
	for from := 1; from <= nodes; from++ {
		var routes []string
		for to := 1; to <= nodes; to++ {
			if to != from {
				routes = append(routes, fmt.Sprintf("route replace %s via %s", podCIDR(to), nodeIP(to)))
			}
		}
		if len(routes) == 0 {
			continue
		}
		if err := ipBatch(ctx, c.nodeNetns(from), routes...); err != nil {
			return fmt.Errorf("adding routes to %s: %w", nodeName(from), err)
		}
	}
	return nil
}

// addNetns creates a namespace, even where a reboot left its empty handle.
func addNetns(ctx context.Context, name string) error {
	if err := os.Remove(filepath.Join(netnsDir, name)); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("removing what is left of network namespace %s: %w", name, err)
	}
	if err := ip(ctx, "netns", "add", name); err != nil {
		return fmt.Errorf("creating network namespace %s: %w", name, err)
	}
	return nil
}

func switchPort(node int) string { return "p" + strconv.Itoa(node) }

// setLink takes a node's cable out of the switch, or puts it back.
func setLink(ctx context.Context, c config, node int, up bool) error {
	state := "down"
	if up {
		state = "up"
	}
	if err := ip(ctx, "-n", c.switchNetns(), "link", "set", switchPort(node), state); err != nil {
		return fmt.Errorf("setting the link of %s %s: %w", nodeName(node), state, err)
	}
	return nil
}

// linkUp reports whether the node's cable is in.
func linkUp(ctx context.Context, c config, node int) bool {
	out, err := run(ctx, runOptions{}, "ip", "-n", c.switchNetns(), "-o", "link", "show", switchPort(node))
	return err == nil && strings.Contains(out, ",UP")
}

// forgetNodeNetwork does to a node's namespace what a reboot does: kube-proxy's
// rules and the pods' bridge would otherwise go on answering for a dead node.
func forgetNodeNetwork(ctx context.Context, c config, node int) error {
	netns := c.nodeNetnsFile(node)
	if _, err := run(ctx, runOptions{}, "nsenter", "--net="+netns, "nft", "flush", "ruleset"); err != nil {
		return fmt.Errorf("clearing the packet filter of %s: %w", nodeName(node), err)
	}
	links, err := run(ctx, runOptions{}, "ip", "-n", c.nodeNetns(node), "-o", "link", "show", "type", "bridge")
	if err != nil {
		return fmt.Errorf("listing the bridges of %s: %w", nodeName(node), err)
	}
	if !strings.Contains(links, " cni0:") {
		return nil // no pod ever ran
	}
	if err := ip(ctx, "-n", c.nodeNetns(node), "link", "del", "cni0"); err != nil {
		return fmt.Errorf("removing the pod bridge of %s: %w", nodeName(node), err)
	}
	return nil
}

// removeNetwork deletes every namespace of the cluster.
func removeNetwork(ctx context.Context, c config) error {
	names := []string{c.switchNetns()}
	for n := 1; n <= maxNodes; n++ {
		names = append(names, c.nodeNetns(n))
	}
	for _, name := range names {
		if _, err := os.Lstat(filepath.Join(netnsDir, name)); err != nil {
			continue
		}
		if err := ip(ctx, "netns", "del", name); err != nil {
			return fmt.Errorf("removing network namespace %s: %w", name, err)
		}
	}
	// `ip netns add` mounted the folder on itself. Nobody misses that when it
	// is empty, and when it is not, the kernel refuses.
	if left, err := os.ReadDir(netnsDir); err == nil && len(left) == 0 {
		_ = syscall.Unmount(netnsDir, 0)
	}
	return nil
}
