// Package lifecycle starts, inspects, breaks and removes clusters. It combines
// the packages that each know one part: images, keys, network, nodes.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/platform-operator/platform-operator/e2e/cluster/build"
	"github.com/platform-operator/platform-operator/e2e/cluster/component"
	"github.com/platform-operator/platform-operator/e2e/cluster/config"
	"github.com/platform-operator/platform-operator/e2e/cluster/control"
	"github.com/platform-operator/platform-operator/e2e/cluster/host"
	"github.com/platform-operator/platform-operator/e2e/cluster/images"
	"github.com/platform-operator/platform-operator/e2e/cluster/kube"
	"github.com/platform-operator/platform-operator/e2e/cluster/network"
	"github.com/platform-operator/platform-operator/e2e/cluster/pki"
	"github.com/platform-operator/platform-operator/e2e/cluster/power"
	"github.com/platform-operator/platform-operator/e2e/cluster/probe"
	"github.com/platform-operator/platform-operator/e2e/cluster/progress"
	"github.com/platform-operator/platform-operator/e2e/cluster/registry"
	"github.com/platform-operator/platform-operator/e2e/cluster/safefile"
	"github.com/platform-operator/platform-operator/e2e/cluster/state"
)

// UpOptions are the flags of `up`.
type UpOptions struct {
	Nodes            int
	NodesGiven       bool // on the command line: without, a running cluster is left as it is
	ControlPlaneOnly bool
	DNS              bool
	Timeout          time.Duration
}

// Up brings a cluster up, or what is missing of it.
func Up(ctx context.Context, c config.Config, o UpOptions, out io.Writer) error {
	if os.Geteuid() != 0 {
		return errors.New("cluster up needs root: it creates network namespaces, mounts and cgroups")
	}
	if o.Nodes < 1 || o.Nodes > config.MaxNodes {
		return fmt.Errorf("--nodes %d: between 1 and %d", o.Nodes, config.MaxNodes)
	}
	if o.ControlPlaneOnly && o.Nodes > 1 {
		return errors.New("--control-plane-only runs no nodes: leave --nodes out")
	}
	start := time.Now()
	syscall.Umask(safefile.DefaultUmask)
	unlock, err := safefile.Lock(c.LockFile(), out)
	if err != nil {
		return err
	}
	defer unlock()

	current, err := state.Read(c)
	running := err == nil
	if err != nil && !errors.Is(err, state.ErrNoCluster) {
		return err
	}
	wanted := state.Spec{
		Nodes: o.Nodes, ControlPlaneOnly: o.ControlPlaneOnly, DNS: o.DNS && !o.ControlPlaneOnly,
		Prefix: c.Prefix, StateDir: c.StateDir, CacheDir: c.CacheDir,
	}
	if running {
		if wanted, err = grow(current, wanted, o.NodesGiven); err != nil {
			return err
		}
	}
	u := &upRun{Config: c, spec: wanted, running: running, options: o, progress: &progress.Reporter{Out: out}}
	if wanted == current && u.allHealthy(ctx, component.Names()) {
		fmt.Fprintf(out, "already up: %s\n", describe(current))
		return nil
	}
	if err := u.build(ctx); err != nil {
		return err
	}
	if err := u.start(ctx); err != nil {
		return err
	}
	fmt.Fprintf(out, "up: %s, in %s\n", describe(wanted), progress.Elapsed(start))
	fmt.Fprintf(out, "try:  cluster exec -- kubectl get nodes\n")
	return nil
}

// grow is what a running cluster becomes when `up` asks for something else.
// Only adding nodes and DNS is possible while it runs.
func grow(current, wanted state.Spec, nodesGiven bool) (state.Spec, error) {
	next := current
	next.DNS = current.DNS || wanted.DNS
	if nodesGiven && wanted.Nodes > current.Nodes {
		next.Nodes = wanted.Nodes
	}
	switch {
	case nodesGiven && wanted.Nodes < current.Nodes:
		return next, fmt.Errorf("%d nodes are running; to have %d, take the cluster down first: cluster down", current.Nodes, wanted.Nodes)
	case wanted.ControlPlaneOnly != current.ControlPlaneOnly:
		return next, errors.New("the running cluster was started the other way round with --control-plane-only; first: cluster down")
	case current.CacheDir != wanted.CacheDir:
		return next, errors.New("the running cluster has other versions or another cache folder; first: cluster down")
	}
	return next, nil
}

func describe(s state.Spec) string {
	if s.ControlPlaneOnly {
		return "Kubernetes " + build.Kubernetes() + ", control plane only"
	}
	nodes := "1 node"
	if s.Nodes > 1 {
		nodes = fmt.Sprintf("%d nodes", s.Nodes)
	}
	if !s.DNS {
		nodes += ", without DNS"
	}
	return "Kubernetes " + build.Kubernetes() + ", " + nodes
}

