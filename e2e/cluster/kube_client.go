package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// apiClient is the little of a Kubernetes client that starting a cluster
// takes. It goes through node1's socket, because the machine has no way into
// the cluster's network.
type apiClient struct {
	node *nodeClient
}

func newAPIClient(c config) apiClient { return apiClient{newNodeClient(c, controlNode)} }

func (a apiClient) get(ctx context.Context, path string, out any) error {
	return a.node.do(ctx, http.MethodGet, pathAPIServer+path, "", nil, out)
}

// ready is nil when the API server says that it is.
func (a apiClient) ready(ctx context.Context) error {
	return a.get(ctx, "/readyz", nil)
}

// apply creates or updates an object.
func (a apiClient) apply(ctx context.Context, path string, object []byte) error {
	return a.node.do(ctx, http.MethodPatch, pathAPIServer+path+"?fieldManager=cluster&force=true",
		"application/apply-patch+yaml", object, nil)
}

// nodesReady counts the nodes that are Ready.
func (a apiClient) nodesReady(ctx context.Context) (int, error) {
	var list struct {
		Items []struct {
			Status struct {
				Conditions []struct{ Type, Status string }
			}
		}
	}
	if err := a.get(ctx, "/api/v1/nodes", &list); err != nil {
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

// applyCoreDNS installs cluster DNS.
func (a apiClient) applyCoreDNS(ctx context.Context) error {
	// Where each kind of the manifest goes; applying needs the full path.
	paths := map[string]string{
		"ServiceAccount":     "/api/v1/namespaces/kube-system/serviceaccounts/coredns",
		"ClusterRole":        "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:coredns",
		"ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/system:coredns",
		"ConfigMap":          "/api/v1/namespaces/kube-system/configmaps/coredns",
		"Deployment":         "/apis/apps/v1/namespaces/kube-system/deployments/coredns",
		"Service":            "/api/v1/namespaces/kube-system/services/kube-dns",
	}
	manifest, err := render("coredns.yaml", struct{ DNS, CoreDNSVersion string }{
		DNS: dnsServiceIP, CoreDNSVersion: strings.TrimPrefix(coreDNSVersion, "v"),
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

// coreDNSAvailable reports whether cluster DNS has a ready pod.
func (a apiClient) coreDNSAvailable(ctx context.Context) bool {
	var deployment struct {
		Status struct{ AvailableReplicas int }
	}
	err := a.get(ctx, "/apis/apps/v1/namespaces/kube-system/deployments/coredns", &deployment)
	return err == nil && deployment.Status.AvailableReplicas > 0
}

// podTrouble says why pods of a namespace do not run, for error messages.
func (a apiClient) podTrouble(ctx context.Context, namespace string) string {
	var list struct {
		Items []struct {
			Reason, Message string
			InvolvedObject  struct{ Name string }
		}
	}
	if err := a.get(ctx, "/api/v1/namespaces/"+namespace+"/events?fieldSelector=type%3DWarning", &list); err != nil {
		return "    (cannot read events: " + err.Error() + ")"
	}
	var b strings.Builder
	for _, e := range list.Items {
		fmt.Fprintf(&b, "%s: %s: %s\n", e.InvolvedObject.Name, e.Reason, e.Message)
	}
	if b.Len() == 0 {
		return "    (no warnings in namespace " + namespace + ")"
	}
	return lastLines(b.String(), 10)
}

// exists reports whether a GET succeeds.
func (a apiClient) exists(ctx context.Context, path string) bool {
	var object json.RawMessage
	return a.get(ctx, path, &object) == nil
}
