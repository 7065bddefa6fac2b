package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/controllers"
	"github.com/platform-operator/platform-operator/pkg/cli"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/preflight"
	"github.com/platform-operator/platform-operator/pkg/render"
	"github.com/platform-operator/platform-operator/pkg/version"
	"github.com/platform-operator/platform-operator/webhooks"
)

func renderCommand() *cobra.Command {
	var f cli.ClusterFlags
	var configured platformFlags
	var file string
	var diff bool
	cmd := &cobra.Command{
		Use:   "render -f FILE",
		Short: "Print the children of an object",
		Long: `Print the children of the objects in a file as YAML. They are computed by the same
functions that the operator uses, with the platform configuration of the operator that
is installed in the cluster. With --config, or if no cluster is configured, no cluster is
needed. Defaults of the configuration are added as when the object is created, and what
admission refuses is refused. Owner references have no UID, because the object does not exist yet. Objects of
other kinds are skipped.

With --diff, compare the children with those in the cluster instead, and print what
applying the file would change: the children with the fields that differ, and how
many pods would be replaced. It is the evaluation of preflight, for the objects in
the file. Nothing is written.

Exit code:
  0  success
  1  an error: nothing was computed
  2  with --diff: not everything could be read`,
		Example: `  platform-operator render -f webserver.yaml
  kubectl get webserver shop -o yaml | platform-operator render -f -

  # what would applying the file change?
  platform-operator render -f webserver.yaml --diff`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if file == "" {
				return errors.New("flag -f is required: set it to a file with objects, or to - for standard input")
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
			platform, source, err := configured.load(c.Context(), &f)
			if errors.Is(err, cli.ErrNoCluster) && !diff {
				fmt.Fprintln(c.ErrOrStderr(), "No cluster is configured: the built-in platform configuration is used.")
				platform, err = config.Default(), nil
			}
			if err != nil {
				return err
			}
			s, err := scheme()
			if err != nil {
				return err
			}
			if diff {
				return renderDiff(c, &f, platform, source, in, name)
			}
			offline := webhooks.NewOffline(platform)
			return render.Objects(in, name, c.OutOrStdout(), s, controllers.Kinds(platform), func(raw []byte) ([]byte, error) {
				if err := refused(c.Context(), offline, raw); err != nil {
					return nil, err
				}
				return offline.Default(c.Context(), raw, metav1.NamespaceDefault)
			})
		},
	}
	f.Register(cmd.Flags(), true)
	configured.register(cmd)
	cmd.Flags().BoolVar(&diff, "diff", false, "print what applying the file would change in the cluster")
	cmd.Flags().StringVarP(&file, "filename", "f", "", "file with objects; - means standard input")
	return cmd
}

// refused returns the first reason for which admission would refuse an object.
func refused(ctx context.Context, offline *webhooks.Offline, raw []byte) error {
	findings, err := offline.Validate(ctx, raw)
	if i := slices.IndexFunc(findings, func(f webhooks.Finding) bool { return !f.Warning }); i >= 0 {
		return errors.New(findings[i].String())
	}
	if errors.Is(err, webhooks.ErrSkipped) {
		return nil
	}
	return err
}

// renderDiff prints what applying the objects would change in the cluster.
func renderDiff(c *cobra.Command, f *cli.ClusterFlags, platform config.Platform, source string, in io.Reader, name string) error {
	cl, err := connect(f)
	if err != nil {
		return err
	}
	kinds := controllers.Kinds(platform)
	objects, err := render.Read(in, name, cl.client.Scheme(), kinds, func(raw []byte) ([]byte, error) {
		if exists(c.Context(), cl, raw) {
			return raw, nil
		}
		return webhooks.NewOffline(platform).Default(c.Context(), raw, cl.namespace)
	})
	if err != nil {
		return err
	}
	o := preflight.Options{Version: version.Version, Configuration: source, Objects: objects}
	for _, obj := range objects {
		if obj.GetNamespace() == "" {
			obj.SetNamespace(cl.namespace)
		}
		if !slices.Contains(o.Namespaces, obj.GetNamespace()) {
			o.Namespaces = append(o.Namespaces, obj.GetNamespace())
		}
	}
	report, err := preflight.Run(c.Context(), cl.config, cl.client.Scheme(), kinds, o)
	if err != nil {
		return cli.Reach(cl.config, err)
	}
	if err := report.Table(c.OutOrStdout()); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	if report.Summary.Unread > 0 {
		return cli.Exit{Code: 2}
	}
	return nil
}

// exists reports whether an object is in the cluster. What cannot be read is reported when
// the cluster is compared.
func exists(ctx context.Context, cl cluster, raw []byte) bool {
	var o metav1.PartialObjectMetadata
	if json.Unmarshal(raw, &o) != nil {
		return false
	}
	key := client.ObjectKey{Namespace: cmp.Or(o.Namespace, cl.namespace), Name: o.Name}
	return cl.client.Get(ctx, key, &o) == nil
}
