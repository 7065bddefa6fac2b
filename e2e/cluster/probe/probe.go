// Package probe checks whether something answers: a URL, a socket, a port,
// cluster DNS.
package probe

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/platform-operator/platform-operator/e2e/cluster/config"
)

// Probe asks something whether it works. It is cheap and gives up quickly.
type Probe struct {
	What string
	Ask  func(ctx context.Context) error
}

// Timeout is how long a probe may take.
const Timeout = time.Second

// OK reports whether the probe succeeds in time.
func (p Probe) OK(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	return p.Ask(ctx) == nil
}

// HTTP is satisfied by a 200. It does not check certificates: it is a
// question about life on an address inside the cluster, and carries nothing.
func HTTP(url string) Probe {
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // see above
		DisableKeepAlives: true,
	}
	client := &http.Client{Transport: transport}
	return Probe{What: url, Ask: func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		_, _ = io.Copy(io.Discard, resp.Body)
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answers %s", url, resp.Status)
		}
		return nil
	}}
}

// Socket is satisfied when a process listens on a unix socket.
func Socket(path string) Probe {
	return Probe{What: path, Ask: func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
		if err != nil {
			return err
		}
		return conn.Close()
	}}
}

// PortFree reports whether an address can be listened on.
func PortFree(address string) bool {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return false
	}
	return l.Close() == nil
}

// DNS is satisfied when cluster DNS answers through its Service: this
// takes kube-proxy's rules on this node, routes to the pod, and CoreDNS having
// read the API.
func DNS() Probe {
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort(config.DNSServiceIP, "53"))
	}}
	const name = "kubernetes.default.svc.cluster.local."
	return Probe{What: name, Ask: func(ctx context.Context) error {
		addresses, err := resolver.LookupHost(ctx, name)
		if err != nil {
			return err
		}
		if len(addresses) != 1 || addresses[0] != config.APIServiceIP {
			return fmt.Errorf("%s is %v, not %s", name, addresses, config.APIServiceIP)
		}
		return nil
	}}
}

// WaitFor asks until the answer is yes.
func WaitFor(ctx context.Context, interval time.Duration, yes func() bool) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for !yes() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
	return nil
}
