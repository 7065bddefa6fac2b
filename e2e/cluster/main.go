// Command cluster runs a real Kubernetes on one Linux machine, without a
// container engine: control plane, kubelets, containers, network, DNS and
// registry, built from Go modules and Debian packages, in namespaces of their
// own that no packet can leave.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// exitOwn is the exit status of `exec` when it fails itself, as opposed to the
// command it runs; env and timeout use the same.
const exitOwn = 125

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := rootCommand().ExecuteContext(ctx)
	stop()
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "cluster:", err)
	if status, ok := errors.AsType[exitStatus](err); ok {
		os.Exit(status.code)
	}
	os.Exit(1)
}

// exitStatus is an error with an exit status other than 1.
type exitStatus struct {
	error
	code int
}

const longHelp = `cluster runs a real Kubernetes ` + kubernetesVersion + ` on this machine, for tests and for trying things.

No container engine, image registry or network access is needed once things
are built (a first "up" builds for about 8 minutes, a later one takes less
than 10 seconds). Linux, root and Go are; on Debian the rest is installed.

The cluster's network cannot be reached from outside and reaches nothing
outside. Go in with "exec", which runs any command of yours there, with
KUBECONFIG set and kubectl in PATH:

  cluster up
  cluster exec -- kubectl get nodes
  cluster exec -- curl http://10.10.10.1:30080/     a NodePort
  cluster exec -- go test ./...
  cluster down

Images come from the cluster's own registry, whatever registry they name.
There are nginx (1.23.0, 1.23.1, 1.27.3, 1.27.4, latest; crash, which exits
at once; mute, which never answers), memcached (1.6, 1.6.18, 1.4.36-alpine,
latest), nginx/nginx-prometheus-exporter (1.4, 1.4.0, latest) and busybox
(latest). Add yours with "load", and what a cluster often has with "addon".

Environment:
  CLUSTER=current  leave clusters alone: use the kubeconfig's current context
  CLUSTER_NAME     a second cluster beside the first, with its own everything
  CLUSTER_STATE    where the running cluster keeps its files
                   (default /var/lib/platform-operator-cluster)
  XDG_CACHE_HOME   where built programs and images are kept (default ~/.cache)`

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "cluster",
		Short:         "A real Kubernetes on this machine",
		Long:          longHelp,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(
		upCommand(), downCommand(), statusCommand(), execCommand(), loadCommand(), addonCommand(),
		killCommand(), startCommand(), partitionCommand(), healCommand(),
		logsCommand(), kubeconfigCommand(), auditCommand(), assetsCommand(), toolCommand(),
		nodeInitSubcommand(), serveRegistrySubcommand(), probeSubcommand(),
	)
	return root
}

// withConfig wraps what nearly all commands start with.
func withConfig(f func(cmd *cobra.Command, c config, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := loadConfig(os.Getenv)
		if err != nil {
			return err
		}
		return f(cmd, c, args)
	}
}

// ownClusterOnly refuses a command when the user's own cluster is in use.
func ownClusterOnly(f func(cmd *cobra.Command, c config, args []string) error) func(*cobra.Command, []string) error {
	return withConfig(func(cmd *cobra.Command, c config, args []string) error {
		if useCurrentCluster(os.Getenv) {
			return refuseOnCurrent(cmd.Name())
		}
		return f(cmd, c, args)
	})
}

// sayCurrent is all that up, down and status do with the user's own cluster.
func sayCurrent(cmd *cobra.Command) error {
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "using the current kubeconfig context %s\n", currentContext(os.Getenv))
	return err
}

