package main

import (
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/platform-operator/platform-operator/controllers"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/render"
)

func renderCommand() *cobra.Command {
	var file, platformFile string
	cmd := &cobra.Command{
		Use:   "render -f FILE",
		Short: "Print the children of an object, without a cluster",
		Long: `Print the children of the objects in a file as YAML. They are computed by the same
functions that the operator uses. Owner references have no UID, because the
object does not exist yet.`,
		Example: `  platform-operator render -f webserver.yaml
  kubectl get webserver shop -o yaml | platform-operator render -f -`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if file == "" {
				return errors.New("flag -f is required: set it to a file with objects, or to - for standard input")
			}
			platform, err := config.Load(platformFile)
			if err != nil {
				return err
			}
			s, err := scheme()
			if err != nil {
				return err
			}
			in, name := c.InOrStdin(), "standard input"
			if file != "-" {
				opened, err := os.Open(file) //nolint:gosec // the user names the file to read
				if err != nil {
					return err
				}
				defer func() { _ = opened.Close() }()
				in, name = io.Reader(opened), file
			}
			return render.Objects(in, name, c.OutOrStdout(), s, controllers.Kinds(platform))
		},
	}
	cmd.Flags().StringVarP(&file, "filename", "f", "", "file with objects; - means standard input")
	cmd.Flags().StringVar(&platformFile, "config", "", "file with the platform configuration; empty means the defaults")
	return cmd
}
