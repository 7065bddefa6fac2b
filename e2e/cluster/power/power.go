// Package power switches nodes on, cuts their power and finds their processes,
// seen from the machine. What happens inside a node is in package nodeinit.
package power

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/platform-operator/platform-operator/e2e/cluster/cgroup"
	"github.com/platform-operator/platform-operator/e2e/cluster/config"
	"github.com/platform-operator/platform-operator/e2e/cluster/control"
	"github.com/platform-operator/platform-operator/e2e/cluster/host"
	"github.com/platform-operator/platform-operator/e2e/cluster/logs"
	"github.com/platform-operator/platform-operator/e2e/cluster/network"
	"github.com/platform-operator/platform-operator/e2e/cluster/nodeconfig"
	"github.com/platform-operator/platform-operator/e2e/cluster/nodeinit"
	"github.com/platform-operator/platform-operator/e2e/cluster/probe"
	"github.com/platform-operator/platform-operator/e2e/cluster/safefile"
	"github.com/platform-operator/platform-operator/e2e/cluster/state"
)

// On starts a node's first process in namespaces of its own and returns
// when it answers.
func On(ctx context.Context, s state.Spec, node int) error {
	c := s.Config()
	dirs := []string{c.NodeLogs(node)}
	for _, dir := range nodeinit.OwnedDirs() {
		dirs = append(dirs, filepath.Join(c.NodeDir(node), dir))
	}
	if err := safefile.MakeDirs(dirs...); err != nil {
		return err
	}
	// These two are entered by processes of every user.
	for path, mode := range map[string]os.FileMode{"var-lib": 0o755, "var-log": 0o755, "tmp": 0o777 | os.ModeSticky} {
		if err := os.Chmod(filepath.Join(c.NodeDir(node), path), mode); err != nil {
			return fmt.Errorf("preparing the disk of %s: %w", config.NodeName(node), err)
		}
	}
	m, err := host.ReadCapacity()
	if err != nil {
		return err
	}
	if err := nodeconfig.Write(s, node, m); err != nil {
		return err
	}
	if !s.ControlPlaneOnly {
		if err := network.ResetNode(ctx, c, node); err != nil {
			return err
		}
	}
	if err := network.SetLink(ctx, c, node, true); err != nil {
		return err
	}

	initLog, err := os.OpenFile(c.LogFile(node, nodeinit.Command), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("opening the log of %s: %w", config.NodeName(node), err)
	}
	defer func() { _ = initLog.Close() }()
	closeInheritedOnExec()
	// nsenter replaces itself with our binary, which is thereby the first
	// process of the new pid namespace.
	cmd := exec.Command("nsenter", "--net="+c.NodeNetnsFile(node), "--",
		c.OwnBinary(), nodeinit.Command, c.StateDir, config.NodeName(node))
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = initLog, initLog
	// Nothing of the caller's: a proxy setting, for one, would send kubelet's
	// requests to a place it cannot reach.
	cmd.Env = []string{
		"PATH=" + c.BinDir() + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=/root", "LANG=C.UTF-8", "CLUSTER_PREFIX=" + c.Prefix,
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS,
		Setsid:     true, // survives the terminal it was started from
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", config.NodeName(node), err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()

	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	client := control.NewClient(c, node)
	for {
		if _, err := client.Status(ctx); err == nil {
			return nil
		}
		select {
		case err := <-ended:
			return fmt.Errorf("%s ended right away (%w)\n%s", config.NodeName(node), err, logs.Tail(c.LogFile(node, nodeinit.Command), 10))
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer: %w\n%s", config.NodeName(node), ctx.Err(), logs.Tail(c.LogFile(node, nodeinit.Command), 10))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// closeInheritedOnExec keeps files that our caller left open (a pipe of a test
// runner, a job server) from staying open in the nodes: a reader that waits for
// such a pipe to close would wait for the cluster to end.
func closeInheritedOnExec() {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}

// Cut ends a node the way a pulled plug does: off the network first, so
// that no connection is closed politely, then SIGKILL to everything.
func Cut(ctx context.Context, c config.Config, node int) error {
	if network.Exists(c.SwitchNetns()) {
		if err := network.SetLink(ctx, c, node, false); err != nil {
			return err
		}
	}
	return Kill(ctx, c, node)
}

// Kill kills the node's first process, and with it all others, and clears
// away the cgroups, which a real machine would lose too.
func Kill(ctx context.Context, c config.Config, node int) error {
	pids, err := InitPIDs(c, node)
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("killing %s: %w", config.NodeName(node), err)
		}
	}
	waitCtx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for _, pid := range pids {
		if err := probe.WaitFor(waitCtx, 10*time.Millisecond, func() bool { return processEnded(pid) }); err != nil {
			return fmt.Errorf("waiting for the processes of %s to end: %w", config.NodeName(node), err)
		}
	}
	return cgroup.Remove(ctx, c.NodeCgroup(node))
}
