// Package nodeinit is the first process of a node, and everything that happens
// inside the node's namespaces: it mounts the node's own folders, starts its
// components and serves the requests of package control.
package nodeinit

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/platform-operator/platform-operator/e2e/cluster/cgroup"
	"github.com/platform-operator/platform-operator/e2e/cluster/component"
	"github.com/platform-operator/platform-operator/e2e/cluster/config"
	"github.com/platform-operator/platform-operator/e2e/cluster/control"
	"github.com/platform-operator/platform-operator/e2e/cluster/safefile"
	"github.com/platform-operator/platform-operator/e2e/cluster/state"
	"github.com/platform-operator/platform-operator/e2e/cluster/supervisor"
)

// Command is the hidden subcommand that a node is started with.
const Command = "node-init"

// Run is the life of a node's first process: it makes the node's view of
// the machine, keeps its components running, and answers on a socket. It never
// ends by itself; when it is killed, the kernel ends every process of the node
// and takes its mounts down.
func Run(ctx context.Context, stateDir string, node int) error {
	if os.Getpid() != 1 {
		return errors.New("node-init is started by `cluster up`, as the first process of a node")
	}
	s, err := state.Read(config.Config{StateDir: stateDir, Prefix: os.Getenv("CLUSTER_PREFIX")})
	if err != nil {
		return err
	}
	c := s.Config()
	syscall.Umask(safefile.DefaultUmask)
	if err := syscall.Sethostname([]byte(config.NodeName(node))); err != nil {
		return fmt.Errorf("setting the node's name: %w", err)
	}
	// The socket is created first, while its folder is certainly the real one.
	if err := os.Remove(c.ControlSocket(node)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("removing the old control socket: %w", err)
	}
	listener, err := net.Listen("unix", c.ControlSocket(node))
	if err != nil {
		return fmt.Errorf("listening for commands: %w", err)
	}
	if err := setUpMounts(s, node); err != nil {
		return err
	}
	// This namespace's own setting; the machine's is another one.
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644); err != nil {
		return fmt.Errorf("switching forwarding on inside %s: %w", config.NodeName(node), err)
	}
	if err := cgroup.Create(c.NodeCgroup(node)); err != nil {
		return err
	}

	n := &supervisedNode{Config: c, node: node, reaper: supervisor.NewReaper(ctx)}
	for _, comp := range component.ForNode(s, node) {
		n.processes = append(n.processes, supervisor.NewProcess(comp, c.LogFile(node, comp.Name)))
	}
	for _, p := range n.processes {
		go p.KeepRunning(ctx, n.reaper)
	}
	log.Printf("%s is running", config.NodeName(node))
	server := &http.Server{Handler: n.handler(), ReadHeaderTimeout: headerTimeout}
	return server.Serve(listener)
}

// headerTimeout limits how long a client may take to send a request.
const headerTimeout = 10 * time.Second

// supervisedNode is a node seen from its first process.
type supervisedNode struct {
	config.Config
	node      int
	reaper    *supervisor.Reaper
	processes []*supervisor.Process
}

// states asks all components at once how they are.
func (n *supervisedNode) states(ctx context.Context) []control.ProcessState {
	states := make([]control.ProcessState, len(n.processes))
	var wg sync.WaitGroup
	for i, p := range n.processes {
		wg.Go(func() {
			states[i] = p.State()
			states[i].Healthy = states[i].PID != 0 && p.Healthy.OK(ctx)
		})
	}
	wg.Wait()
	return states
}
