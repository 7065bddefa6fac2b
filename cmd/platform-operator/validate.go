package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/platform-operator/platform-operator/pkg/cli"
	"github.com/platform-operator/platform-operator/webhooks"
)

func validateCommand() *cobra.Command {
	var files []string
	var platformFile string
	cmd := &cobra.Command{
		Use:   "validate -f FILE",
		Short: "Validate manifests as admission does, without a cluster",
		Long: `Validate the objects in files as the API server and the operator's webhooks do when
they are created: unknown fields, the schema of the CRD with its CEL rules, the rules
of the kind, and those of the platform configuration, whose defaults are added first.
Print a line for each problem.

Rules that depend on the state of a cluster are not evaluated: quotas, policies of
other components, and immutable fields of an object that exists already. Objects of
kinds that the operator does not have are skipped.

Exit code:
  0  all objects are valid, perhaps with warnings
  1  an object is invalid
  2  a file could not be read or contains no object, or the command line is invalid`,
		Example: `  # a file, or standard input
  platform-operator validate -f webserver.yaml
  kubectl kustomize overlays/production | platform-operator validate -f -

  # with the rules of a cluster: its platform configuration
  platform-operator validate -f webserver.yaml --config platform.yaml`,
		Args: func(c *cobra.Command, args []string) error { return cli.Unclear(cobra.NoArgs(c, args)) },
		RunE: func(c *cobra.Command, _ []string) error {
			if len(files) == 0 {
				return cli.Unclear(errors.New("flag -f is required: set it to a file with objects, or to - for standard input"))
			}
			platform, err := loadPlatform(platformFile)
			if err != nil {
				return cli.Unclear(err)
			}
			offline := webhooks.NewOffline(platform)
			invalid := false
			for _, file := range files {
				tally, err := validateFile(c, offline, file)
				if err != nil {
					return cli.Unclear(err)
				}
				invalid = invalid || tally.Invalid > 0
			}
			if invalid {
				return cli.Exit{Code: 1}
			}
			return nil
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return cli.Unclear(err) })
	cmd.Flags().StringSliceVarP(&files, "filename", "f", nil, "file with objects; - means standard input; can be repeated")
	cmd.Flags().StringVar(&platformFile, "config", "", "file with the platform configuration; empty means the defaults")
	return cmd
}

func validateFile(c *cobra.Command, offline *webhooks.Offline, file string) (webhooks.Tally, error) {
	in, name := c.InOrStdin(), "standard input"
	if file != "-" {
		opened, err := os.Open(file) //nolint:gosec // the user names the file to read
		if err != nil {
			return webhooks.Tally{}, fmt.Errorf("reading the file: %w", err)
		}
		defer func() { _ = opened.Close() }()
		in, name = io.Reader(opened), file
	}
	tally, err := offline.Documents(c.Context(), in, name, c.OutOrStdout())
	if err == nil && tally == (webhooks.Tally{}) {
		err = fmt.Errorf("%s contains no object to validate", name)
	}
	return tally, err
}
