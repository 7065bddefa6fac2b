// Command platform-operator runs the operator, shows what it would do, and shows
// users the state of their objects. As kubectl-platform it is a plugin of kubectl.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/platform-operator/platform-operator/controllers"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/operator"
	"github.com/platform-operator/platform-operator/pkg/version"
	"github.com/platform-operator/platform-operator/webhooks"
)

func main() {
	cmd := command(os.Args)
	cmd.SetOut(escaped{os.Stdout})
	cmd.SetErr(escaped{os.Stderr})
	if err := cmd.ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		if err.Error() != "" {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: %v\n", cmd.DisplayName(), err)
		}
		os.Exit(exitCode(err))
	}
}

// The names of the program as a plugin of kubectl. kubectl runs the second one to
// complete the arguments of the first one.
const (
	pluginName     = "kubectl-platform"
	completionName = "kubectl_complete-platform"
)

// command returns the command line for the name by which the program is called.
func command(args []string) *cobra.Command {
	switch strings.TrimSuffix(filepath.Base(args[0]), ".exe") {
	case pluginName:
		return plugin()
	case completionName:
		cmd := plugin()
		cmd.SetArgs(append([]string{cobra.ShellCompRequestCmd}, args[1:]...))
		return cmd
	}
	return root()
}

func root() *cobra.Command {
	run := runCommand()
	cmd := &cobra.Command{
		Use:   "platform-operator",
		Short: "Self-managing workload APIs for platform teams",
		Long: `platform-operator is a Kubernetes operator. Without a subcommand it runs the
operator, in a cluster or against the current kubeconfig.

The subcommands for users are also a plugin of kubectl: kubectl platform.`,
		Example: `  # show whether objects are healthy, and if not, why
  platform-operator status

  # print the children of a WebServer
  platform-operator render -f webserver.yaml

  # report what an upgrade to this version would change
  platform-operator preflight

  # run against the current kubeconfig, without admission webhooks
  platform-operator run --webhooks=false --leader-elect=false`,
		Args: cobra.NoArgs,
		RunE: run.RunE,
	}
	cmd.Flags().AddFlagSet(run.Flags())
	cmd.AddCommand(run, releaseCommand())
	return complete(cmd)
}

// plugin returns the command line of kubectl platform: the subcommands for users,
// and not those that run or uninstall the operator.
func plugin() *cobra.Command {
	cmd := complete(&cobra.Command{
		Use:         pluginName,
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl platform"},
		Short:       "Inspect the objects of the platform operator",
		Long: `Show whether the objects of the platform operator are healthy, and if not, why and
what to do. Nothing is changed in the cluster.`,
		Example: `  # all objects in the namespace of the context
  platform-operator status

  # one object, with its children and pods
  platform-operator status webserver/shop

  # print the children of a manifest
  platform-operator render -f webserver.yaml`,
	})
	cmd.CompletionOptions.DisableDefaultCmd = true // kubectl has it
	for _, c := range append(cmd.Commands(), cmd) {
		c.Example = strings.ReplaceAll(c.Example, "platform-operator ", cmd.DisplayName()+" ")
	}
	return cmd
}

// complete adds what both command lines have.
func complete(cmd *cobra.Command) *cobra.Command {
	cmd.SilenceUsage, cmd.SilenceErrors, cmd.Version = true, true, version.Describe()
	cmd.SetVersionTemplate("{{.Version}}\n")
	cmd.AddCommand(statusCommand(), historyCommand(), validateCommand(), preflightCommand(), renderCommand(), doctorCommand(), &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		Run: func(c *cobra.Command, _ []string) { fmt.Fprintln(c.OutOrStdout(), version.Describe()) },
	})
	return cmd
}

func scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	if err := controllers.AddToScheme(s); err != nil {
		return nil, fmt.Errorf("creating the scheme:  %w", err)
	}
	return s, nil
}

// loadPlatform reads the platform configuration, and checks what it says about kinds.
func loadPlatform(path string) (config.Platform, error) {
	platform, err := config.Load(path)
	return platform, errors.Join(err, checkKinds(platform, path))
}

func checkKinds(platform config.Platform, source string) error {
	if err := errors.Join(controllers.CheckNames(platform.Kinds), webhooks.CheckDefaults(platform)); err != nil {
		return fmt.Errorf("platform configuration %s: %w", source, err)
	}
	return nil
}

// platformFlags select the platform configuration of a command that computes what the
// operator would do.
type platformFlags struct {
	file string
	cmd  *cobra.Command
}

func (f *platformFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.file, "config", "", "file with the platform configuration; "+os.DevNull+" means the built-in defaults (default: that of the installed operator)")
	f.cmd = cmd
}

// load returns the platform configuration and where it is from: the flag, or the operator
// that is installed in the cluster.
func (f *platformFlags) load(ctx context.Context, of clusterFlags) (config.Platform, string, error) {
	if f.cmd.Flags().Changed("config") {
		platform, err := loadPlatform(f.file)
		return platform, f.file, err
	}
	cl, err := connect(of)
	if err != nil {
		return config.Platform{}, "", err
	}
	content, source, err := operator.InstalledConfiguration(ctx, cl.Client)
	if err != nil {
		return config.Platform{}, "", fmt.Errorf("%w: select the platform configuration with --config (%s means the built-in defaults)", reach(cl.config, err), os.DevNull)
	}
	platform, err := config.Parse([]byte(content), source)
	return platform, source, errors.Join(err, checkKinds(platform, source))
}
