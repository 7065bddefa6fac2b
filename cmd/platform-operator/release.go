package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/platform-operator/platform-operator/controllers"
	"github.com/platform-operator/platform-operator/pkg/cli"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/operator"
)

func releaseCommand() *cobra.Command {
	var f cli.ClusterFlags
	var m operator.Manager
	platform := config.Default()
	cmd := &cobra.Command{
		Use:   "release",
		Short: "Stop the operator and remove its finalizers, before it is uninstalled",
		Long: `Scale the operator's Deployment to 0, wait until its pods are deleted, and remove
the operator's finalizer from every object. Objects and children are not changed
otherwise, and can then be deleted without the operator. The chart runs this
command before it is uninstalled.

With --kinds, remove the finalizer only from the objects of these kinds, and do not
stop the operator. Use it after the platform configuration has disabled the kinds:
the operator would add the finalizer again.`,
		Example: `  platform-operator release --manager-namespace platform-operator-system --manager-deployment platform-operator

  # after the namespace of the operator was deleted
  platform-operator release --manager-deployment=

  # after config.kinds has disabled Memcached
  platform-operator release --kinds Memcached`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := controllers.CheckNames(platform.Kinds); err != nil {
				return fmt.Errorf("--kinds: %w", err)
			}
			cl, err := connect(&f)
			if err != nil {
				return err
			}
			if len(platform.Kinds) > 0 {
				m = operator.Manager{} // it does not manage these kinds
			}
			if err := operator.Release(c.Context(), cl.client, m, controllers.Lists(controllers.Kinds(platform)), c.OutOrStdout(), platform.WatchNamespaces...); err != nil {
				return cli.Reach(cl.config, err)
			}
			return nil
		},
	}
	f.Register(cmd.Flags(), false)
	cmd.Flags().StringVar(&m.Namespace, "manager-namespace", "platform-operator-system", "namespace of the operator's Deployment")
	cmd.Flags().StringVar(&m.Name, "manager-deployment", "platform-operator", "name of the operator's Deployment")
	cmd.Flags().StringVar(&m.Hook, "helm-hook", "", "name of the Job in which the hook of the chart runs this; do nothing unless Helm has installed the Deployment and created the Job")
	cmd.Flags().StringSliceVar(&platform.Kinds, "kinds", nil, "only the objects of these disabled kinds, separated by commas")
	cmd.Flags().StringSliceVarP(&platform.WatchNamespaces, "namespaces", "n", nil, "only objects in these namespaces, separated by commas")
	return cmd
}
