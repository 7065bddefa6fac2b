package command

import (
	"github.com/spf13/cobra"

	"github.com/platform-operator/platform-operator/e2e/cluster/config"
	"github.com/platform-operator/platform-operator/e2e/cluster/lifecycle"
)

func killCommand() *cobra.Command {
	node := config.NodeName(config.ControlNode)
	cmd := &cobra.Command{
		Use:   "kill COMPONENT|nodeN",
		Short: "SIGKILL a component, or cut a node's power",
		Long: `SIGKILL a component, which stays down until "cluster start" (a component that
ends by itself is started again). Containers go on running without kubelet and
containerd. With the name of a node, cut its power: off the network, then
everything on it is killed, containers too; its disk is kept.

Components: etcd, kube-apiserver, kube-controller-manager, kube-scheduler and
registry on node1; containerd, kubelet and kube-proxy on every node.`,
		Example: `  cluster kill kube-apiserver
  cluster kill kubelet --node node2
  cluster kill node2`,
		Args: cobra.ExactArgs(1),
		RunE: ownClusterOnly(func(cmd *cobra.Command, c config.Config, args []string) error {
			return lifecycle.Kill(cmd.Context(), c, args[0], node, cmd.OutOrStdout())
		}),
	}
	cmd.Flags().StringVar(&node, "node", node, "the node the component runs on")
	return cmd
}

func startCommand() *cobra.Command {
	node := config.NodeName(config.ControlNode)
	cmd := &cobra.Command{
		Use:   "start COMPONENT|nodeN",
		Short: "Start what was killed, and wait until it answers",
		Example: `  cluster start kube-apiserver
  cluster start node2`,
		Args: cobra.ExactArgs(1),
		RunE: ownClusterOnly(func(cmd *cobra.Command, c config.Config, args []string) error {
			return lifecycle.Start(cmd.Context(), c, args[0], node, cmd.OutOrStdout())
		}),
	}
	cmd.Flags().StringVar(&node, "node", node, "the node the component runs on")
	return cmd
}

func partitionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "partition nodeN",
		Short: "Take a node off the network; everything on it goes on running",
		Args:  cobra.ExactArgs(1),
		RunE: ownClusterOnly(func(cmd *cobra.Command, c config.Config, args []string) error {
			return lifecycle.SetPartition(cmd.Context(), c, args[0], true, cmd.OutOrStdout())
		}),
	}
}

func healCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "heal nodeN",
		Short: "Put a node back on the network",
		Args:  cobra.ExactArgs(1),
		RunE: ownClusterOnly(func(cmd *cobra.Command, c config.Config, args []string) error {
			return lifecycle.SetPartition(cmd.Context(), c, args[0], false, cmd.OutOrStdout())
		}),
	}
}
