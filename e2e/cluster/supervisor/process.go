// Package supervisor keeps the components of a node running, like a service
// manager, and collects every process that ends.
package supervisor

import (
	"context"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/platform-operator/platform-operator/e2e/cluster/component"
	"github.com/platform-operator/platform-operator/e2e/cluster/control"
	"github.com/platform-operator/platform-operator/e2e/cluster/probe"
)

// Process keeps one component running.
type Process struct {
	component.Component
	logFile string

	mu       sync.Mutex
	pid      int
	started  time.Time
	restarts int
	doing    string // what it is waiting for, or how it ended
}

// NewProcess returns a component that is not started yet.
func NewProcess(c component.Component, logFile string) *Process {
	return &Process{Component: c, logFile: logFile}
}

// KeepRunning starts the component and starts it again when it ends, like a service
// manager would.
func (p *Process) KeepRunning(ctx context.Context, r *Reaper) {
	for ctx.Err() == nil {
		p.prepare(ctx)
		exited, err := p.launch(r)
		if err != nil {
			p.note(err.Error())
		} else {
			p.ended(<-exited)
		}
		p.mu.Lock()
		p.restarts++
		p.mu.Unlock()
		sleep(ctx, time.Second)
	}
}

// prepare waits for what the component needs.
func (p *Process) prepare(ctx context.Context) {
	free := probe.Probe{What: "its port", Ask: func(context.Context) error {
		for _, address := range p.Ports {
			if !probe.PortFree(address) {
				return fmt.Errorf("%s is in use", address)
			}
		}
		return nil
	}}
	for _, need := range append([]probe.Probe{free}, p.Needs...) {
		for first := true; !need.OK(ctx) && ctx.Err() == nil; first = false {
			if first {
				p.note("waiting for " + need.What)
			}
			sleep(ctx, 50*time.Millisecond)
		}
	}
}

func (p *Process) launch(r *Reaper) (<-chan syscall.WaitStatus, error) {
	log, err := os.OpenFile(p.logFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log file: %w", err)
	}
	defer func() { _ = log.Close() }()
	p.mu.Lock()
	pid, exited, err := r.Start(p.Path, p.Args, log)
	if err == nil {
		p.pid, p.started, p.doing = pid, time.Now(), ""
	}
	p.mu.Unlock()
	return exited, err
}

func (p *Process) ended(status syscall.WaitStatus) {
	how := fmt.Sprintf("exited with status %d", status.ExitStatus())
	if status.Signaled() {
		how = "ended by signal: " + status.Signal().String()
	}
	p.mu.Lock()
	p.pid, p.started, p.doing = 0, time.Now(), how
	p.mu.Unlock()
}

func (p *Process) note(doing string) {
	p.mu.Lock()
	p.doing = doing
	p.mu.Unlock()
}

// State returns the state of the component, except for its health.
func (p *Process) State() control.ProcessState {
	p.mu.Lock()
	defer p.mu.Unlock()
	return control.ProcessState{
		Name: p.Name, PID: p.pid, Since: p.started, Restarts: p.restarts, Doing: p.doing,
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
