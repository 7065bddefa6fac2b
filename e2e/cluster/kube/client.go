// Package kube is the small part of a Kubernetes client that starting a cluster
// takes. It goes through the socket of node1, because the machine has no way
// into the cluster's network.
package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/platform-operator/platform-operator/e2e/cluster/build"
	"github.com/platform-operator/platform-operator/e2e/cluster/config"
	"github.com/platform-operator/platform-operator/e2e/cluster/control"
	"github.com/platform-operator/platform-operator/e2e/cluster/host"
	"github.com/platform-operator/platform-operator/e2e/cluster/templates"
)

// Client reads and applies objects.
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

// apply creates or updates an object.
func (a Client) apply(ctx context.Context, path string, object []byte) error {
	return a.node.Do(ctx, http.MethodPatch, control.PathAPIServer+path+"?fieldManager=cluster&force=true",
		"application/apply-patch+yaml", object, nil)
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

// ApplyCoreDNS installs cluster DNS.
func (a Client) ApplyCoreDNS(ctx context.Context) error {
	// Where each kind of the manifest goes; applying needs the full path.
	paths := map[string]string{
		"ServiceAccount":     "/api/v1/namespaces/kube-system/serviceaccounts/coredns",
		"ClusterRole":        "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:coredns",
		"ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/system:coredns",
		"ConfigMap":          "/api/v1/namespaces/kube-system/configmaps/coredns",
		"Deployment":         "/apis/apps/v1/namespaces/kube-system/deployments/coredns",
		"Service":            "/api/v1/namespaces/kube-system/services/kube-dns",
	}
	manifest, err := templates.Render("coredns.yaml", struct{ DNS, CoreDNSVersion string }{
		DNS: config.DNSServiceIP, CoreDNSVersion: strings.TrimPrefix(build.CoreDNSVersion, "v"),
	})
	if err != nil {
		return err
	}
	for document := range bytes.SplitSeq(manifest, []byte("\n---\n")) {
		kind := ""
		for line := range strings.Lines(string(document)) {
			if rest, ok := strings.CutPrefix(line, "kind: "); ok {
				kind = strings.TrimSpace(rest)
				break
			}
		}
		path, ok := paths[kind]
		if !ok {
			return fmt.Errorf("installing cluster DNS: no path for kind %q", kind)
		}
		if err := a.apply(ctx, path, document); err != nil {
			return fmt.Errorf("installing cluster DNS (%s): %w", kind, err)
		}
	}
	return nil
}

// CoreDNSAvailable reports whether cluster DNS has a ready pod.
func (a Client) CoreDNSAvailable(ctx context.Context) bool {
	var deployment struct {
		Status struct{ AvailableReplicas int }
	}
	err := a.Get(ctx, "/apis/apps/v1/namespaces/kube-system/deployments/coredns", &deployment)
	return err == nil && deployment.Status.AvailableReplicas > 0
}

// PodTrouble says why pods of a namespace do not run, for error messages.
func (a Client) PodTrouble(ctx context.Context, namespace string) string {
	var list struct {
		Items []struct {
			Reason, Message string
			InvolvedObject  struct{ Name string }
		}
	}
	if err := a.Get(ctx, "/api/v1/namespaces/"+namespace+"/events?fieldSelector=type%3DWarning", &list); err != nil {
		return "    (cannot read events: " + err.Error() + ")"
	}
	var b strings.Builder
	for _, e := range list.Items {
		fmt.Fprintf(&b, "%s: %s: %s\n", e.InvolvedObject.Name, e.Reason, e.Message)
	}
	if b.Len() == 0 {
		return "    (no warnings in namespace " + namespace + ")"
	}
	return host.LastLines(b.String(), 10)
}

// Exists reports whether a GET succeeds.
func (a Client) Exists(ctx context.Context, path string) bool {
	var object json.RawMessage
	return a.Get(ctx, path, &object) == nil
}
