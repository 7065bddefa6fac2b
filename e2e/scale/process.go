package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// operator is a process of the operator.
type operator struct {
	cmd   *exec.Cmd
	began time.Time
	// leading is closed when the workers start.
	leading   chan struct{}
	leadingAt time.Time
	exited    chan struct{}
	// stopping is set before the process is told to end.
	stopping atomic.Bool
}

// startOperator starts the operator with the arguments and the environment of its
// Deployment, and calls failed if it ends by itself.
func startOperator(program string, args, env []string, log string, failed context.CancelCauseFunc) (*operator, error) {
	op := &operator{leading: make(chan struct{}), exited: make(chan struct{})}
	file, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log: %w", err)
	}
	op.cmd = exec.Command(program, args...)
	op.cmd.Env = env
	// So that no operator outlives this process.
	op.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stderr, err := op.cmd.StderrPipe()
	if err != nil {
		return nil, fmt.Errorf("starting the operator: %w", err)
	}
	op.began = time.Now()
	if err := op.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the operator: %w", err)
	}
	go func() {
		defer close(op.exited)
		defer file.Close()
		op.follow(stderr, file)
		_ = op.cmd.Wait() // its state says more
		if !op.stopping.Load() {
			failed(fmt.Errorf("the operator ended by itself: %s", op.cmd.ProcessState))
		}
	}()
	return op, nil
}

// follow copies the log, and looks for the line that controller-runtime writes when
// the workers of a kind start.
func (op *operator) follow(log io.Reader, to io.Writer) {
	lines := bufio.NewReader(log)
	for {
		line, err := lines.ReadString('\n')
		_, _ = io.WriteString(to, line)
		if op.leadingAt.IsZero() && strings.Contains(line, "Starting workers") && strings.Contains(line, "WebServer") {
			op.leadingAt = time.Now()
			close(op.leading)
		}
		if err != nil {
			return
		}
	}
}

// lead waits until the workers have started.
func (op *operator) lead(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case <-op.leading:
		return nil
	case <-op.exited:
		return errors.New("the operator ended before its workers started")
	case <-ctx.Done():
		return fmt.Errorf("the workers have not started: %w", context.Cause(ctx))
	}
}

// stop ends the process as the kubelet does.
func (op *operator) stop() error {
	op.stopping.Store(true)
	_ = op.cmd.Process.Signal(syscall.SIGTERM) // it may have ended already
	select {
	case <-op.exited:
		return nil
	case <-time.After(30 * time.Second): // its terminationGracePeriodSeconds
		_ = op.cmd.Process.Kill()
		<-op.exited
		return errors.New("the operator did not end within 30 seconds after SIGTERM")
	}
}

// cpu returns the processor time that the process has used.
func (op *operator) cpu() time.Duration {
	p, err := procfs.NewProc(op.cmd.Process.Pid)
	if err != nil {
		return 0
	}
	stat, err := p.Stat()
	if err != nil {
		return 0
	}
	return time.Duration(stat.CPUTime() * float64(time.Second))
}

// memory returns the resident memory of the process and its maximum, in MiB.
func (op *operator) memory() (now, peak float64) {
	p, err := procfs.NewProc(op.cmd.Process.Pid)
	if err != nil {
		return 0, 0
	}
	status, err := p.NewStatus()
	if err != nil {
		return 0, 0
	}
	return float64(status.VmRSS) / (1 << 20), float64(status.VmHWM) / (1 << 20)
}

// quietFor is how long the operator must use no processor time to count as idle. Its
// Lease and its timers need less than a hundredth of a second of it.
const quietFor = 2 * time.Second

// quiet waits until the operator is idle.
func (op *operator) quiet(ctx context.Context, limit time.Duration) error {
	since, before := time.Now(), op.cpu()
	return wait(ctx, limit, "the operator to become idle", func() (bool, error) {
		if now := op.cpu(); now > before+20*time.Millisecond {
			since, before = time.Now(), now
		}
		return time.Since(since) >= quietFor, nil
	})
}
