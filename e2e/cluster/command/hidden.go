package command

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/platform-operator/platform-operator/e2e/cluster/config"
	"github.com/platform-operator/platform-operator/e2e/cluster/nodeinit"
	"github.com/platform-operator/platform-operator/e2e/cluster/registry"
)

func nodeInitSubcommand() *cobra.Command {
	return &cobra.Command{
		Use:    nodeinit.Command + " STATE nodeN",
		Hidden: true,
		Args:   cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, ok := config.ParseNode(args[1])
			if !ok {
				return fmt.Errorf("%q is not a node", args[1])
			}
			return nodeinit.Run(cmd.Context(), args[0], n)
		},
	}
}

func serveRegistrySubcommand() *cobra.Command {
	var dir, address, socket string
	cmd := &cobra.Command{
		Use:    "serve-registry",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return registry.Serve(cmd.Context(), dir, address, socket)
		},
	}
	cmd.Flags().StringVar(&dir, "store", "", "folder")
	cmd.Flags().StringVar(&address, "listen", "", "address for pulls")
	cmd.Flags().StringVar(&socket, "socket", "", "unix socket for pushes")
	return cmd
}
