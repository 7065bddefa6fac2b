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
		Short: "Print the children that an object would get, without a cluster",
		Long: `Print, as YAML, the children that the objects in a file would get. They come
from the functions that the operator itself uses. Owner references have no UID,
because the object has none yet.`,
		Example: `  platform-operator render -f webserver.yaml
  kubectl get webserver shop -o yaml | platform-operator render -f -`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if file == "" {
				return errors.New("-f is missing: name a file with objects, or - for standard input")
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
			return render.Objects(in, name, c.OutOrStdout(), s, controllers.Renderers(platform))
		},
	}
	cmd.Flags().StringVarP(&file, "filename", "f", "", "file with objects; - reads standard input")
	cmd.Flags().StringVar(&platformFile, "config", "", "file with the platform configuration; empty takes the defaults")
	return cmd
}
