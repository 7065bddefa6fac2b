package command

import (
	"github.com/spf13/cobra"

	"github.com/platform-operator/platform-operator/e2e/cluster/config"
	"github.com/platform-operator/platform-operator/e2e/cluster/lifecycle"
)

func killCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "kill nodeN",
		Short: "Cut a node's power",
		Long: `Cut a node's power: off the network, then everything on it is killed, containers
too; its disk is kept.`,
		Example: `  cluster kill node2`,
		Args:    cobra.ExactArgs(1),
		RunE: ownClusterOnly(func(cmd *cobra.Command, c config.Config, args []string) error {
			return lifecycle.Kill(cmd.Context(), c, args[0], cmd.OutOrStdout())
		}),
	}
}

func startCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "start nodeN",
		Short:   "Start a node that was killed, and wait until it answers",
		Example: `  cluster start node2`,
		Args:    cobra.ExactArgs(1),
		RunE: ownClusterOnly(func(cmd *cobra.Command, c config.Config, args []string) error {
			return lifecycle.Start(cmd.Context(), c, args[0], cmd.OutOrStdout())
		}),
	}
}