func upCommand() *cobra.Command {
	o := upOptions{}
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a cluster, or what is missing of it",
		Example: `  cluster up                        one node
  cluster up --nodes 2              two; while one runs, adds the second
  cluster up --nodes 2 --fast-failover
                                    a dead node is noticed in 6 s, its pods replaced in 13 s
  cluster up --control-plane-only   API server and controllers, no pods
  cluster up --with helm            also build helm`,
		Args: cobra.NoArgs,
		RunE: withConfig(func(cmd *cobra.Command, c config, _ []string) error {
			if useCurrentCluster(os.Getenv) {
				return sayCurrent(cmd)
			}
			o.nodesGiven = cmd.Flags().Changed("nodes")
			return up(cmd.Context(), c, o, cmd.OutOrStdout())
		}),
	}
	f := cmd.Flags()
	f.IntVar(&o.nodes, "nodes", 1, fmt.Sprintf("how many nodes, up to %d", maxNodes))
	f.BoolVar(&o.controlPlaneOnly, "control-plane-only", false, "no kubelet, no pods")
	f.BoolVar(&o.fastFailover, "fast-failover", false, "notice dead nodes in seconds, not in a minute")
	f.BoolVar(&o.audit, "audit", true, "write an audit log (see: cluster audit)")
	f.StringSliceVar(&o.with, "with", nil, "tools to build as well: helm")
	f.DurationVar(&o.timeout, "timeout", 2*time.Minute, "how long starting may take (building has no limit)")
	return cmd
}

func downCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "Remove the cluster: processes, mounts, network, cgroups, files",
		Args:  cobra.NoArgs,
		RunE: withConfig(func(cmd *cobra.Command, c config, _ []string) error {
			if useCurrentCluster(os.Getenv) {
				return sayCurrent(cmd)
			}
			return down(cmd.Context(), c, cmd.OutOrStdout())
		}),
	}
}

func statusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show what runs; succeeds when everything is up",
		Args:  cobra.NoArgs,
		RunE: withConfig(func(cmd *cobra.Command, c config, _ []string) error {
			if useCurrentCluster(os.Getenv) {
				return sayCurrent(cmd)
			}
			return status(cmd.Context(), c, cmd.OutOrStdout())
		}),
	}
}

func execCommand() *cobra.Command {
	node := nodeName(controlNode)
	cmd := &cobra.Command{
		Use:   "exec [--node nodeN] -- COMMAND [ARGUMENT...]",
		Short: "Run a command inside the cluster's network",
		Long: `Run a command inside the cluster's network, with KUBECONFIG set and kubectl
(and whatever else was built, like helm) in PATH. Everything else is as usual:
files, working directory, standard streams, signals and the exit status.`,
		Example: `  cluster exec -- kubectl get pods -A
  cluster exec -- sh -c 'curl -s http://10.10.10.1:30080/ | head'
  cluster exec --node node2 -- ip route`,
		Args: cobra.MinimumNArgs(1),
		RunE: withConfig(func(_ *cobra.Command, c config, args []string) error {
			if useCurrentCluster(os.Getenv) {
				return exitStatus{execPlain(args), exitOwn}
			}
			n, ok := parseNode(node)
			if !ok {
				return exitStatus{fmt.Errorf("--node %q: must be like node1", node), exitOwn}
			}
			return exitStatus{execInside(c, n, args), exitOwn}
		}),
	}
	cmd.Flags().SetInterspersed(false)
	cmd.Flags().StringVar(&node, "node", node, "whose network to enter")
	return cmd
}

func loadCommand() *cobra.Command {
	o := loadOptions{}
	cmd := &cobra.Command{
		Use:   "load IMAGE (--binary PROGRAM [--entrypoint /NAME] | --tar FILE)",
		Short: "Make an image available to pods; prints its digest",
		Example: `  CGO_ENABLED=0 go build -o bin/manager ./cmd
  cluster load platform-operator:dev --binary bin/manager --entrypoint /manager
  cluster load example.com/team/app:1.0 --tar app.tar     from docker save, podman save, ...`,
		Args: cobra.ExactArgs(1),
		RunE: withConfig(func(cmd *cobra.Command, c config, args []string) error {
			if useCurrentCluster(os.Getenv) {
				return errors.New("with CLUSTER=current, push the image to a registry your cluster pulls from: make image-push")
			}
			digest, err := load(cmd.Context(), c, args[0], o, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), digest)
			return err
		}),
	}
	f := cmd.Flags()
	f.StringVar(&o.binary, "binary", "", "statically linked program that becomes the whole image")
	f.StringVar(&o.entrypoint, "entrypoint", "", "the program's path in the image (default / and its name)")
	f.StringVar(&o.tar, "tar", "", "image archive")
	cmd.MarkFlagsOneRequired("binary", "tar")
	cmd.MarkFlagsMutuallyExclusive("binary", "tar")
	cmd.MarkFlagsMutuallyExclusive("entrypoint", "tar")
	return cmd
}

