// Command platform-operator runs the operator, and shows what it would do.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/yaml"

	"github.com/platform-operator/platform-operator/controllers"
	"github.com/platform-operator/platform-operator/pkg/cli"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/operator"
	"github.com/platform-operator/platform-operator/webhooks"
)

func main() { cli.Main(ctrl.SetupSignalHandler(), root()) }

func root() *cobra.Command {
	run := runCommand()
	cmd := &cobra.Command{
		Use:   "platform-operator",
		Short: "Self-managing workload APIs for platform teams",
		Long: `platform-operator is a Kubernetes operator. Without a subcommand it runs the
operator, in a cluster or against the current kubeconfig. Users inspect and change
their objects with the plugin of kubectl: kubectl platform.`,
		Example: `  # print the children of a WebServer
  platform-operator render -f webserver.yaml

  # report what an upgrade to this version would change
  platform-operator preflight

  # run against the current kubeconfig, without admission webhooks
  platform-operator run --webhooks=false --leader-elect=false`,
		Args: cobra.NoArgs,
		RunE: run.RunE,
	}
	cmd.Flags().AddFlagSet(run.Flags())
	cmd.AddCommand(run, releaseCommand(), validateCommand(), preflightCommand(), renderCommand(), judgeCommand())
	return cli.Complete(cmd)
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

// parsePlatform is loadPlatform for a configuration that has been read.
func parsePlatform(raw []byte, source string) (config.Platform, error) {
	platform, err := config.Parse(raw, source)
	return platform, errors.Join(err, checkKinds(platform, source))
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

// isEmpty reports whether a YAML document has no content, as that of a command that failed.
func isEmpty(raw []byte) bool {
	content, err := yaml.YAMLToJSON(raw)
	return err == nil && string(content) == "null"
}

// load returns the platform configuration and where it is from: the flag, or the operator
// that is installed in the cluster.
func (f *platformFlags) load(ctx context.Context, of *cli.ClusterFlags) (config.Platform, string, error) {
	if f.cmd.Flags().Changed("config") {
		platform, err := f.stated()
		return platform, f.file, err
	}
	cl, err := connect(of)
	if err != nil {
		return config.Platform{}, "", err
	}
	content, source, err := operator.InstalledConfiguration(ctx, cl.client)
	if err != nil {
		return config.Platform{}, "", fmt.Errorf("%w: select the platform configuration with --config (%s means the built-in defaults)", cli.Reach(cl.config, err), os.DevNull)
	}
	platform, err := parsePlatform([]byte(content), source)
	return platform, source, err
}

// stated returns the configuration that the flag names. It is read once: it may be a pipe.
func (f *platformFlags) stated() (config.Platform, error) {
	if f.file == "" || f.file == os.DevNull {
		return loadPlatform(f.file)
	}
	raw, err := os.ReadFile(f.file)
	if err != nil {
		return config.Platform{}, fmt.Errorf("reading the platform configuration: %w", err)
	}
	if isEmpty(raw) {
		return config.Platform{}, fmt.Errorf("platform configuration %s is empty: --config=%s means the built-in defaults", f.file, os.DevNull)
	}
	return parsePlatform(raw, f.file)
}
