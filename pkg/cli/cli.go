// Package cli contains what the command lines of the operator and of the plugin share: the
// flags that select a cluster, exit codes, and outputs that are safe to print.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/platform-operator/platform-operator/pkg/inspect"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/version"
)

// Main executes a command line, and exits with its exit code.
func Main(ctx context.Context, cmd *cobra.Command) {
	cmd.SetOut(Escaped{os.Stdout})
	cmd.SetErr(Escaped{os.Stderr})
	err := cmd.ExecuteContext(ctx)
	if err != nil && err.Error() != "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %v\n", cmd.DisplayName(), err)
	}
	os.Exit(ExitCode(err))
}

// Complete adds to the command of a program what all programs have. It sets no template of
// cobra: the linker keeps all exported methods of a program that executes templates, which
// makes it larger by a third.
func Complete(cmd *cobra.Command) *cobra.Command {
	cmd.SilenceUsage, cmd.SilenceErrors, cmd.Version = true, true, version.Version
	cmd.AddCommand(&cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		Run: func(c *cobra.Command, _ []string) { fmt.Fprintln(c.OutOrStdout(), version.Describe()) },
	})
	return cmd
}

// ClusterFlags select a cluster, an account and a namespace. They are those of kubectl.
type ClusterFlags struct {
	kubeconfig string
	overrides  clientcmd.ConfigOverrides
}

// Register adds the flags, with or without that of the namespace. The help shows those that
// are often used.
func (f *ClusterFlags) Register(fs *pflag.FlagSet, namespace bool) {
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	names := clientcmd.RecommendedConfigOverrideFlags("")
	if !namespace {
		names.ContextOverrideFlags.Namespace = clientcmd.FlagInfo{}
	}
	clientcmd.BindOverrideFlags(&f.overrides, own, names)
	own.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig file (default: $KUBECONFIG, or ~/.kube/config)")
	usage := map[string]string{
		"kubeconfig": own.Lookup("kubeconfig").Usage, "context": "context of the kubeconfig (default: the current one)",
		"namespace": "namespace (default: that of the context)", "as": "user to impersonate",
	}
	own.VisitAll(func(flag *pflag.Flag) {
		flag.Usage, flag.Hidden = usage[flag.Name], usage[flag.Name] == ""
	})
	fs.AddFlagSet(own)
}

// ErrNoCluster is the error of Load if no cluster is configured.
var ErrNoCluster = errors.New("no cluster is configured: select a file with --kubeconfig or KUBECONFIG")

// Load returns the configuration and the namespace that the flags select or, in a pod without
// a kubeconfig, that of its service account.
func (f *ClusterFlags) Load() (*rest.Config, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &f.overrides)
	cfg, err := loader.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, "", fmt.Errorf("loading the kubeconfig: %w", ErrNoCluster)
	}
	if err != nil {
		return nil, "", fmt.Errorf("loading the kubeconfig: %s: check --context, --kubeconfig and KUBECONFIG", strings.TrimSpace(strings.SplitN(err.Error(), "\n", 2)[0]))
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, "", fmt.Errorf("loading the kubeconfig: %w", err)
	}
	cfg.QPS = -1 // the API server limits the rate
	cfg.UserAgent = naming.ManagedBy + "-cli"
	return cfg, namespace, nil
}

// Reach adds the remedy to an error of a cluster that does not answer.
func Reach(cfg *rest.Config, err error) error {
	if err == nil || cfg == nil {
		return err
	}
	text := err.Error()
	silent := func(s string) bool { return strings.Contains(text, s) }
	if slices.ContainsFunc([]string{"connection refused", "no such host", "i/o timeout", "TLS handshake timeout"}, silent) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("connecting to %s: the API server does not answer: check the kubeconfig, or select another context with --context", cfg.Host)
	}
	return err
}

// Exit is an error with an exit code. If it wraps no error, nothing is printed.
type Exit struct {
	Code int
	Err  error
}

// Error returns the text of the wrapped error, or "" if there is none.
func (e Exit) Error() string {
	if e.Err == nil {
		return ""
	}
	return e.Err.Error()
}

// Unwrap returns the wrapped error.
func (e Exit) Unwrap() error { return e.Err }

// ExitCode returns the exit code of the program.
func ExitCode(err error) int {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[Exit](err); ok {
		return e.Code
	}
	return 1
}

// Unclear returns an error with the exit code for an unknown result.
func Unclear(err error) error {
	if err == nil {
		return nil
	}
	return Exit{Code: 2, Err: err}
}

// Escaped is an output in which texts of tenants cannot change what the terminal shows,
// except for the colours of a Printer.
type Escaped struct{ File *os.File }

// Write writes the text without control characters.
func (e Escaped) Write(p []byte) (int, error) {
	if _, err := e.File.WriteString(inspect.Escape(string(p))); err != nil {
		return 0, err //nolint:wrapcheck // of the file
	}
	return len(p), nil
}

// Terminal returns the terminal that an output writes to, or nil.
func Terminal(w io.Writer) *os.File {
	e, ok := w.(Escaped)
	if !ok {
		return nil
	}
	info, err := e.File.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 || e.File.Name() == os.DevNull {
		return nil
	}
	return e.File
}