func addonCommand() *cobra.Command {
	o := addonOptions{}
	var list strings.Builder
	for _, a := range addons() {
		fmt.Fprintf(&list, "  %-25s %s\n", a.name, a.what)
	}
	cmd := &cobra.Command{
		Use:   "addon NAME...",
		Short: "Add to the running cluster what others often have: " + strings.Join(addonNames(), ", "),
		Long: `Add to the running cluster what others often have, and wait until it can be
used. It is built at its first use; "up" and "down" know nothing of it, so a new
cluster is without. Doing it again changes nothing.

` + strings.TrimSuffix(list.String(), "\n"),
		Example: `  cluster addon metrics-server traefik
  cluster exec -- kubectl top pods -A
  cluster exec -- curl -H 'Host: shop.example.com' http://` + nodeIP(controlNode) + `/
  cluster addon --build-only traefik    builds without a cluster, for later`,
		Args:      cobra.MinimumNArgs(1),
		ValidArgs: addonNames(),
		RunE: ownClusterOnly(func(cmd *cobra.Command, c config, args []string) error {
			return addAddons(cmd.Context(), c, args, o, cmd.OutOrStdout())
		}),
	}
	f := cmd.Flags()
	f.BoolVar(&o.buildOnly, "build-only", false, "only fill the cache; needs no cluster, and not root")
	f.DurationVar(&o.timeout, "timeout", 2*time.Minute, "how long each may take to be usable (building has no limit)")
	return cmd
}

func killCommand() *cobra.Command {
	node := nodeName(controlNode)
	cmd := &cobra.Command{
		Use:   "kill COMPONENT|nodeN",
		Short: "SIGKILL a component, or cut a node's power",
		Long: `SIGKILL a component, which stays down until "cluster start" (a component that
ends by itself is started again). Containers go on running without kubelet and
containerd. With the name of a node, cut its power: off the network, then
everything on it is killed, containers too; its disk is kept.

Components: etcd, kube-apiserver, kube-controller-manager, kube-scheduler and
registry on node1; containerd, kubelet and kube-proxy on every node.`,
		Example: `  cluster kill kube-apiserver
  cluster kill kubelet --node node2
  cluster kill node2`,
		Args: cobra.ExactArgs(1),
		RunE: ownClusterOnly(func(cmd *cobra.Command, c config, args []string) error {
			return kill(cmd.Context(), c, args[0], node, cmd.OutOrStdout())
		}),
	}
	cmd.Flags().StringVar(&node, "node", node, "the node the component runs on")
	return cmd
}

func startCommand() *cobra.Command {
	node := nodeName(controlNode)
	cmd := &cobra.Command{
		Use:   "start COMPONENT|nodeN",
		Short: "Start what was killed, and wait until it answers",
		Example: `  cluster start kube-apiserver
  cluster start node2`,
		Args: cobra.ExactArgs(1),
		RunE: ownClusterOnly(func(cmd *cobra.Command, c config, args []string) error {
			return start(cmd.Context(), c, args[0], node, cmd.OutOrStdout())
		}),
	}
	cmd.Flags().StringVar(&node, "node", node, "the node the component runs on")
	return cmd
}

func partitionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "partition nodeN",
		Short: "Take a node off the network; everything on it goes on running",
		Args:  cobra.ExactArgs(1),
		RunE: ownClusterOnly(func(cmd *cobra.Command, c config, args []string) error {
			return setPartition(cmd.Context(), c, args[0], true, cmd.OutOrStdout())
		}),
	}
}

func healCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "heal nodeN",
		Short: "Put a node back on the network",
		Args:  cobra.ExactArgs(1),
		RunE: ownClusterOnly(func(cmd *cobra.Command, c config, args []string) error {
			return setPartition(cmd.Context(), c, args[0], false, cmd.OutOrStdout())
		}),
	}
}

