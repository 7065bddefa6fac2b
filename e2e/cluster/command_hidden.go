package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
)

func nodeInitSubcommand() *cobra.Command {
	return &cobra.Command{
		Use:    nodeInitCommand + " STATE nodeN",
		Hidden: true,
		Args:   cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, ok := parseNode(args[1])
			if !ok {
				return fmt.Errorf("%q is not a node", args[1])
			}
			return nodeInit(cmd.Context(), args[0], n)
		},
	}
}

// probeSubcommand is how the machine asks something inside the cluster's
// network: it is run in there by nsenter.
func probeSubcommand() *cobra.Command {
	var host string
	cmd := &cobra.Command{
		Use:    probeCommand + " URL",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), probeTimeout)
			defer cancel()
			return hostProbe(args[0], host).ask(ctx)
		},
	}
	cmd.Flags().StringVar(&host, "host", "", "the name to ask for")
	return cmd
}

func serveRegistrySubcommand() *cobra.Command {
	var dir, address, socket string
	cmd := &cobra.Command{
		Use:    "serve-registry",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serveRegistry(cmd.Context(), dir, address, socket)
		},
	}
	cmd.Flags().StringVar(&dir, "store", "", "folder")
	cmd.Flags().StringVar(&address, "listen", "", "address for pulls")
	cmd.Flags().StringVar(&socket, "socket", "", "unix socket for pushes")
	return cmd
}
