package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// faultTimeout bounds how long a component or node may take to come back.
const faultTimeout = 90 * time.Second

// target is what kill and start act on.
type target struct {
	node      int
	component string // empty: the whole node
}

// parseTarget understands "etcd", "kubelet" with a node, and "node2".
func parseTarget(s spec, what, node string) (target, error) {
	if n, ok := parseNode(what); ok {
		return target{node: n}, checkNode(s, n)
	}
	if !slices.Contains(componentNames(), what) {
		return target{}, fmt.Errorf("%q is no component and no node; components: %s", what, strings.Join(componentNames(), ", "))
	}
	n, ok := parseNode(node)
	if !ok {
		return target{}, fmt.Errorf("--node %q: must be like node1", node)
	}
	return target{node: n, component: what}, checkNode(s, n)
}

func checkNode(s spec, node int) error {
	if node > s.Nodes {
		return fmt.Errorf("there is no %s; the cluster has %d", nodeName(node), s.Nodes)
	}
	return nil
}

// kill ends a component or a whole node, without any goodbye.
func kill(ctx context.Context, c config, what, node string, out io.Writer) error {
	return act(ctx, c, what, node, out, func(ctx context.Context, _ spec, t target) (string, error) {
		if t.component == "" {
			return nodeName(t.node) + " lost power", powerCut(ctx, c, t.node)
		}
		err := newNodeClient(c, t.node).post(ctx, pathKill, "component", t.component)
		return t.component + " on " + nodeName(t.node) + " killed", err
	})
}

// start brings a killed component or node back, and waits until it answers.
func start(ctx context.Context, c config, what, node string, out io.Writer) error {
	return act(ctx, c, what, node, out, func(ctx context.Context, s spec, t target) (string, error) {
		if t.component != "" {
			err := newNodeClient(c, t.node).post(ctx, pathStart, "component", t.component)
			return t.component + " on " + nodeName(t.node) + " answers", err
		}
		client := newNodeClient(c, t.node)
		if _, err := client.status(ctx); err != nil {
			if !errors.Is(err, errNodeDown) {
				return "", err
			}
			if err := powerOn(ctx, s, t.node); err != nil {
				return "", err
			}
		}
		err := waitFor(ctx, 100*time.Millisecond, func() bool {
			states, err := client.status(ctx)
			return err == nil && !slices.ContainsFunc(states, func(st processState) bool { return st.Wanted && !st.Healthy })
		})
		if err != nil {
			return "", fmt.Errorf("waiting for the components of %s to answer (see: cluster status): %w", nodeName(t.node), err)
		}
		return nodeName(t.node) + " is on, all its components answer", nil
	})
}

// act wraps what kill and start have in common.
func act(ctx context.Context, c config, what, node string, out io.Writer,
	do func(context.Context, spec, target) (string, error),
) error {
	if os.Geteuid() != 0 {
		return errors.New("this needs root")
	}
	s, err := readSpec(c)
	if err != nil {
		return err
	}
	t, err := parseTarget(s, what, node)
	if err != nil {
		return err
	}
	unlock, err := lock(c.lockFile(), out)
	if err != nil {
		return err
	}
	defer unlock()
	begin := time.Now()
	ctx, cancel := context.WithTimeout(ctx, faultTimeout)
	defer cancel()
	done, err := do(ctx, s, t)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s (%s)\n", done, elapsed(begin))
	return nil
}

// setPartition takes a node off the network, or puts it back; its processes
// go on running.
func setPartition(ctx context.Context, c config, node string, cut bool, out io.Writer) error {
	if os.Geteuid() != 0 {
		return errors.New("this needs root")
	}
	s, err := readSpec(c)
	if err != nil {
		return err
	}
	n, ok := parseNode(node)
	if !ok {
		return fmt.Errorf("%q is not a node; say for example node2", node)
	}
	if err := checkNode(s, n); err != nil {
		return err
	}
	if err := setLink(ctx, c, n, !cut); err != nil {
		return err
	}
	if cut {
		fmt.Fprintf(out, "%s is cut off; undo with: cluster heal %[1]s\n", nodeName(n))
	} else {
		fmt.Fprintf(out, "%s is back on the network\n", nodeName(n))
	}
	return nil
}