// upRun is one run of `up`.
type upRun struct {
	config.Config
	spec     state.Spec
	running  bool // before
	options  UpOptions
	progress *progress.Reporter
}

// build makes sure that everything the cluster is made of is in the cache.
func (u *upRun) build(ctx context.Context) error {
	needed := host.NetworkRequirements()
	names := []string{build.ArtifactHyperkube, build.ArtifactKubectl}
	if !u.spec.ControlPlaneOnly {
		needed = host.NodeRequirements()
		names = append(names, build.ArtifactContainerd, build.ArtifactRunc, build.ArtifactCNI)
	}
	if u.spec.DNS {
		names = append(names, build.ArtifactCoreDNS)
	}
	steps := 1 + len(names) + 2 // packages, builds; network and keys, control plane
	if !u.spec.ControlPlaneOnly {
		steps += 2 // images, nodes
	}
	if u.spec.DNS {
		steps++
	}
	u.progress.Total = steps

	err := u.progress.Run("programs of the machine", "", func() (string, error) { return host.EnsureInstalled(ctx, needed) })
	if err != nil {
		return err
	}
	unlock, err := safefile.Lock(u.CacheDir+".lock", u.progress.Out)
	if err != nil {
		return err
	}
	defer unlock()
	b := build.Builder{CacheDir: u.CacheDir}
	for _, name := range names {
		a, ok := build.Find(name)
		if !ok {
			return fmt.Errorf("nothing called %q can be built", name)
		}
		err := u.progress.Run(a.Name+" "+a.Version, a.Takes, func() (string, error) { return b.Ensure(ctx, a) })
		if err != nil {
			return err
		}
	}
	if u.spec.ControlPlaneOnly {
		return nil
	}
	return u.progress.Run("container images", "20 s", func() (string, error) { return images.Ensure(ctx, u.CacheDir) })
}

// start brings the nodes up and waits until the cluster can be used.
func (u *upRun) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, u.options.Timeout)
	defer cancel()
	if err := u.progress.Run("network and keys", "", func() (string, error) { return "", u.prepare(ctx) }); err != nil {
		return err
	}
	err := u.progress.Run("control plane answers", "", func() (string, error) { return "", u.startNodes(ctx) })
	if err != nil {
		return err
	}
	if u.spec.ControlPlaneOnly {
		return nil
	}
	ready := fmt.Sprintf("nodes ready (%d)", u.spec.Nodes)
	if err := u.progress.Run(ready, "", func() (string, error) { return "", u.waitNodes(ctx) }); err != nil {
		return err
	}
	if !u.spec.DNS {
		return nil
	}
	return u.progress.Run("cluster DNS answers", "", func() (string, error) { return "", u.startDNS(ctx) })
}

// prepare creates what exists before any process: the state folder, keys,
// network.
func (u *upRun) prepare(ctx context.Context) error {
	if !u.running {
		// What an earlier cluster left is of no use to this one.
		if err := state.Remove(u.Config, false); err != nil {
			return err
		}
	}
	if err := safefile.MakeDirs(u.StateDir, filepath.Dir(u.AuditLog()), u.RegistryStore()); err != nil {
		return err
	}
	if err := state.Write(u.Config, u.spec); err != nil {
		return err
	}
	if err := pki.Ensure(u.PKIDir(), u.spec.Nodes); err != nil {
		return err
	}
	admin, err := os.ReadFile(filepath.Join(u.PKIDir(), "admin.kubeconfig"))
	if err != nil {
		return fmt.Errorf("reading admin's kubeconfig: %w", err)
	}
	if err := safefile.Write(u.Kubeconfig(), admin, 0o600); err != nil {
		return err
	}
	if !u.running {
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("finding this program: %w", err)
		}
		if err := safefile.Copy(self, u.OwnBinary(), 0o700); err != nil {
			return err
		}
		if !u.spec.ControlPlaneOnly {
			if err := registry.Seed(images.Store(u.CacheDir), u.RegistryStore()); err != nil {
				return err
			}
		}
	}
	return network.Ensure(ctx, u.Config, u.spec.Nodes)
}

// startNodes switches on the nodes that are off.
func (u *upRun) startNodes(ctx context.Context) error {
	for n := 1; n <= u.spec.Nodes; n++ {
		if _, err := control.NewClient(u.Config, n).Status(ctx); err != nil {
			if err := power.On(ctx, u.spec, n); err != nil {
				return err
			}
		}
	}
	err := probe.WaitFor(ctx, 100*time.Millisecond, func() bool {
		if !u.allHealthy(ctx, component.ControlPlaneNames()) {
			return false
		}
		// Pods of the default namespace are refused until it exists.
		_, err := kube.Kubectl(ctx, u.Config, nil, "get", "serviceaccount", "default")
		return err == nil
	})
	if err != nil {
		return u.explain(err)
	}
	return nil
}
