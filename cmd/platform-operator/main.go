// Command platform-operator runs the operator, and shows what it would do.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/platform-operator/platform-operator/controllers"
	"github.com/platform-operator/platform-operator/pkg/version"
)

func main() {
	if err := root().ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		if err.Error() != "" {
			fmt.Fprintln(os.Stderr, "platform-operator:", err)
		}
		os.Exit(exitCode(err))
	}
}

func root() *cobra.Command {
	run := runCommand()
	cmd := &cobra.Command{
		Use:   "platform-operator",
		Short: "Self-managing workload APIs for platform teams",
		Long: `platform-operator is a Kubernetes operator. Without a subcommand it runs the
operator, in a cluster or against the current kubeconfig.`,
		Example: `  # print the children of a WebServer
  platform-operator render -f webserver.yaml

  # report what an upgrade to this version would change
  platform-operator preflight

  # run against the current kubeconfig, without admission webhooks
  platform-operator run --webhooks=false --leader-elect=false`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version.Describe(),
		Args:          cobra.NoArgs,
		RunE:          run.RunE,
	}
	cmd.SetVersionTemplate("{{.Version}}\n")
	cmd.Flags().AddFlagSet(run.Flags())
	cmd.AddCommand(run, preflightCommand(), renderCommand(), releaseCommand(), &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		Run: func(c *cobra.Command, _ []string) { fmt.Fprintln(c.OutOrStdout(), version.Describe()) },
	})
	return cmd
}

func scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	if err := controllers.AddToScheme(s); err != nil {
		return nil, fmt.Errorf("creating the scheme:  %w", err)
	}
	return s, nil
}
