package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// probe asks something whether it works. It is cheap and gives up quickly.
type probe struct {
	what string
	ask  func(ctx context.Context) error
}

const probeTimeout = time.Second

func (p probe) ok(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return p.ask(ctx) == nil
}

// httpProbe is satisfied by a 200. It does not check certificates: it is a
// question about life on an address inside the cluster, and carries nothing.
func httpProbe(url string) probe { return hostProbe(url, "") }

// hostProbe asks for another host than the one it connects to.
func hostProbe(url, host string) probe {
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // see above
		DisableKeepAlives: true,
	}
	client := &http.Client{Transport: transport}
	return probe{what: url, ask: func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		req.Host = host
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

// socketProbe is satisfied by somebody listening on a unix socket.
func socketProbe(path string) probe {
	return probe{what: path, ask: func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
		if err != nil {
			return err
		}
		return conn.Close()
	}}
}

// portFree reports whether an address can be listened on.
func portFree(address string) bool {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return false
	}
	return l.Close() == nil
}

// dnsProbe is satisfied when cluster DNS answers through its Service: this
// takes kube-proxy's rules on this node, routes to the pod, and CoreDNS having
// read the API.
func dnsProbe() probe {
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort(dnsServiceIP, "53"))
	}}
	const name = "kubernetes.default.svc.cluster.local."
	return probe{what: name, ask: func(ctx context.Context) error {
		addresses, err := resolver.LookupHost(ctx, name)
		if err != nil {
			return err
		}
		if len(addresses) != 1 || addresses[0] != apiServiceIP {
			return fmt.Errorf("%s is %v, not %s", name, addresses, apiServiceIP)
		}
		return nil
	}}
}

// waitFor asks until the answer is yes.
func waitFor(ctx context.Context, interval time.Duration, yes func() bool) error {
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
