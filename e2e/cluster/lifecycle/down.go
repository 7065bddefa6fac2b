package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/platform-operator/platform-operator/e2e/cluster/config"
	"github.com/platform-operator/platform-operator/e2e/cluster/network"
	"github.com/platform-operator/platform-operator/e2e/cluster/power"
	"github.com/platform-operator/platform-operator/e2e/cluster/progress"
	"github.com/platform-operator/platform-operator/e2e/cluster/safefile"
	"github.com/platform-operator/platform-operator/e2e/cluster/state"
)

// Down removes a cluster, or what is left of one. It does not trust the
// settings file: everything a cluster can own is looked for by name.
func Down(ctx context.Context, c config.Config, out io.Writer) error {
	if os.Geteuid() != 0 {
		return errors.New("cluster down needs root")
	}
	start := time.Now()
	unlock, err := safefile.Lock(c.LockFile(), out)
	if err != nil {
		return err
	}
	defer unlock()

	found := network.Exists(c.SwitchNetns())
	// Others first: node1 has the API server they would complain about.
	for n := config.MaxNodes; n >= 1; n-- {
		pids, err := power.InitPIDs(c, n)
		if err != nil {
			return err
		}
		found = found || len(pids) > 0
		if err := power.Kill(ctx, c, n); err != nil {
			return err
		}
	}
	if err := network.Remove(ctx, c); err != nil {
		return err
	}
	if err := state.Remove(c, true); err != nil {
		return err
	}
	if !found {
		fmt.Fprintln(out, "no cluster was running")
		return nil
	}
	fmt.Fprintf(out, "down, in %s (logs stay in %s until the next up)\n", progress.Elapsed(start), c.StateDir)
	return nil
}
