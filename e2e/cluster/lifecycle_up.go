package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// upOptions are the flags of `up`.
type upOptions struct {
	nodes            int
	nodesGiven       bool // on the command line: without, a running cluster is left as it is
	controlPlaneOnly bool
	fastFailover     bool
	audit            bool
	with             []string
	timeout          time.Duration
}

// up brings a cluster up, or what is missing of it.
func up(ctx context.Context, c config, o upOptions, out io.Writer) error {
	if os.Geteuid() != 0 {
		return errors.New("cluster up needs root: it creates network namespaces, mounts and cgroups")
	}
	if o.nodes < 1 || o.nodes > maxNodes {
		return fmt.Errorf("--nodes %d: between 1 and %d", o.nodes, maxNodes)
	}
	if o.controlPlaneOnly && o.nodes > 1 {
		return errors.New("--control-plane-only runs no nodes: leave --nodes out")
	}
	for _, tool := range o.with {
		if _, err := toolArtifact(tool); err != nil {
			return err
		}
	}
	start := time.Now()
	syscall.Umask(defaultUmask)
	unlock, err := lock(c.lockFile(), out)
	if err != nil {
		return err
	}
	defer unlock()

	current, err := readSpec(c)
	running := err == nil
	if err != nil && !errors.Is(err, errNoCluster) {
		return err
	}
	wanted := spec{
		Nodes: o.nodes, ControlPlaneOnly: o.controlPlaneOnly, FastFailover: o.fastFailover, Audit: o.audit,
		Prefix: c.Prefix, StateDir: c.StateDir, CacheDir: c.CacheDir,
	}
	if running {
		if wanted, err = grow(current, wanted, o.nodesGiven); err != nil {
			return err
		}
		if wanted == current && len(o.with) == 0 && allUp(ctx, c, current) {
			fmt.Fprintf(out, "already up: %s, for %s\n", describe(current), since(c))
			return nil
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	u := &upRun{config: c, spec: wanted, options: o, api: newAPIClient(c)}
	if running {
		u.before = current
	}
	u.progress = &progress{out: out}
	if err := u.build(ctx); err != nil {
		return err
	}
	if err := u.start(ctx); err != nil {
		return err
	}
	fmt.Fprintf(out, "up: %s, in %s\n", describe(wanted), elapsed(start))
	fmt.Fprintf(out, "try:  cluster exec -- kubectl get nodes\n")
	return nil
}

// grow is what a running cluster becomes when `up` asks for something else.
// Only adding nodes is possible while it runs.
func grow(current, wanted spec, nodesGiven bool) (spec, error) {
	next := current
	if nodesGiven && wanted.Nodes > current.Nodes {
		next.Nodes = wanted.Nodes
	}
	switch {
	case nodesGiven && wanted.Nodes < current.Nodes:
		return next, fmt.Errorf("%d nodes are running; to have %d, take the cluster down first: cluster down", current.Nodes, wanted.Nodes)
	case wanted.ControlPlaneOnly != current.ControlPlaneOnly:
		return next, errors.New("the running cluster was started the other way round with --control-plane-only; first: cluster down")
	case wanted.FastFailover && !current.FastFailover:
		return next, errors.New("the running cluster was started without --fast-failover; first: cluster down")
	case current.CacheDir != wanted.CacheDir:
		return next, errors.New("the running cluster has other versions or another cache folder; first: cluster down")
	}
	return next, nil
}

func describe(s spec) string {
	if s.ControlPlaneOnly {
		return "Kubernetes " + kubernetesVersion + ", control plane only"
	}
	nodes := "1 node"
	if s.Nodes > 1 {
		nodes = fmt.Sprintf("%d nodes", s.Nodes)
	}
	if s.FastFailover {
		nodes += ", fast failover"
	}
	return "Kubernetes " + kubernetesVersion + ", " + nodes
}

// since tells how long ago the cluster was created.
func since(c config) string {
	info, err := os.Stat(filepath.Join(c.pkiDir(), "ca.crt"))
	if err != nil {
		return "?"
	}
	return time.Since(info.ModTime()).Round(time.Second).String()
}

// allUp reports whether every component of every node answers.
func allUp(ctx context.Context, c config, s spec) bool {
	for n := 1; n <= s.Nodes; n++ {
		states, err := newNodeClient(c, n).status(ctx)
		if err != nil {
			return false
		}
		for _, st := range states {
			if !st.Healthy {
				return false
			}
		}
		if !s.ControlPlaneOnly && !linkUp(ctx, c, n) {
			return false
		}
	}
	return true
}

// upRun is one run of `up`.
type upRun struct {
	config
	spec     spec
	before   spec // zero when there was no cluster
	options  upOptions
	progress *progress
	api      apiClient
}

// build makes sure that everything the cluster is made of is in the cache.
func (u *upRun) build(ctx context.Context) error {
	needed := networkRequirements()
	names := []string{artifactHyperkube}
	if !u.spec.ControlPlaneOnly {
		needed = nodeRequirements()
		names = append(names, artifactContainerd, artifactRunc, artifactCNI, artifactCoreDNS)
	}
	names = append(names, u.options.with...)
	steps := 1 + len(names) + 2 // packages, builds; network and keys, control plane
	if !u.spec.ControlPlaneOnly {
		steps += 3 // images, nodes, DNS
	}
	u.progress.total = steps

	err := u.progress.run("programs of the machine", "", func() (string, error) { return ensure(ctx, needed) })
	if err != nil {
		return err
	}
	unlock, err := lock(u.CacheDir+".lock", u.progress.out)
	if err != nil {
		return err
	}
	defer unlock()
	b := builder{cacheDir: u.CacheDir}
	for _, name := range names {
		a, ok := findArtifact(name)
		if !ok {
			return fmt.Errorf("nothing called %q can be built", name)
		}
		err := u.progress.run(a.name+" "+a.version, a.takes, func() (string, error) { return b.ensure(ctx, a) })
		if err != nil {
			return err
		}
	}
	if u.spec.ControlPlaneOnly {
		return nil
	}
	return u.progress.run("container images", "20 s", func() (string, error) { return ensureImages(ctx, u.CacheDir) })
}

// start brings the nodes up and waits until the cluster can be used.
func (u *upRun) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, u.options.timeout)
	defer cancel()
	if err := u.progress.run("network and keys", "", func() (string, error) { return "", u.prepare(ctx) }); err != nil {
		return err
	}
	err := u.progress.run("control plane answers", "", func() (string, error) { return "", u.startNodes(ctx) })
	if err != nil {
		return err
	}
	if u.spec.ControlPlaneOnly {
		return nil
	}
	ready := fmt.Sprintf("nodes ready (%d)", u.spec.Nodes)
	if err := u.progress.run(ready, "", func() (string, error) { return "", u.waitNodes(ctx) }); err != nil {
		return err
	}
	return u.progress.run("cluster DNS answers", "", func() (string, error) { return "", u.waitDNS(ctx) })
}

