//go:build e2e

package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// apiServerPause is how long the API server does not answer.
	apiServerPause = time.Minute
	// apiServerSlow is how long each of its answers takes two to five seconds, and then how
	// long it answers only during the last 6 of every 20 seconds.
	apiServerSlow = 40 * time.Second
)

// pauseAPIServer stops the process of the API server for a while.
func (o *operations) pauseAPIServer() error {
	var pid int
	commands, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range commands {
		command, _ := os.ReadFile(file) // the process may have ended
		if bytes.Contains(command, []byte("/kube-apiserver\x00")) && bytes.Contains(command, []byte(filepath.Dir(os.Getenv("KUBECONFIG"))+"/pki/")) {
			_, _ = fmt.Sscanf(file, "/proc/%d/", &pid)
		}
	}
	if pid == 0 {
		return errors.New("no process is the API server")
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return fmt.Errorf("stopping the API server: %w", err)
	}
	time.Sleep(apiServerPause)
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		return fmt.Errorf("continuing the API server: %w", err)
	}
	return nil
}

// slowAPIServer lets the operator reach the API server through a proxy that delays the
// answers, and restarts its replicas meanwhile. Requests for admission are not delayed.
func (o *operations) slowAPIServer() error {
	node := nodeAddress(o.T)
	proxy, err := newSlowProxy(net.JoinHostPort(node, "6443"))
	if err != nil {
		return err
	}
	defer func() { _ = proxy.listener.Close() }()
	_, port, _ := net.SplitHostPort(proxy.listener.Addr().String())
	if err := o.environment("KUBERNETES_SERVICE_HOST="+node, "KUBERNETES_SERVICE_PORT="+port); err != nil {
		return err
	}
	proxy.slowly(func() time.Duration { return 2*time.Second + rand.N(3*time.Second) }) //nolint:gosec // not a secret
	time.Sleep(apiServerSlow / 2)
	err = o.kubectl("-n", operatorNamespace, "rollout", "restart", "deployment/"+operatorName)
	time.Sleep(apiServerSlow / 2)
	began := time.Now()
	proxy.slowly(func() time.Duration { return max(0, 14*time.Second-time.Since(began)%(20*time.Second)) })
	time.Sleep(apiServerSlow)
	proxy.slowly(nil)
	return errors.Join(err, o.rolledOut(), o.environment("KUBERNETES_SERVICE_HOST-", "KUBERNETES_SERVICE_PORT-"))
}

// environment sets variables of the operator.
func (o *operations) environment(set ...string) error {
	return errors.Join(o.kubectl(append([]string{"-n", operatorNamespace, "set", "env", "deployment/" + operatorName}, set...)...), o.rolledOut())
}

// slowProxy passes connections to the API server on, and its answers later.
type slowProxy struct {
	listener net.Listener
	to       string
	late     atomic.Pointer[func() time.Duration]
}

func newSlowProxy(to string) (*slowProxy, error) {
	listener, err := net.Listen("tcp", ":0") //nolint:gosec,noctx // in the network of the cluster
	if err != nil {
		return nil, fmt.Errorf("listening for the operator: %w", err)
	}
	p := &slowProxy{listener: listener, to: to}
	p.slowly(nil)
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go p.connect(client)
		}
	}()
	return p, nil
}

// slowly sets how late answers are.
func (p *slowProxy) slowly(late func() time.Duration) {
	if late == nil {
		late = func() time.Duration { return 0 }
	}
	p.late.Store(&late)
}

// connect passes one connection on until an end closes it.
func (p *slowProxy) connect(client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", p.to) //nolint:noctx // closed by its other end
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	go func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	}()
	type part struct {
		due  time.Time
		data []byte
	}
	parts := make(chan part, 10_000)
	go func() {
		defer close(parts)
		buffer := make([]byte, 64<<10)
		for {
			n, err := server.Read(buffer)
			if n > 0 {
				parts <- part{time.Now().Add((*p.late.Load())()), append([]byte(nil), buffer[:n]...)}
			}
			if err != nil {
				return
			}
		}
	}()
	for part := range parts {
		time.Sleep(time.Until(part.due))
		if _, err := client.Write(part.data); err != nil {
			_ = server.Close()
		}
	}
}
