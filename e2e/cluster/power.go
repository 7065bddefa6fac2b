package main

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
)

// powerOn starts a node's first process in namespaces of its own and returns
// when it answers.
func powerOn(ctx context.Context, s spec, node int) error {
	c := s.config()
	dirs := []string{c.nodeLogs(node)}
	for _, dir := range ownedDirs() {
		dirs = append(dirs, filepath.Join(c.nodeDir(node), dir))
	}
	if err := makeDirs(dirs...); err != nil {
		return err
	}
	// These two are entered by processes of every user.
	for path, mode := range map[string]os.FileMode{"var-lib": 0o755, "var-log": 0o755, "tmp": 0o777 | os.ModeSticky} {
		if err := os.Chmod(filepath.Join(c.nodeDir(node), path), mode); err != nil {
			return fmt.Errorf("preparing the disk of %s: %w", nodeName(node), err)
		}
	}
	m, err := thisMachine()
	if err != nil {
		return err
	}
	if err := writeNodeConfig(s, node, m); err != nil {
		return err
	}
	if !s.ControlPlaneOnly {
		if err := forgetNodeNetwork(ctx, c, node); err != nil {
			return err
		}
	}
	if err := setLink(ctx, c, node, true); err != nil {
		return err
	}

	initLog, err := os.OpenFile(c.logFile(node, nodeInitCommand), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("opening the log of %s: %w", nodeName(node), err)
	}
	defer func() { _ = initLog.Close() }()
	closeInheritedOnExec()
	// nsenter replaces itself with our binary, which is thereby the first
	// process of the new pid namespace.
	cmd := exec.Command("nsenter", "--net="+c.nodeNetnsFile(node), "--",
		c.ownBinary(), nodeInitCommand, c.StateDir, nodeName(node))
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = initLog, initLog
	// Nothing of the caller's: a proxy setting, for one, would send kubelet's
	// requests to a place it cannot reach.
	cmd.Env = []string{
		"PATH=" + c.binDir() + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=/root", "LANG=C.UTF-8", "CLUSTER_PREFIX=" + c.Prefix,
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS,
		Setsid:     true, // survives the terminal it was started from
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", nodeName(node), err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()

	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	client := newNodeClient(c, node)
	for {
		if _, err := client.status(ctx); err == nil {
			return nil
		}
		select {
		case err := <-ended:
			return fmt.Errorf("%s ended right away (%w)\n%s", nodeName(node), err, tail(c.logFile(node, nodeInitCommand), 10))
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer: %w\n%s", nodeName(node), ctx.Err(), tail(c.logFile(node, nodeInitCommand), 10))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// closeInheritedOnExec keeps files that our caller left open (a pipe of a test
// runner, a job server) from living on in the nodes: whoever waits for such a
// pipe to close would wait for the cluster to end.
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

// powerCut ends a node the way a pulled plug does: off the network first, so
// that no connection is closed politely, then SIGKILL to everything.
func powerCut(ctx context.Context, c config, node int) error {
	if netnsExists(c.switchNetns()) {
		if err := setLink(ctx, c, node, false); err != nil {
			return err
		}
	}
	return killNode(ctx, c, node)
}

// killNode kills the node's first process, and with it all others, and clears
// away the cgroups, which a real machine would lose too.
func killNode(ctx context.Context, c config, node int) error {
	pids, err := nodeInitPIDs(c, node)
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("killing %s: %w", nodeName(node), err)
		}
	}
	waitCtx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for _, pid := range pids {
		if err := waitFor(waitCtx, 10*time.Millisecond, func() bool { return processEnded(pid) }); err != nil {
			return fmt.Errorf("waiting for the processes of %s to end: %w", nodeName(node), err)
		}
	}
	return removeCgroup(ctx, c.nodeCgroup(node))
}
