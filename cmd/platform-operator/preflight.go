package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/platform-operator/platform-operator/controllers"
	"github.com/platform-operator/platform-operator/pkg/cli"
	"github.com/platform-operator/platform-operator/pkg/preflight"
	"github.com/platform-operator/platform-operator/pkg/version"
)

func preflightCommand() *cobra.Command {
	var f cli.ClusterFlags
	var configured platformFlags
	var output string
	var namespaces []string
	cmd := &cobra.Command{
		Use:   "preflight",
		Short: "Report what an upgrade to this version would change, without changing anything",
		Long: `Evaluate all objects of all kinds as this version of the operator would, and print
what it would do: which children it would write and because of which fields, how
many pods would restart, how many node ports and load balancers would be lost, and which changes are pending, which means that they are
applied together with the next change of the object's spec.

An upgrade should not restart any pod or lose an address. To check that, run this command with the
new version before the upgrade. It writes nothing and does not use the Lease, so
it does not affect the running operator. It needs permission to list the objects,
the children with the label app.kubernetes.io/managed-by=platform-operator and, without
--config, the operator's Deployment, and to get its ConfigMap.

Exit code:
  0  no pod would restart, and no address would be lost
  1  pods would restart, or addresses would be lost
  2  objects, a namespace or the platform configuration could not be read or do not
     exist, or the command line is invalid`,
		Example: `  # with the new version, before the upgrade
  platform-operator preflight

  # with the platform configuration of the new version
  platform-operator preflight --config platform.yaml

  # print the objects whose pods would restart
  platform-operator preflight -o json | jq -r '.objects[] | select(.podsThatWouldRestart > 0) | "\(.namespace)/\(.name)"'`,
		Args: func(c *cobra.Command, args []string) error { return cli.Unclear(cobra.NoArgs(c, args)) },
		RunE: func(c *cobra.Command, _ []string) error {
			if output != "table" && output != "json" {
				return cli.Unclear(fmt.Errorf("-o %q must be table or json", output))
			}
			platform, source, err := configured.load(c.Context(), &f)
			if err != nil {
				return cli.Unclear(err)
			}
			cl, err := connect(&f)
			if err != nil {
				return cli.Unclear(err)
			}
			o := preflight.Options{
				Namespaces: namespaces, MustExist: namespaces, Version: version.Version, Configuration: source, Disabled: controllers.Disabled(platform),
			}
			if len(namespaces) == 0 {
				o.Namespaces = platform.WatchNamespaces
			}
			report, err := preflight.Run(c.Context(), cl.config, cl.client.Scheme(), controllers.Kinds(platform), o)
			if err != nil {
				return cli.Unclear(cli.Reach(cl.config, err))
			}
			write := report.Table
			if output == "json" {
				write = report.JSON
			}
			if err := write(c.OutOrStdout()); err != nil {
				return cli.Unclear(fmt.Errorf("writing: %w", err))
			}
			if code := report.ExitCode(); code != 0 {
				return cli.Exit{Code: code}
			}
			return nil
		},
	}
	f.Register(cmd.Flags(), false)
	configured.register(cmd)
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return cli.Unclear(err) })
	cmd.Flags().StringSliceVarP(&namespaces, "namespaces", "n", nil, "namespaces to evaluate, separated by commas (default: those of the platform configuration, or else all)")
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table or json")
	return cmd
}