func logsCommand() *cobra.Command {
	node, follow := nodeName(controlNode), false
	cmd := &cobra.Command{
		Use:   "logs COMPONENT",
		Short: "Print a component's log",
		Example: `  cluster logs kube-apiserver
  cluster logs kubelet --node node2 -f
  cluster logs node-init            the node's own first process`,
		Args: cobra.ExactArgs(1),
		RunE: ownClusterOnly(func(cmd *cobra.Command, c config, args []string) error {
			n, ok := parseNode(node)
			if !ok {
				return fmt.Errorf("--node %q: must be like node1", node)
			}
			return printLog(c, n, args[0], follow, cmd.OutOrStdout())
		}),
	}
	cmd.Flags().StringVar(&node, "node", node, "the node the component runs on")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on printing")
	return cmd
}

func kubeconfigCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "kubeconfig",
		Short: "Print the path of admin's kubeconfig (good inside exec)",
		Args:  cobra.NoArgs,
		RunE: ownClusterOnly(func(cmd *cobra.Command, c config, _ []string) error {
			if _, err := readSpec(c); err != nil {
				return err
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), c.kubeconfig())
			return err
		}),
	}
}

func auditCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "audit",
		Short: "Print the path of the API server's audit log (JSON lines)",
		Long: `Print the path of the API server's audit log, one JSON object per line: who
did what to which object. Writes by service accounts of the namespace
platform-operator-system include what they sent, except for secrets. Left out
are leases, events, health checks, and watches by anyone but the operator.`,
		Args: cobra.NoArgs,
		RunE: ownClusterOnly(func(cmd *cobra.Command, c config, _ []string) error {
			s, err := readSpec(c)
			if err != nil {
				return err
			}
			if !s.Audit {
				return errors.New("the cluster was started with --audit=false")
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), c.auditLog())
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
		RunE: withConfig(func(cmd *cobra.Command, c config, _ []string) error {
			if err := buildTool(cmd, c, artifactHyperkube); err != nil {
				return err
			}
			dir, err := builder{c}.assets()
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
		RunE: withConfig(func(cmd *cobra.Command, c config, args []string) error {
			a, err := toolArtifact(args[0])
			if err != nil {
				return err
			}
			if err := buildTool(cmd, c, a.name); err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), a.program(c.CacheDir, 0))
			return err
		}),
	}
}

// buildTool builds one artifact with progress on standard error: standard
// output is for the path.
func buildTool(cmd *cobra.Command, c config, name string) error {
	a, ok := findArtifact(name)
	if !ok {
		return fmt.Errorf("nothing called %q can be built", name)
	}
	syscall.Umask(defaultUmask)
	if err := os.MkdirAll(c.CacheDir, 0o755); err != nil {
		return fmt.Errorf("creating the cache folder: %w", err)
	}
	unlock, err := lock(c.CacheDir+".lock", cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer unlock()
	p := &progress{out: cmd.ErrOrStderr(), total: 1}
	return p.run(a.name+" "+a.version, a.takes, func() (string, error) { return builder{c}.ensure(cmd.Context(), a) })
}

func nodeInitSubcommand() *cobra.Command {
	return &cobra.Command{
		Use:    nodeInitCommand + " STATE nodeN",
		Hidden: true,
		Args:   cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, ok := parseNode(args[1])
			if !ok {
				return fmt.Errorf("%q is not a node", args[1])
			}
			return nodeInit(cmd.Context(), args[0], n)
		},
	}
}

// probeSubcommand is how the machine asks something inside the cluster's
// network: it is run in there by nsenter.
func probeSubcommand() *cobra.Command {
	var host string
	cmd := &cobra.Command{
		Use:    probeCommand + " URL",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), probeTimeout)
			defer cancel()
			return hostProbe(args[0], host).ask(ctx)
		},
	}
	cmd.Flags().StringVar(&host, "host", "", "the name to ask for")
	return cmd
}

func serveRegistrySubcommand() *cobra.Command {
	var dir, address, socket string
	cmd := &cobra.Command{
		Use:    "serve-registry",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return serveRegistry(cmd.Context(), dir, address, socket)
		},
	}
	cmd.Flags().StringVar(&dir, "store", "", "folder")
	cmd.Flags().StringVar(&address, "listen", "", "address for pulls")
	cmd.Flags().StringVar(&socket, "socket", "", "unix socket for pushes")
	return cmd
}
