// Command kubectl-platform is a plugin of kubectl: it shows users the state of their objects,
// and changes them. It contains no code of the operator.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	xterm "golang.org/x/term"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/platform-operator/platform-operator/config/crd"
	"github.com/platform-operator/platform-operator/pkg/cli"
	"github.com/platform-operator/platform-operator/pkg/inspect"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log.SetLogger(logr.Discard())
	cli.Main(ctx, command(os.Args))
}

// completionName is the name under which kubectl runs the program to complete arguments.
const completionName = "kubectl_complete-platform"

// command returns the command line for the name by which the program is called.
func command(args []string) *cobra.Command {
	var f cli.ClusterFlags
	cmd := cli.Complete(&cobra.Command{
		Use:         "kubectl-platform",
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl platform"},
		Short:       "Inspect and change the objects of the platform operator",
		Long: `Show whether the objects of the platform operator are healthy, and if not, why and
what to do, and change them. All flags of kubectl that select a cluster and an account are accepted
(kubectl options).`,
		Example: `  # all objects in the namespace of the context
  kubectl platform status

  # one object, with its children and pods
  kubectl platform status webserver/shop`,
	})
	f.Register(cmd.PersistentFlags(), true)
	cmd.AddCommand(statusCommand(&f), historyCommand(&f), doctorCommand(&f),
		restartCommand(&f), undoCommand(&f), pinCommand(&f), promoteCommand(&f), setImageCommand(&f), logsCommand(&f), eventsCommand(&f))
	cmd.CompletionOptions.DisableDefaultCmd = true // kubectl has it
	if strings.TrimSuffix(filepath.Base(args[0]), ".exe") == completionName {
		cmd.SetArgs(append([]string{cobra.ShellCompRequestCmd}, args[1:]...))
	}
	return cmd
}

// cluster is a cluster that a command uses.
type cluster struct {
	config    *rest.Config
	namespace string
	client    client.Client
	inspect.Inspector
}

// connect returns the cluster that the flags select. Tests replace it.
var connect = func(f *cli.ClusterFlags) (cluster, error) {
	cfg, namespace, err := f.Load()
	if err != nil {
		return cluster{}, err
	}
	kinds, err := kinds()
	if err != nil {
		return cluster{}, err
	}
	cfg.WarningHandler = rest.NewWarningWriter(os.Stderr, rest.WarningWriterOptions{Deduplicate: true})
	c, err := client.New(cfg, client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		return cluster{}, fmt.Errorf("connecting to %s: %w", cfg.Host, err)
	}
	return cluster{cfg, namespace, c, inspect.Inspector{Client: c, Scheme: clientgoscheme.Scheme, Kinds: kinds}}, nil
}

// named returns the cluster that the flags select, and the object that is named by KIND/NAME, or
// by both apart.
func named(f *cli.ClusterFlags, args ...string) (cluster, inspect.Reference, error) {
	cl, err := connect(f)
	if err != nil {
		return cluster{}, inspect.Reference{}, err
	}
	ref, err := cl.Kinds.Parse(args...)
	return cl, ref, err
}

func kinds() (inspect.Kinds, error) {
	defs, err := crd.All()
	return inspect.KindsOf(defs), err
}

// now is the time that ages refer to. Tests replace it.
var now = time.Now

// printer returns a printer whose colours fit the output.
func printer(w io.Writer) inspect.Printer {
	p := inspect.Printer{Now: now()}
	if terminal := cli.Terminal(w); terminal != nil {
		p.Color = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
		p.Width, _, _ = xterm.GetSize(int(terminal.Fd())) // 0 if it is not known
	}
	return p
}

// checkOutput returns an error unless a value of -o is supported.
func checkOutput(output string) error {
	if output != "" && output != "json" {
		return fmt.Errorf("-o %q must be json, or be omitted", output)
	}
	return nil
}
