package command

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/platform-operator/platform-operator/e2e/cluster/config"
	"github.com/platform-operator/platform-operator/e2e/cluster/lifecycle"
)

// sayCurrent is all that up, down and status do with the user's own cluster.
func sayCurrent(cmd *cobra.Command) error {
	_, err := fmt.Fprintln(cmd.OutOrStdout(), "CLUSTER=current: using the current context of the kubeconfig")
	return err
}

func upCommand() *cobra.Command {
	o := lifecycle.UpOptions{}
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a cluster, or what is missing of it",
		Example: `  cluster up                        one node
  cluster up --nodes 2              two; while one runs, adds the second
  cluster up --dns=false            no names of Services; saves a build of half a minute
  cluster up --control-plane-only   API server and controllers, no pods`,
		Args: cobra.NoArgs,
		RunE: withConfig(func(cmd *cobra.Command, c config.Config, _ []string) error {
			if useCurrentCluster(os.Getenv) {
				return sayCurrent(cmd)
			}
			o.NodesGiven = cmd.Flags().Changed("nodes")
			return lifecycle.Up(cmd.Context(), c, o, cmd.OutOrStdout())
		}),
	}
	f := cmd.Flags()
	f.IntVar(&o.Nodes, "nodes", 1, fmt.Sprintf("how many nodes, up to %d", config.MaxNodes))
	f.BoolVar(&o.ControlPlaneOnly, "control-plane-only", false, "no kubelet, no pods")
	f.BoolVar(&o.DNS, "dns", true, "cluster DNS; a running cluster gets it when it is asked for")
	f.DurationVar(&o.Timeout, "timeout", 2*time.Minute, "how long starting may take (building has no limit)")
	return cmd
}

// ofCluster returns a command without arguments. With CLUSTER=current it only says so.
func ofCluster(use, short string, do func(context.Context, config.Config, io.Writer) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: cobra.NoArgs,
		RunE: withConfig(func(cmd *cobra.Command, c config.Config, _ []string) error {
			if useCurrentCluster(os.Getenv) {
				return sayCurrent(cmd)
			}
			return do(cmd.Context(), c, cmd.OutOrStdout())
		}),
	}
}
