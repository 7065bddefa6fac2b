// Package kube is the small part of a Kubernetes client that starting a cluster
// takes. It goes through the socket of node1, because the machine has no way
// into the cluster's network.
package kube

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/platform-operator/platform-operator/e2e/cluster/config"
	"github.com/platform-operator/platform-operator/e2e/cluster/control"
)

// Client reads objects.
type Client struct {
	node *control.Client
}

// NewClient returns a client of the cluster.
func NewClient(c config.Config) Client { return Client{control.NewClient(c, config.ControlNode)} }

// Get reads an object or a list.
func (a Client) Get(ctx context.Context, path string, out any) error {
	return a.node.Do(ctx, http.MethodGet, control.PathAPIServer+path, "", nil, out)
}

// Ready is nil when the API server says that it is.
func (a Client) Ready(ctx context.Context) error {
	return a.Get(ctx, "/readyz", nil)
}

// NodesReady counts the nodes that are Ready.
func (a Client) NodesReady(ctx context.Context) (int, error) {
	var list struct {
		Items []struct {
			Status struct {
				Conditions []struct{ Type, Status string }
			}
		}
	}
	if err := a.Get(ctx, "/api/v1/nodes", &list); err != nil {
		return 0, err
	}
	ready := 0
	for _, item := range list.Items {
		for _, c := range item.Status.Conditions {
			if c.Type == "Ready" && c.Status == "True" {
				ready++
			}
		}
	}
	return ready, nil
}

// Exists reports whether a GET succeeds.
func (a Client) Exists(ctx context.Context, path string) bool {
	var object json.RawMessage
	return a.Get(ctx, path, &object) == nil
}
