package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	xterm "golang.org/x/term"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/platform-operator/platform-operator/config/crd"
	"github.com/platform-operator/platform-operator/controllers"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/inspect"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

// connectionFlags select a cluster, as those of kubectl do.
type connectionFlags struct{ kubeconfig, context string }

func (f *connectionFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig file (default: $KUBECONFIG, or ~/.kube/config)")
	cmd.Flags().StringVar(&f.context, "context", "", "context of the kubeconfig (default: the current one)")
}

var errNoCluster = errors.New("no cluster is configured: select a file with --kubeconfig or KUBECONFIG")

// load returns the configuration that the flags select or, in a pod without a
// kubeconfig, that of its service account.
func (f connectionFlags) load() (clientcmd.ClientConfig, *rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: f.context})
	cfg, err := loader.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, nil, fmt.Errorf("loading the kubeconfig: %w", errNoCluster)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("loading the kubeconfig: %s: check --context, --kubeconfig and KUBECONFIG", strings.TrimSpace(strings.SplitN(err.Error(), "\n", 2)[0]))
	}
	cfg.QPS = -1 // the API server limits the rate
	return loader, cfg, nil
}

// clusterFlags select a cluster and a namespace, as those of kubectl do.
type clusterFlags struct {
	connectionFlags
	namespace     string
	allNamespaces bool
}

func (f *clusterFlags) register(cmd *cobra.Command, all bool) {
	f.connectionFlags.register(cmd)
	fl := cmd.Flags()
	fl.StringVarP(&f.namespace, "namespace", "n", "", "namespace (default: that of the context)")
	if all {
		fl.BoolVarP(&f.allNamespaces, "all-namespaces", "A", false, "the objects of all namespaces")
	}
}

// cluster is a cluster that a command reads.
type cluster struct {
	config    *rest.Config
	namespace string
	inspect.Inspector
}

// connect returns the cluster that the flags select. Tests replace it.
var connect = func(f clusterFlags) (cluster, error) {
	loader, cfg, err := f.load()
	if err != nil {
		return cluster{}, err
	}
	cfg.UserAgent = naming.ManagedBy + "-cli"
	if f.namespace == "" {
		if f.namespace, _, err = loader.Namespace(); err != nil {
			return cluster{}, fmt.Errorf("loading the kubeconfig: %w", err)
		}
	}
	ctrl.SetLogger(logr.Discard())
	s, err := scheme()
	if err != nil {
		return cluster{}, err
	}
	kinds, err := kinds()
	if err != nil {
		return cluster{}, err
	}
	c, err := client.New(cfg, client.Options{Scheme: s})
	if err != nil {
		return cluster{}, fmt.Errorf("connecting to %s: %w", cfg.Host, err)
	}
	return cluster{cfg, f.namespace, inspect.Inspector{Client: c, Scheme: s, Kinds: kinds}}, nil
}

// kinds returns all kinds with the names in their CustomResourceDefinitions.
func kinds() (inspect.Kinds, error) {
	s, err := scheme()
	if err != nil {
		return nil, err
	}
	defs, err := crd.All()
	if err != nil {
		return nil, err
	}
	var all inspect.Kinds
	for _, k := range controllers.Kinds(config.Default()) {
		gvk, err := apiutil.GVKForObject(k.New(), s)
		if err != nil {
			return nil, fmt.Errorf("creating the scheme: %w", err)
		}
		for _, d := range defs {
			if n := d.Spec.Names; d.Spec.Group == gvk.Group && n.Kind == gvk.Kind {
				all = append(all, inspect.Kind{AnyKind: k, Name: gvk.Kind, Group: gvk.Group, Names: slices.Concat([]string{n.Singular, n.Plural}, n.ShortNames)})
			}
		}
	}
	return all, nil
}

// printer returns a printer whose colours fit the output.
func printer(w io.Writer) inspect.Printer {
	p := inspect.Printer{Now: now()}
	if isTerminal(w) {
		p.Color = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
		p.Width, _, _ = xterm.GetSize(int(w.(escaped).file.Fd())) // 0 if it is not known
	}
	return p
}

// now is the time that ages refer to. Tests replace it.
var now = time.Now

// escaped is an output in which texts of tenants cannot change what the terminal shows,
// except for the colours of a Printer.
type escaped struct{ file *os.File }

func (e escaped) Write(p []byte) (int, error) {
	if _, err := e.file.WriteString(inspect.Escape(string(p))); err != nil {
		return 0, err //nolint:wrapcheck // of the file
	}
	return len(p), nil
}

func isTerminal(w io.Writer) bool {
	e, ok := w.(escaped)
	if !ok {
		return false
	}
	info, err := e.file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && e.file.Name() != os.DevNull
}

// checkOutput returns an error unless a value of -o is supported.
func checkOutput(output string) error {
	if output != "" && output != "json" {
		return fmt.Errorf("-o %q must be json, or be omitted", output)
	}
	return nil
}

// reach adds the remedy to an error of a cluster that does not answer.
func reach(cfg *rest.Config, err error) error {
	if err == nil || cfg == nil {
		return err
	}
	if text := err.Error(); strings.Contains(text, "connection refused") || strings.Contains(text, "no such host") || strings.Contains(text, "i/o timeout") || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("connecting to %s: the API server does not answer: check the kubeconfig, or select another context with --context", cfg.Host)
	}
	return err
}
