// Package control is the protocol between the commands and the first process
// of a node (package nodeinit): HTTP on a unix socket in the node's folder.
package control

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

	"github.com/platform-operator/platform-operator/e2e/cluster/config"
)

// The paths a node serves.
const (
	PathStatus = "/status"
	PathDNS    = "/dns"
	PathForget = "/forget-image"
)

// Client speaks to a node from the machine.
type Client struct {
	node int
	http *http.Client
}

// ErrNodeDown means that the node's first process does not run.
var ErrNodeDown = errors.New("is down")

// NewClient returns a client of a node, whether the node is on or not.
func NewClient(c config.Config, node int) *Client {
	return &Client{node: node, http: &http.Client{Transport: UnixTransport(c.ControlSocket(node))}}
}

// UnixTransport sends all requests to a unix socket, whatever host they name.
func UnixTransport(socket string) *http.Transport {
	return &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}
}

// Do sends one request and decodes the answer into out, when given.
func (n *Client) Do(ctx context.Context, method, path, contentType string, body []byte, out any) error {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+config.NodeName(n.node)+path, bytes.NewReader(body))
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
			return fmt.Errorf("%s %w; start it with: cluster start %[1]s", config.NodeName(n.node), ErrNodeDown)
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

// Status returns the state of every component of the node.
func (n *Client) Status(ctx context.Context) ([]ProcessState, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var states []ProcessState
	if err := n.Do(ctx, http.MethodGet, PathStatus, "", nil, &states); err != nil {
		return nil, err
	}
	return states, nil
}

// ForgetImage makes the node pull an image again for the next pod.
func (n *Client) ForgetImage(ctx context.Context, image string) error {
	form := url.Values{"image": {image}}
	return n.Do(ctx, http.MethodPost, PathForget, "application/x-www-form-urlencoded", []byte(form.Encode()), nil)
}

// CheckDNS returns nil if cluster DNS answers on the node.
func (n *Client) CheckDNS(ctx context.Context) error {
	return n.Do(ctx, http.MethodGet, PathDNS, "", nil, nil)
}

// ProcessState is the state of a component as a node reports it.
type ProcessState struct {
	Name     string
	PID      int // inside the node; 0 when it is not running
	Since    time.Time
	Restarts int
	Healthy  bool
	Doing    string
}
