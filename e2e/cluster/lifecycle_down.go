package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// down removes a cluster, or what is left of one. It does not trust the
// settings file: everything a cluster can own is looked for by name.
func down(ctx context.Context, c config, out io.Writer) error {
	if os.Geteuid() != 0 {
		return errors.New("cluster down needs root")
	}
	start := time.Now()
	unlock, err := lock(c.lockFile(), out)
	if err != nil {
		return err
	}
	defer unlock()

	found := netnsExists(c.switchNetns())
	// Others first: node1 has the API server they would complain about.
	for n := maxNodes; n >= 1; n-- {
		pids, err := nodeInitPIDs(c, n)
		if err != nil {
			return err
		}
		found = found || len(pids) > 0
		if err := killNode(ctx, c, n); err != nil {
			return err
		}
	}
	if err := removeNetwork(ctx, c); err != nil {
		return err
	}
	if err := removeState(c, true); err != nil {
		return err
	}
	if !found {
		fmt.Fprintln(out, "no cluster was running")
		return nil
	}
	fmt.Fprintf(out, "down, in %s (logs stay in %s until the next up)\n", elapsed(start), c.StateDir)
	return nil
}
