package main

import (
	"github.com/spf13/cobra"

	"github.com/platform-operator/platform-operator/config/crd"
	"github.com/platform-operator/platform-operator/pkg/cli"
	"github.com/platform-operator/platform-operator/pkg/doctor"
)

func doctorCommand(f *cli.ClusterFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check what the operator needs from the cluster, and name the remedies",
		Long: `Check the CRDs, the webhooks, the operator and its certificate, permissions,
admission policies and clock, and whether the cluster has metrics, an ingress
controller and the Gateway API. Each check is one line: ok, note if an optional
feature is not available, FAILED, or UNKNOWN if your account may not read it.

Nothing is changed. The account needs permission to read the objects of the
installation, including the Secret of its certificate, and to create
SubjectAccessReviews.

Exit code:
  0  no check failed
  1  a check failed
  2  a check failed to read the cluster, or the command line is invalid`,
		Args: func(c *cobra.Command, args []string) error { return cli.Unclear(cobra.NoArgs(c, args)) },
		RunE: func(c *cobra.Command, _ []string) error {
			cl, err := connect(f)
			if err != nil {
				return cli.Unclear(err)
			}
			crds, err := crd.All()
			if err != nil {
				return cli.Unclear(err)
			}
			d := doctor.Doctor{Client: cl.client, CRDs: crds, Now: now()}
			checks := d.Run(c.Context())
			if err := checks.Print(c.OutOrStdout()); err != nil {
				return cli.Unclear(err)
			}
			if code := checks.ExitCode(); code != 0 {
				return cli.Exit{Code: code}
			}
			return nil
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return cli.Unclear(err) })
	return cmd
}
