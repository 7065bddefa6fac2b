package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/platform-operator/platform-operator/e2e/cluster/component"
	"github.com/platform-operator/platform-operator/e2e/cluster/config"
	"github.com/platform-operator/platform-operator/e2e/cluster/control"
	"github.com/platform-operator/platform-operator/e2e/cluster/network"
	"github.com/platform-operator/platform-operator/e2e/cluster/power"
	"github.com/platform-operator/platform-operator/e2e/cluster/probe"
	"github.com/platform-operator/platform-operator/e2e/cluster/progress"
	"github.com/platform-operator/platform-operator/e2e/cluster/safefile"
	"github.com/platform-operator/platform-operator/e2e/cluster/state"
)

// faultTimeout bounds how long a component or node may take to come back.
const faultTimeout = 90 * time.Second

// target is what kill and start act on.
type target struct {
	node      int
	component string // empty: the whole node
}

// parseTarget understands "etcd", "kubelet" with a node, and "node2".
func parseTarget(s state.Spec, what, node string) (target, error) {
	if n, ok := config.ParseNode(what); ok {
		return target{node: n}, checkNode(s, n)
	}
	if !slices.Contains(component.Names(), what) {
		return target{}, fmt.Errorf("%q is no component and no node; components: %s", what, strings.Join(component.Names(), ", "))
	}
	n, ok := config.ParseNode(node)
	if !ok {
		return target{}, fmt.Errorf("--node %q: must be like node1", node)
	}
	return target{node: n, component: what}, checkNode(s, n)
}

func checkNode(s state.Spec, node int) error {
	if node > s.Nodes {
		return fmt.Errorf("there is no %s; the cluster has %d", config.NodeName(node), s.Nodes)
	}
	return nil
}

// Kill ends a component or a whole node, without any goodbye.
func Kill(ctx context.Context, c config.Config, what, node string, out io.Writer) error {
	return act(ctx, c, what, node, out, func(ctx context.Context, _ state.Spec, t target) (string, error) {
		if t.component == "" {
			return config.NodeName(t.node) + " lost power", power.Cut(ctx, c, t.node)
		}
		err := control.NewClient(c, t.node).Kill(ctx, t.component)
		return t.component + " on " + config.NodeName(t.node) + " killed", err
	})
}

// Start brings a killed component or node back, and waits until it answers.
func Start(ctx context.Context, c config.Config, what, node string, out io.Writer) error {
	return act(ctx, c, what, node, out, func(ctx context.Context, s state.Spec, t target) (string, error) {
		if t.component != "" {
			err := control.NewClient(c, t.node).Start(ctx, t.component)
			return t.component + " on " + config.NodeName(t.node) + " answers", err
		}
		client := control.NewClient(c, t.node)
		if _, err := client.Status(ctx); err != nil {
			if !errors.Is(err, control.ErrNodeDown) {
				return "", err
			}
			if err := power.On(ctx, s, t.node); err != nil {
				return "", err
			}
		}
		err := probe.WaitFor(ctx, 100*time.Millisecond, func() bool {
			states, err := client.Status(ctx)
			return err == nil && !slices.ContainsFunc(states, func(st control.ProcessState) bool { return st.Wanted && !st.Healthy })
		})
		if err != nil {
			return "", fmt.Errorf("waiting for the components of %s to answer (see: cluster status): %w", config.NodeName(t.node), err)
		}
		return config.NodeName(t.node) + " is on, all its components answer", nil
	})
}

// act wraps what kill and start have in common.
func act(ctx context.Context, c config.Config, what, node string, out io.Writer,
	do func(context.Context, state.Spec, target) (string, error),
) error {
	if os.Geteuid() != 0 {
		return errors.New("this needs root")
	}
	s, err := state.Read(c)
	if err != nil {
		return err
	}
	t, err := parseTarget(s, what, node)
	if err != nil {
		return err
	}
	unlock, err := safefile.Lock(c.LockFile(), out)
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
	fmt.Fprintf(out, "%s (%s)\n", done, progress.Elapsed(begin))
	return nil
}

// SetPartition takes a node off the network, or puts it back; its processes
// go on running.
func SetPartition(ctx context.Context, c config.Config, node string, cut bool, out io.Writer) error {
	if os.Geteuid() != 0 {
		return errors.New("this needs root")
	}
	s, err := state.Read(c)
	if err != nil {
		return err
	}
	n, ok := config.ParseNode(node)
	if !ok {
		return fmt.Errorf("%q is not a node; say for example node2", node)
	}
	if err := checkNode(s, n); err != nil {
		return err
	}
	if err := network.SetLink(ctx, c, n, !cut); err != nil {
		return err
	}
	if cut {
		fmt.Fprintf(out, "%s is cut off; undo with: cluster heal %[1]s\n", config.NodeName(n))
	} else {
		fmt.Fprintf(out, "%s is back on the network\n", config.NodeName(n))
	}
	return nil
}
