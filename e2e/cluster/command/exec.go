package command

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/platform-operator/platform-operator/e2e/cluster/config"
	"github.com/platform-operator/platform-operator/e2e/cluster/enter"
)

// execPlain replaces this process with a command, for clusters of the
// user.
func execPlain(command []string) error {
	path, err := exec.LookPath(command[0])
	if err != nil {
		return fmt.Errorf("%s: command not found", command[0])
	}
	if err := syscall.Exec(path, command, os.Environ()); err != nil {
		return fmt.Errorf("running %s: %w", command[0], err)
	}
	return nil
}

func execCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "exec -- COMMAND [ARGUMENT...]",
		Short: "Run a command inside the cluster's network",
		Long: `Run a command inside the cluster's network, with KUBECONFIG set and kubectl
(and whatever else was built, like helm) in PATH. Everything else is as usual:
files, working directory, standard streams, signals and the exit status.`,
		Example: `  cluster exec -- kubectl get pods -A
  cluster exec -- sh -c 'curl -s http://10.10.10.1:30080/ | head'`,
		Args: cobra.MinimumNArgs(1),
		RunE: withConfig(func(_ *cobra.Command, c config.Config, args []string) error {
			if useCurrentCluster(os.Getenv) {
				return exitStatus{execPlain(args), exitOwn}
			}
			return exitStatus{enter.Exec(c, args), exitOwn}
		}),
	}
	cmd.Flags().SetInterspersed(false)
	return cmd
}