// prepare creates what exists before any process: the state folder, keys,
// network.
func (u *upRun) prepare(ctx context.Context) error {
	if u.before == (spec{}) {
		// What an earlier cluster left is of no use to this one.
		if err := removeState(u.config, false); err != nil {
			return err
		}
	}
	if err := makeDirs(u.StateDir, filepath.Dir(u.auditLog()), u.registryStore()); err != nil {
		return err
	}
	if err := writeSpec(u.config, u.spec); err != nil {
		return err
	}
	if err := ensurePKI(u.pkiDir(), u.spec.Nodes); err != nil {
		return err
	}
	admin, err := os.ReadFile(filepath.Join(u.pkiDir(), "admin.kubeconfig"))
	if err != nil {
		return fmt.Errorf("reading admin's kubeconfig: %w", err)
	}
	if err := writeFileAtomic(u.kubeconfig(), admin, 0o600); err != nil {
		return err
	}
	if u.before == (spec{}) {
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("finding this program: %w", err)
		}
		if err := copyFile(self, u.ownBinary(), 0o700); err != nil {
			return err
		}
		if !u.spec.ControlPlaneOnly {
			if err := seedStore(imageStore(u.CacheDir), u.registryStore()); err != nil {
				return err
			}
		}
	}
	return ensureNetwork(ctx, u.config, u.spec.Nodes)
}

