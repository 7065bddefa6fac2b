package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// Nodes seen from the machine: switching them on, cutting their power.

const nodeInitCommand = "node-init"

// nodeInit is the life of a node's first process: it makes the node's view of
// the machine, keeps its components running, and answers on a socket. It never
// ends by itself; when it is killed, the kernel ends every process of the node
// and takes its mounts down.
func nodeInit(ctx context.Context, stateDir string, node int) error {
	if os.Getpid() != 1 {
		return errors.New("node-init is started by `cluster up`, as the first process of a node")
	}
	s, err := readSpec(config{StateDir: stateDir, Prefix: os.Getenv("CLUSTER_PREFIX")})
	if err != nil {
		return err
	}
	c := s.config()
	syscall.Umask(defaultUmask)
	if err := syscall.Sethostname([]byte(nodeName(node))); err != nil {
		return fmt.Errorf("setting the node's name: %w", err)
	}
	// The socket is made first, while its folder is certainly the real one.
	if err := os.Remove(c.controlSocket(node)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("removing the old control socket: %w", err)
	}
	listener, err := net.Listen("unix", c.controlSocket(node))
	if err != nil {
		return fmt.Errorf("listening for commands: %w", err)
	}
	if err := setUpMounts(s, node); err != nil {
		return err
	}
	// This namespace's own setting; the machine's is another one.
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644); err != nil {
		return fmt.Errorf("switching forwarding on inside %s: %w", nodeName(node), err)
	}
	if err := createCgroup(c.nodeCgroup(node)); err != nil {
		return err
	}

	n := &supervisedNode{config: c, node: node, reaper: newReaper(ctx)}
	for _, comp := range nodeComponents(s, node) {
		n.processes = append(n.processes, newProcess(comp, c.logFile(node, comp.Name), n.writeState))
	}
	for _, p := range n.processes {
		go p.keepRunning(ctx, n.reaper)
	}
	handler, err := n.handler()
	if err != nil {
		return err
	}
	log.Printf("%s is running", nodeName(node))
	server := &http.Server{Handler: handler, ReadHeaderTimeout: headerTimeout}
	return server.Serve(listener)
}

// headerTimeout limits how long a client may take to send a request.
const headerTimeout = 10 * time.Second

// supervisedNode is a node seen from its first process.
type supervisedNode struct {
	config
	node      int
	reaper    *reaper
	processes []*process
	writing   sync.Mutex
}

func (n *supervisedNode) find(name string) (*process, error) {
	for _, p := range n.processes {
		if p.Name == name {
			return p, nil
		}
	}
	return nil, fmt.Errorf("%s does not run %q", nodeName(n.node), name)
}

// states asks all components at once how they are.
func (n *supervisedNode) states(ctx context.Context) []processState {
	states := make([]processState, len(n.processes))
	var wg sync.WaitGroup
	for i, p := range n.processes {
		wg.Go(func() {
			states[i] = p.state()
			states[i].Healthy = states[i].PID != 0 && p.Healthy.ok(ctx)
		})
	}
	wg.Wait()
	return states
}

// writeState notes pids and times in the state folder. It is a courtesy: the
// socket is what commands ask.
func (n *supervisedNode) writeState() {
	n.writing.Lock()
	defer n.writing.Unlock()
	states := make([]processState, len(n.processes))
	for i, p := range n.processes {
		states[i] = p.state()
	}
	raw, err := json.MarshalIndent(states, "", "  ")
	if err == nil {
		err = writeFileAtomic(componentsFile(n.config, n.node), append(raw, '\n'), 0o600)
	}
	if err != nil {
		log.Print(err)
	}
}

// componentsFile is where a node notes its processes, for people and scripts.
func componentsFile(c config, node int) string {
	return filepath.Join(c.nodeDir(node), "components.json")
}
