package main

import (
	"errors"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/platform-operator/platform-operator/controllers"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/preflight"
	"github.com/platform-operator/platform-operator/pkg/render"
	"github.com/platform-operator/platform-operator/pkg/version"
)

func renderCommand() *cobra.Command {
	var f clusterFlags
	var file, platformFile string
	var diff bool
	cmd := &cobra.Command{
		Use:   "render -f FILE",
		Short: "Print the children of an object, without a cluster",
		Long: `Print the children of the objects in a file as YAML. They are computed by the same
functions that the operator uses. Owner references have no UID, because the
object does not exist yet.

With --diff, compare the children with those in the cluster instead, and print what
applying the file would change: the children with the fields that differ, and how
many pods would be replaced. It is the evaluation of preflight, for the objects in
the file. Nothing is written.`,
		Example: `  platform-operator render -f webserver.yaml
  kubectl get webserver shop -o yaml | platform-operator render -f -

  # what would applying the file change?
  platform-operator render -f webserver.yaml --diff`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if file == "" {
				return errors.New("flag -f is required: set it to a file with objects, or to - for standard input")
			}
			platform, err := loadPlatform(platformFile)
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
			if diff {
				return renderDiff(c, f, platform, in, name)
			}
			return render.Objects(in, name, c.OutOrStdout(), s, controllers.Kinds(platform))
		},
	}
	f.register(cmd, false)
	cmd.Flags().BoolVar(&diff, "diff", false, "print what applying the file would change in the cluster")
	cmd.Flags().StringVarP(&file, "filename", "f", "", "file with objects; - means standard input")
	cmd.Flags().StringVar(&platformFile, "config", "", "file with the platform configuration; empty means the defaults")
	return cmd
}

// renderDiff prints what applying the objects would change in the cluster.
func renderDiff(c *cobra.Command, f clusterFlags, platform config.Platform, in io.Reader, name string) error {
	cl, err := connect(f)
	if err != nil {
		return err
	}
	kinds := controllers.Kinds(platform)
	objects, err := render.Read(in, name, cl.Scheme, kinds)
	if err != nil {
		return err
	}
	o := preflight.Options{Version: version.Version, Objects: objects}
	for _, obj := range objects {
		if obj.GetNamespace() == "" {
			obj.SetNamespace(cl.namespace)
		}
		if !slices.Contains(o.Namespaces, obj.GetNamespace()) {
			o.Namespaces = append(o.Namespaces, obj.GetNamespace())
		}
	}
	report, err := preflight.Run(c.Context(), cl.config, cl.Scheme, kinds, o)
	if err != nil {
		return reach(cl.config, err)
	}
	return report.Table(c.OutOrStdout())
}
