package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// Reaper starts programs and collects every process that ends. The first
// process of a pid namespace inherits all orphans (containers' shims among
// them), so waiting cannot be left to the code that started a program: one loop
// collects all, and sends each status to its channel.
type Reaper struct {
	mu      sync.Mutex
	waiting map[int]chan syscall.WaitStatus
}

// NewReaper returns a reaper that collects processes until the context ends.
func NewReaper(ctx context.Context) *Reaper {
	r := &Reaper{waiting: map[int]chan syscall.WaitStatus{}}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGCHLD)
	go func() {
		for {
			r.collect()
			select {
			case <-ctx.Done():
				return
			case <-signals:
			}
		}
	}()
	return r
}

func (r *Reaper) collect() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		r.mu.Lock()
		if c, ok := r.waiting[pid]; ok {
			delete(r.waiting, pid)
			c <- status
		}
		r.mu.Unlock()
	}
}

// Start runs a program with its output in a file. The channel gets its exit
// status.
func (r *Reaper) Start(path string, args []string, output *os.File) (int, <-chan syscall.WaitStatus, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, nil, fmt.Errorf("opening %s: %w", os.DevNull, err)
	}
	defer func() { _ = null.Close() }()
	// Held until the process is registered: it may end before we get there.
	r.mu.Lock()
	defer r.mu.Unlock()
	argv := append([]string{path}, args...)
	p, err := os.StartProcess(path, argv, &os.ProcAttr{
		Dir:   "/",
		Env:   os.Environ(),
		Files: []*os.File{null, output, output},
	})
	if err != nil {
		return 0, nil, fmt.Errorf("starting %s: %w", path, err)
	}
	pid := p.Pid
	_ = p.Release() // collect waits for it, not os.Process
	exited := make(chan syscall.WaitStatus, 1)
	r.waiting[pid] = exited
	return pid, exited, nil
}
