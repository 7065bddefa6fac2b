package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/platform-operator/platform-operator/controllers"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/preflight"
	"github.com/platform-operator/platform-operator/pkg/version"
)

// exit is an error that says with which code to end. Without an error in it
// all is said already.
type exit struct {
	code int
	err  error
}

// Error returns the error's text, "" where there is none.
func (e exit) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

// Unwrap returns the error.
func (e exit) Unwrap() error { return e.err }

// exitCode is how the program ends with an error.
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
	var platformFile, output string
	var namespaces []string
	cmd := &cobra.Command{
		Use:   "preflight",
		Short: "Say what an upgrade to this version would change, and write nothing",
		Long: `Look at all objects of all kinds as this version of the operator would, and
print what it would do: which children it would write and which fields are the
reason, how many pods would restart, and what is pending, which means that it
comes with the next change of an object's spec and not before.

An upgrade is meant to restart no pod: run this, with the new version, before
it. Nothing is written, and no lease is taken; the version that runs in the
cluster goes on undisturbed. The objects, and the children with the label
app.kubernetes.io/managed-by=platform-operator, have to be listed with the
rights of the current kubeconfig.

Exit code:
  0  no pod would restart
  1  pods would restart
  2  something could not be read, or the command line is wrong`,
		Example: `  # with the new version, before the upgrade
  platform-operator preflight

  # with the preferences that the new version will be installed with
  platform-operator preflight --config platform.yaml

  # which objects have pods that would restart?
  platform-operator preflight -o json | jq -r '.objects[] | select(.podsThatWouldRestart > 0) | "\(.namespace)/\(.name)"'`,
		Args: func(c *cobra.Command, args []string) error { return unclear(cobra.NoArgs(c, args)) },
		RunE: func(c *cobra.Command, _ []string) error {
			if output != "table" && output != "json" {
				return unclear(fmt.Errorf("-o %q must be table or json", output))
			}
			platform, err := config.Load(platformFile)
			if err != nil {
				return unclear(err)
			}
			s, err := scheme()
			if err != nil {
				return unclear(err)
			}
			cfg, err := ctrl.GetConfig()
			if err != nil {
				return unclear(fmt.Errorf("finding the cluster: %w", err))
			}
			if !c.Flags().Changed("namespaces") {
				namespaces = platform.WatchNamespaces
			}
			report, err := preflight.Run(c.Context(), cfg, s, controllers.Preflights(platform), preflight.Options{
				Namespaces: namespaces, Version: version.Version,
			})
			if err != nil {
				return unclear(err)
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
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return unclear(err) })
	cmd.Flags().StringVar(&platformFile, "config", "", "file with the platform configuration; empty takes the defaults")
	cmd.Flags().StringSliceVarP(&namespaces, "namespaces", "n", nil, "namespaces to look at, separated by commas (default: those of the platform configuration, or else all)")
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table or json")
	return cmd
}

// unclear is an error after which nobody knows what would restart.
func unclear(err error) error {
	if err == nil {
		return nil
	}
	return exit{code: 2, err: err}
}
