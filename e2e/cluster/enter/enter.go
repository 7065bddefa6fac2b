// Package enter runs commands inside the network of a node, with the files,
// the user and the environment of the caller.
package enter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/platform-operator/platform-operator/e2e/cluster/config"
	"github.com/platform-operator/platform-operator/e2e/cluster/host"
	"github.com/platform-operator/platform-operator/e2e/cluster/state"
)

// Exec replaces this process with a command inside the network of the first node.
// Only the network is entered: files, user and working directory stay the
// caller's, and standard streams, signals and the exit status need no help,
// because there is no process in between.
func Exec(c config.Config, command []string) error {
	if _, err := state.Read(c); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return errors.New("cluster exec needs root: it enters the cluster's network namespace")
	}
	nsenter, err := exec.LookPath("nsenter")
	if err != nil {
		return errors.New("nsenter is not in PATH (Debian package util-linux)")
	}
	// Not `ip netns exec`: it mounts another /sys, in which the cgroups are
	// not to be found.
	argv := append([]string{"nsenter", "--net=" + c.NodeNetnsFile(config.ControlNode), "--"}, command...)
	if err := syscall.Exec(nsenter, argv, Env(c, os.Environ())); err != nil {
		return fmt.Errorf("running %s: %w", command[0], err)
	}
	return nil
}

// Env is the caller's environment with the cluster's programs and
// kubeconfig in it.
func Env(c config.Config, environ []string) []string {
	var env []string
	path, noProxy := "", ""
	for _, kv := range environ {
		key, value, _ := strings.Cut(kv, "=")
		switch key {
		case "PATH":
			path = value
		case "NO_PROXY", "no_proxy":
			noProxy = value
		case "KUBECONFIG":
		default:
			env = append(env, kv)
		}
	}
	if path != "" {
		path = ":" + path
	}
	// A proxy outside cannot be reached from inside, and must not be asked for
	// addresses of the cluster.
	inside := "localhost,127.0.0.1,10.0.0.0/8,.svc,.cluster.local"
	if noProxy != "" {
		inside = noProxy + "," + inside
	}
	return append(env,
		"PATH="+c.BinDir()+path,
		"KUBECONFIG="+c.Kubeconfig(),
		// All clusters have the same address, by which kubectl remembers their kinds.
		"KUBECACHEDIR="+filepath.Join(c.StateDir, "kubectl"),
		"NO_PROXY="+inside, "no_proxy="+inside,
	)
}

// Probe returns nil if a URL answers inside the cluster's network, when
// asked under a host name.
func Probe(ctx context.Context, c config.Config, url, hostName string) error {
	_, err := host.Run(ctx, host.Options{}, "nsenter", "--net="+c.NodeNetnsFile(config.ControlNode), "--",
		"curl", "--fail", "--silent", "--show-error", "--max-time", "1", "--noproxy", "*", "--header", "Host: "+hostName, url)
	return err
}
