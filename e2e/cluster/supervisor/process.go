// Package supervisor keeps the components of a node running, like a service
// manager, and collects every process that ends.
package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/platform-operator/platform-operator/e2e/cluster/component"
	"github.com/platform-operator/platform-operator/e2e/cluster/control"
	"github.com/platform-operator/platform-operator/e2e/cluster/probe"
)

// Process keeps one component running for as long as it is wanted.
type Process struct {
	component.Component
	logFile string

	mu       sync.Mutex
	wanted   bool
	pid      int
	started  time.Time
	restarts int
	doing    string // what it is waiting for, or how it ended
	wake     chan struct{}
}

// NewProcess returns a component that is wanted and not started yet.
func NewProcess(c component.Component, logFile string) *Process {
	return &Process{Component: c, logFile: logFile, wanted: true, wake: make(chan struct{}, 1)}
}

// KeepRunning starts the component and starts it again when it ends on its
// own, like a service manager would. After a kill that was asked for, it waits
// until it is wanted again.
func (p *Process) KeepRunning(ctx context.Context, r *Reaper) {
	for ctx.Err() == nil {
		if !p.isWanted() {
			select {
			case <-ctx.Done():
			case <-p.wake:
			}
			continue
		}
		if !p.prepare(ctx) {
			continue
		}
		exited, err := p.launch(r)
		if err != nil {
			p.note(err.Error())
		} else {
			p.ended(<-exited)
		}
		if p.isWanted() {
			p.mu.Lock()
			p.restarts++
			p.mu.Unlock()
			sleep(ctx, time.Second)
		}
	}
}

// prepare waits for what the component needs. It returns false when the
// component is no longer wanted.
func (p *Process) prepare(ctx context.Context) bool {
	free := probe.Probe{What: "its port", Ask: func(context.Context) error {
		for _, address := range p.Ports {
			if !probe.PortFree(address) {
				return fmt.Errorf("%s is in use", address)
			}
		}
		return nil
	}}
	for _, need := range append([]probe.Probe{free}, p.Needs...) {
		for first := true; !need.OK(ctx); first = false {
			if ctx.Err() != nil || !p.isWanted() {
				return false
			}
			if first {
				p.note("waiting for " + need.What)
			}
			sleep(ctx, 50*time.Millisecond)
		}
	}
	return p.isWanted()
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

func (p *Process) isWanted() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.wanted
}

// Kill ends the component with SIGKILL and keeps it down. It returns when the
// process has ended.
func (p *Process) Kill(ctx context.Context) error {
	p.mu.Lock()
	p.wanted = false
	pid := p.pid
	p.mu.Unlock()
	if pid != 0 {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("killing %s: %w", p.Name, err)
		}
	}
	err := probe.WaitFor(ctx, 10*time.Millisecond, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.pid == 0
	})
	if err != nil {
		return fmt.Errorf("waiting for %s to end: %w", p.Name, err)
	}
	return nil
}

// Start wants the component again. It returns when the component answers.
func (p *Process) Start(ctx context.Context) error {
	p.mu.Lock()
	p.wanted = true
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
	err := probe.WaitFor(ctx, 50*time.Millisecond, func() bool {
		p.mu.Lock()
		running := p.pid != 0
		p.mu.Unlock()
		return running && p.Healthy.OK(ctx)
	})
	if err != nil {
		return fmt.Errorf("waiting for %s to answer: %w", p.Name, err)
	}
	return nil
}

// State returns the state of the component, except for its health.
func (p *Process) State() control.ProcessState {
	p.mu.Lock()
	defer p.mu.Unlock()
	return control.ProcessState{
		Name: p.Name, PID: p.pid, Since: p.started, Restarts: p.restarts, Wanted: p.wanted, Doing: p.doing,
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
