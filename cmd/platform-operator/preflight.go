package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/platform-operator/platform-operator/controllers"
	"github.com/platform-operator/platform-operator/pkg/preflight"
	"github.com/platform-operator/platform-operator/pkg/version"
)

// exit is an error with an exit code. If it wraps no error, nothing is printed.
type exit struct {
	code int
	err  error
}

// Error returns the text of the wrapped error, or "" if there is none.
func (e exit) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

// Unwrap returns the wrapped error.
func (e exit) Unwrap() error { return e.err }

// exitCode returns the exit code of the program.
func exitCode(err error) int {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[exit](err); ok {
		return e.code
	}
	return 1
}

func preflightCommand() *cobra.Command {
	var f connectionFlags
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
		Args: func(c *cobra.Command, args []string) error { return unclear(cobra.NoArgs(c, args)) },
		RunE: func(c *cobra.Command, _ []string) error {
			if output != "table" && output != "json" {
				return unclear(fmt.Errorf("-o %q must be table or json", output))
			}
			platform, source, err := configured.load(c.Context(), clusterFlags{connectionFlags: f})
			if err != nil {
				return unclear(err)
			}
			s, err := scheme()
			if err != nil {
				return unclear(err)
			}
			_, cfg, err := f.load()
			if err != nil {
				return unclear(err)
			}
			o := preflight.Options{
				Namespaces: namespaces, MustExist: namespaces, Version: version.Version, Configuration: source, Disabled: controllers.Disabled(platform),
			}
			if len(namespaces) == 0 {
				o.Namespaces = platform.WatchNamespaces
			}
			report, err := preflight.Run(c.Context(), cfg, s, controllers.Kinds(platform), o)
			if err != nil {
				return unclear(reach(cfg, err))
			}
			write := report.Table
			if output == "json" {
				write = report.JSON
			}
			if err := write(c.OutOrStdout()); err != nil {
				return unclear(fmt.Errorf("writing: %w", err))
			}
			if code := report.ExitCode(); code != 0 {
				return exit{code: code}
			}
			return nil
		},
	}
	f.register(cmd)
	configured.register(cmd)
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return unclear(err) })
	cmd.Flags().StringSliceVarP(&namespaces, "namespaces", "n", nil, "namespaces to evaluate, separated by commas (default: those of the platform configuration, or else all)")
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table or json")
	return cmd
}

// unclear returns an error with the exit code for an unknown result.
func unclear(err error) error {
	if err == nil {
		return nil
	}
	return exit{code: 2, err: err}
}
