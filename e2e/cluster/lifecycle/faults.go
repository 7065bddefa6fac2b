package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/platform-operator/platform-operator/e2e/cluster/config"
	"github.com/platform-operator/platform-operator/e2e/cluster/control"
	"github.com/platform-operator/platform-operator/e2e/cluster/power"
	"github.com/platform-operator/platform-operator/e2e/cluster/probe"
	"github.com/platform-operator/platform-operator/e2e/cluster/progress"
	"github.com/platform-operator/platform-operator/e2e/cluster/safefile"
	"github.com/platform-operator/platform-operator/e2e/cluster/state"
)

// faultTimeout bounds how long a node may take to come back.
const faultTimeout = 90 * time.Second

// Kill ends a node without any goodbye.
func Kill(ctx context.Context, c config.Config, node string, out io.Writer) error {
	return act(ctx, c, node, out, func(ctx context.Context, _ state.Spec, n int) (string, error) {
		return node + " lost power", power.Cut(ctx, c, n)
	})
}

// Start brings a killed node back, and waits until its components answer.
func Start(ctx context.Context, c config.Config, node string, out io.Writer) error {
	return act(ctx, c, node, out, func(ctx context.Context, s state.Spec, n int) (string, error) {
		client := control.NewClient(c, n)
		if _, err := client.Status(ctx); err != nil {
			if !errors.Is(err, control.ErrNodeDown) {
				return "", err
			}
			if err := power.On(ctx, s, n); err != nil {
				return "", err
			}
		}
		err := probe.WaitFor(ctx, 100*time.Millisecond, func() bool {
			states, err := client.Status(ctx)
			return err == nil && !slices.ContainsFunc(states, func(st control.ProcessState) bool { return !st.Healthy })
		})
		if err != nil {
			return "", fmt.Errorf("waiting for the components of %s to answer (see: cluster status): %w", node, err)
		}
		return node + " is on, all its components answer", nil
	})
}

// act wraps what kill and start have in common.
func act(ctx context.Context, c config.Config, node string, out io.Writer, do func(context.Context, state.Spec, int) (string, error)) error {
	if os.Geteuid() != 0 {
		return errors.New("this needs root")
	}
	s, err := state.Read(c)
	if err != nil {
		return err
	}
	n, ok := config.ParseNode(node)
	if !ok || n > s.Nodes {
		return fmt.Errorf("%q is not a node; the cluster has %d, such as node1", node, s.Nodes)
	}
	unlock, err := safefile.Lock(c.LockFile(), out)
	if err != nil {
		return err
	}
	defer unlock()
	begin := time.Now()
	ctx, cancel := context.WithTimeout(ctx, faultTimeout)
	defer cancel()
	done, err := do(ctx, s, n)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s (%s)\n", done, progress.Elapsed(begin))
	return nil
}
