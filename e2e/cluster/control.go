package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// A node is spoken to over HTTP on a unix socket. The socket is also the way
// from the machine to what listens inside the cluster's network, which has no
// other entrance.
const (
	pathStatus    = "/status"
	pathKill      = "/kill"
	pathStart     = "/start"
	pathDNS       = "/dns"
	pathForget    = "/forget-image"
	pathAPIServer = "/apiserver" // the rest of the path goes to the API server, as admin
)

// nodeClient speaks to a node from the machine.
type nodeClient struct {
	node int
	http *http.Client
}

// errNodeDown means that the node's first process does not run.
var errNodeDown = errors.New("is down")

func newNodeClient(c config, node int) *nodeClient {
	return &nodeClient{node: node, http: &http.Client{Transport: unixTransport(c.controlSocket(node))}}
}

// unixTransport sends all requests to a unix socket, whatever host they name.
func unixTransport(socket string) *http.Transport {
	return &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}
}

// do sends one request and decodes the answer into out, when given.
func (n *nodeClient) do(ctx context.Context, method, path, contentType string, body []byte, out any) error {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+nodeName(n.node)+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := n.http.Do(req)
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) && op.Op == "dial" {
			return fmt.Errorf("%s %w; start it with: cluster start %[1]s", nodeName(n.node), errNodeDown)
		}
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s", strings.TrimSpace(string(answer)))
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(answer, out)
}

func (n *nodeClient) status(ctx context.Context) ([]processState, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var states []processState
	if err := n.do(ctx, http.MethodGet, pathStatus, "", nil, &states); err != nil {
		return nil, err
	}
	return states, nil
}

func (n *nodeClient) post(ctx context.Context, path, key, value string) error {
	form := url.Values{key: {value}}
	return n.do(ctx, http.MethodPost, path, "application/x-www-form-urlencoded", []byte(form.Encode()), nil)
}

// processState is what a node tells about a component.
type processState struct {
	Name     string
	PID      int // inside the node; 0 when it is not running
	Since    time.Time
	Restarts int
	Wanted   bool
	Healthy  bool
	Doing    string
}
