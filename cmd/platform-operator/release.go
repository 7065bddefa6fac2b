package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/controllers"
	"github.com/platform-operator/platform-operator/pkg/operator"
)

func releaseCommand() *cobra.Command {
	var f connectionFlags
	var m client.ObjectKey
	cmd := &cobra.Command{
		Use:   "release",
		Short: "Stop the operator and remove its finalizers, before it is uninstalled",
		Long: `Scale the operator's Deployment to 0, wait until its pods are deleted, and remove
the operator's finalizer from every object. Objects and children are not changed
otherwise, and can then be deleted without the operator. The chart runs this
command before it is uninstalled.`,
		Example: `  platform-operator release --manager-namespace platform-operator-system --manager-deployment platform-operator`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := scheme()
			if err != nil {
				return err
			}
			_, cfg, err := f.load()
			if err != nil {
				return err
			}
			cl, err := client.New(cfg, client.Options{Scheme: s})
			if err != nil {
				return fmt.Errorf("creating a client: %w", err)
			}
			return reach(cfg, operator.Release(c.Context(), cl, m, controllers.Lists(), c.OutOrStdout()))
		},
	}
	f.register(cmd)
	cmd.Flags().StringVar(&m.Namespace, "manager-namespace", "platform-operator-system", "namespace of the operator's Deployment")
	cmd.Flags().StringVar(&m.Name, "manager-deployment", "platform-operator", "name of the operator's Deployment")
	return cmd
}
