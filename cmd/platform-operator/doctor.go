package main

import (
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/config/crd"
	"github.com/platform-operator/platform-operator/pkg/doctor"
)

func doctorCommand() *cobra.Command {
	var f connectionFlags
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
		Args: func(c *cobra.Command, args []string) error { return unclear(cobra.NoArgs(c, args)) },
		RunE: func(c *cobra.Command, _ []string) error {
			cl, err := connect(clusterFlags{connectionFlags: f})
			if err != nil {
				return unclear(err)
			}
			crds, err := crd.All()
			if err != nil {
				return unclear(err)
			}
			all, err := client.New(cl.config, client.Options{Scheme: cl.Scheme})
			if err != nil {
				return unclear(reach(cl.config, err))
			}
			d := doctor.Doctor{Client: all, CRDs: crds, Now: now()}
			checks := d.Run(c.Context())
			if err := checks.Print(c.OutOrStdout()); err != nil {
				return unclear(err)
			}
			if code := checks.ExitCode(); code != 0 {
				return exit{code: code}
			}
			return nil
		},
	}
	f.register(cmd)
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return unclear(err) })
	return cmd
}