// startNodes switches on the nodes that are off and starts components that
// were killed.
func (u *upRun) startNodes(ctx context.Context) error {
	for n := 1; n <= u.spec.Nodes; n++ {
		states, err := newNodeClient(u.config, n).status(ctx)
		if err != nil {
			if err := powerOn(ctx, u.spec, n); err != nil {
				return err
			}
			continue
		}
		if err := setLink(ctx, u.config, n, true); err != nil {
			return err
		}
		if err := u.refresh(ctx, n, states); err != nil {
			return err
		}
	}
	err := waitFor(ctx, 100*time.Millisecond, func() bool {
		return u.api.ready(ctx) == nil && u.allHealthy(ctx, controlPlaneNames()) &&
			// Pods of the default namespace are refused until it exists.
			u.api.exists(ctx, "/api/v1/namespaces/default/serviceaccounts/default")
	})
	if err != nil {
		return u.explain(err)
	}
	return nil
}

// refresh brings a running node in line: killed components come back, and when
// the number of nodes changed, kubelet learns its new share of the machine.
func (u *upRun) refresh(ctx context.Context, node int, states []processState) error {
	client := newNodeClient(u.config, node)
	resized := u.before.Nodes != u.spec.Nodes
	if resized {
		m, err := thisMachine()
		if err != nil {
			return err
		}
		if err := writeNodeConfig(u.spec, node, m); err != nil {
			return err
		}
	}
	for _, name := range componentNames() {
		for _, st := range states {
			if st.Name != name {
				continue
			}
			if resized && name == kubeletName {
				if err := client.post(ctx, pathKill, "component", name); err != nil {
					return err
				}
				st.Wanted = false
			}
			if !st.Wanted {
				if err := client.post(ctx, pathStart, "component", name); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (u *upRun) waitNodes(ctx context.Context) error {
	err := waitFor(ctx, 100*time.Millisecond, func() bool {
		ready, err := u.api.nodesReady(ctx)
		return err == nil && ready >= u.spec.Nodes && u.allHealthy(ctx, componentNames())
	})
	if err != nil {
		return u.explain(err)
	}
	return nil
}

func (u *upRun) waitDNS(ctx context.Context) error {
	if err := u.api.applyCoreDNS(ctx); err != nil {
		return err
	}
	if err := waitFor(ctx, 100*time.Millisecond, func() bool { return u.api.coreDNSAvailable(ctx) }); err != nil {
		return fmt.Errorf("%w; warnings in kube-system:\n%s", u.explain(err), u.api.podTrouble(context.WithoutCancel(ctx), "kube-system"))
	}
	for n := 1; n <= u.spec.Nodes; n++ {
		client := newNodeClient(u.config, n)
		err := waitFor(ctx, 100*time.Millisecond, func() bool {
			// Questions asked before kube-proxy wrote its rules get no answer.
			ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
			defer cancel()
			return client.do(ctx, "GET", pathDNS, "", nil, nil) == nil
		})
		if err != nil {
			return fmt.Errorf("from %s: %w", nodeName(n), u.explain(err))
		}
	}
	return nil
}

// allHealthy reports whether the named components answer on all nodes.
func (u *upRun) allHealthy(ctx context.Context, names []string) bool {
	for n := 1; n <= u.spec.Nodes; n++ {
		if _, broken := u.firstBroken(ctx, n, names); broken {
			return false
		}
	}
	return true
}

// firstBroken finds the component the others are most likely waiting for.
func (u *upRun) firstBroken(ctx context.Context, node int, names []string) (string, bool) {
	states, err := newNodeClient(u.config, node).status(ctx)
	if err != nil {
		return nodeInitCommand, true
	}
	for _, name := range names {
		for _, st := range states {
			if st.Name == name && !st.Healthy {
				return name, true
			}
		}
	}
	return "", false
}

// explain turns a missed deadline into the component at fault and its words.
func (u *upRun) explain(cause error) error {
	if errors.Is(cause, context.DeadlineExceeded) {
		cause = fmt.Errorf("not ready within %s", u.options.timeout)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for n := 1; n <= u.spec.Nodes; n++ {
		if name, broken := u.firstBroken(ctx, n, componentNames()); broken {
			return fmt.Errorf("%w: %s on %s does not work; the end of its log:\n%s",
				cause, name, nodeName(n), tail(u.logFile(n, name), 15))
		}
	}
	return fmt.Errorf("%w: all components answer; the end of kubelet's log:\n%s",
		cause, tail(u.logFile(u.spec.Nodes, kubeletName), 15))
}
