// Package command is the command line: one function per subcommand, which
// checks flags and arguments and calls the package that does the work.
package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/platform-operator/platform-operator/e2e/cluster/build"
	"github.com/platform-operator/platform-operator/e2e/cluster/config"
	"github.com/platform-operator/platform-operator/e2e/cluster/lifecycle"
)

// exitOwn is the exit status of `exec` when it fails itself, as opposed to the
// command it runs; env and timeout use the same.
const exitOwn = 125

// Main runs the command line and returns the exit status.
func Main() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := rootCommand().ExecuteContext(ctx)
	stop()
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "cluster:", err)
	if status, ok := errors.AsType[exitStatus](err); ok {
		return status.code
	}
	return 1
}

// exitStatus is an error with an exit status other than 1.
type exitStatus struct {
	error
	code int
}

const longHelp = `cluster runs a real Kubernetes ` + build.KubernetesVersion + ` on this machine, for tests and for trying things.

No container engine, image registry or network access is needed once things
are built (a first "up" builds for about 8 minutes, a later one takes less
than 10 seconds). Linux, root and Go are; on Debian the rest is installed.

The cluster's network cannot be reached from outside and reaches nothing
outside. Go in with "exec", which runs any command of yours there, with
KUBECONFIG set and kubectl in PATH:

  cluster up
  cluster exec -- kubectl get nodes
  cluster exec -- curl http://10.10.10.1:30080/     a NodePort
  cluster exec -- go test ./...
  cluster down

Images come from the cluster's own registry, whatever registry they name.
There are nginx (1.23.0, 1.23.1, 1.27.3, 1.27.4, latest; crash, which exits
at once; mute, which never answers), memcached (1.6, 1.6.18, 1.4.36-alpine,
latest), nginx/nginx-prometheus-exporter (1.4, 1.4.0, latest) and busybox
(latest). Add yours with "load", and what a cluster often has with "addon".

Environment:
  CLUSTER=current  leave clusters alone: use the kubeconfig's current context
  CLUSTER_NAME     a second cluster on the same machine, which shares nothing with the first
  CLUSTER_KUBERNETES  another version of Kubernetes, such as v1.36.3; building it needs the network
  CLUSTER_STATE    where the running cluster keeps its files
                   (default /var/lib/platform-operator-cluster)
  XDG_CACHE_HOME   where built programs and images are kept (default ~/.cache)`

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "cluster",
		Short:         "A real Kubernetes on this machine",
		Long:          longHelp,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(
		upCommand(),
		ofCluster("down", "Remove the cluster: processes, mounts, network, cgroups, files", lifecycle.Down),
		ofCluster("status", "Show what runs; succeeds when everything is up", lifecycle.Status),
		execCommand(), loadCommand(), addonCommand(),
		killCommand(), startCommand(),
		auditCommand(), assetsCommand(), toolCommand(),
		nodeInitSubcommand(), serveRegistrySubcommand(),
	)
	return root
}

// withConfig wraps what nearly all commands start with.
func withConfig(f func(cmd *cobra.Command, c config.Config, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := config.Load(os.Getenv)
		if err != nil {
			return err
		}
		return f(cmd, c, args)
	}
}

// ownClusterOnly refuses a command when the user's own cluster is in use.
func ownClusterOnly(f func(cmd *cobra.Command, c config.Config, args []string) error) func(*cobra.Command, []string) error {
	return withConfig(func(cmd *cobra.Command, c config.Config, args []string) error {
		if useCurrentCluster(os.Getenv) {
			return fmt.Errorf("cluster %s works on the cluster made by `cluster up` only, not with CLUSTER=current", cmd.Name())
		}
		return f(cmd, c, args)
	})
}
