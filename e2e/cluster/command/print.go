package command

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/platform-operator/platform-operator/e2e/cluster/build"
	"github.com/platform-operator/platform-operator/e2e/cluster/config"
	"github.com/platform-operator/platform-operator/e2e/cluster/progress"
	"github.com/platform-operator/platform-operator/e2e/cluster/safefile"
	"github.com/platform-operator/platform-operator/e2e/cluster/state"
)

func auditCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "audit",
		Short: "Print the path of the API server's audit log (JSON lines)",
		Long: `Print the path of the API server's audit log, one JSON object per line: who
did what to which object. Writes by service accounts of the namespace
platform-operator-system include what they sent, except for secrets. Left out
are leases, events, health checks, and watches by anyone but the operator.`,
		Args: cobra.NoArgs,
		RunE: ownClusterOnly(func(cmd *cobra.Command, c config.Config, _ []string) error {
			s, err := state.Read(c)
			if err != nil {
				return err
			}
			if s.ControlPlaneOnly {
				return errors.New("a cluster without pods writes no audit log")
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), c.AuditLog())
			return err
		}),
	}
}

func assetsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "assets",
		Short: "Print a folder with etcd, kube-apiserver and kubectl for envtest",
		Long: `Build what envtest needs, if the cache does not have it, and print the folder:
etcd, kube-apiserver, kube-controller-manager and kubectl. Needs only Go.`,
		Example: `  KUBEBUILDER_ASSETS=$(cluster assets) go test ./...`,
		Args:    cobra.NoArgs,
		RunE: withConfig(func(cmd *cobra.Command, c config.Config, _ []string) error {
			if err := buildTools(cmd, c, build.ArtifactHyperkube, build.ArtifactKubectl); err != nil {
				return err
			}
			dir, err := build.Builder{CacheDir: c.CacheDir}.Assets()
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), dir)
			return err
		}),
	}
}

func toolCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "tool NAME",
		Short:   "Print the path of a tool, building it first if need be: helm",
		Example: `  $(cluster tool helm) version`,
		Args:    cobra.ExactArgs(1),
		RunE: withConfig(func(cmd *cobra.Command, c config.Config, args []string) error {
			a, err := build.FindTool(args[0])
			if err != nil {
				return err
			}
			if err := buildTools(cmd, c, a.Name); err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), a.Program(c.CacheDir, 0))
			return err
		}),
	}
}

// buildTools builds artifacts with progress on standard error: standard
// output is for the path.
func buildTools(cmd *cobra.Command, c config.Config, names ...string) error {
	syscall.Umask(safefile.DefaultUmask)
	if err := os.MkdirAll(c.CacheDir, 0o755); err != nil {
		return fmt.Errorf("creating the cache folder: %w", err)
	}
	unlock, err := safefile.Lock(c.CacheDir+".lock", cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer unlock()
	p := &progress.Reporter{Out: cmd.ErrOrStderr(), Total: len(names)}
	for _, name := range names {
		a, ok := build.Find(name)
		if !ok {
			return fmt.Errorf("nothing called %q can be built", name)
		}
		err := p.Run(a.Name+" "+a.Version, a.Takes, func() (string, error) { return build.Builder{CacheDir: c.CacheDir}.Ensure(cmd.Context(), a) })
		if err != nil {
			return err
		}
	}
	return nil
}
