//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/platform-operator/platform-operator/e2e/load"
)

// gatewayAddress is the address of Traefik in the local cluster, as printed by
// `bin/cluster addon traefik`.
const gatewayAddress = "http://10.10.10.1/"

// needsTraefik skips the test if there is no Ingress and Gateway controller.
func needsTraefik(t *testing.T) {
	t.Helper()
	if _, err := run(t.Context(), "", "kubectl", "get", "gatewayclass", "traefik"); err != nil {
		t.Skip("there is no Traefik in this cluster: bin/cluster addon traefik")
	}
}

// answers fetches the page of a host from the gateway.
func answers(ctx context.Context, host string) (int, string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, gatewayAddress, nil)
	if err != nil {
		return 0, "", err
	}
	req.Host, req.Close = host, true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	return res.StatusCode, string(body), err
}

// TestExpose_RoutesFromOutside checks that a host is routed to the pods by an Ingress or
// a Gateway, that the status reports the address, and that routes are deleted when
// they are not requested any more.
func TestExpose_RoutesFromOutside(t *testing.T) {
	if !local() {
		t.Skip("needs the address of Traefik in the local cluster")
	}
	needsTraefik(t)
	t.Parallel()
	for _, kind := range []struct{ name, resource, yaml string }{
		{"WebServer", "webserver", "apiVersion: my.domain/v1\nkind: WebServer\nmetadata: {name: shop, namespace: %s}\nspec: {image: nginx, service: {type: ClusterIP}%s}\n"},
		{"DemoApplication", "demoapplication", "apiVersion: paas.cmft.com/v1\nkind: DemoApplication\nmetadata: {name: shop, namespace: %s}\nspec: {image: nginx, ports: [{port: 80}]%s}\n"},
	} {
		for _, way := range []struct{ name, expose, child string }{
			{"Ingress", "type: Ingress, ingress: {ingressClassName: traefik}", "ingress"},
			{"Gateway", "type: Gateway, gateway: {parentRef: {name: public}}", "httproute"},
		} {
			t.Run(kind.name+" by "+way.name, func(t *testing.T) {
				t.Parallel()
				ns := namespace(t)
				host := ns + ".example.com"
				if way.name == "Gateway" {
					if err := apply(t, fmt.Sprintf("apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: public, namespace: %s}\n"+
						"spec: {gatewayClassName: traefik, listeners: [{name: http, port: 80, protocol: HTTP}]}\n", ns)); err != nil {
						t.Fatal(err)
					}
				}
				if err := apply(t, fmt.Sprintf(kind.yaml, ns, fmt.Sprintf(", expose: {%s, hosts: [%s]}", way.expose, host))); err != nil {
					t.Fatal(err)
				}
				awaitReady(t, ns, kind.resource+"/shop")
				kubectl(t, "-n", ns, "wait", "--for=condition=Exposed", kind.resource+"/shop", "--timeout="+patience.String())
				eventually(t, host+" to be served", func() error {
					code, body, err := answers(t.Context(), host)
					if err == nil && (code != http.StatusOK || !strings.Contains(body, "Welcome to nginx!")) {
						err = fmt.Errorf("%d %s", code, body)
					}
					return err
				})
				if got := kubectl(t, "-n", ns, "get", kind.resource, "shop", "-o", "jsonpath={.status.addresses[0].url}"); got != "http://"+host && got != "https://"+host {
					t.Errorf("the first address is %q", got)
				}
				if err := apply(t, fmt.Sprintf(kind.yaml, ns, "")); err != nil {
					t.Fatal(err)
				}
				eventuallyPrints(t, "", "-n", ns, "get", way.child, "-o", "name")
			})
		}
	}
}

// TestExpose_MovesHosts moves a host from an Ingress to a Gateway and back, as
// docs/api/common.md says. No request may fail, whichever of the two answers it.
func TestExpose_MovesHosts(t *testing.T) {
	campaign(t, "campaign-e2e")
	needsTraefik(t)
	t.Parallel()
	ns := namespace(t)
	host := ns + ".example.com"
	if err := apply(t, fmt.Sprintf("apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: public, namespace: %[1]s}\n"+
		"spec: {gatewayClassName: traefik, listeners: [{name: http, port: 80, protocol: HTTP}]}\n---\n"+
		"apiVersion: my.domain/v1\nkind: WebServer\nmetadata: {name: shop, namespace: %[1]s}\nspec: {image: nginx, expose: {type: Ingress, hosts: [%[2]s]}}\n", ns, host)); err != nil {
		t.Fatal(err)
	}
	ask := func(ctx context.Context, _ int) error {
		code, _, err := answers(ctx, host)
		if err == nil && code != http.StatusOK {
			err = fmt.Errorf("status %d", code)
		}
		return err
	}
	eventually(t, host+" to be served", func() error { return ask(t.Context(), 0) })
	l, err := load.Start(t.Context(), load.Config{Rate: 50, Least: 50, Most: 50 * int(longest/time.Second), Limit: sliceDose.limit, Ask: ask})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ expose, children string }{
		{`{"type":"Gateway","gateway":{"parentRef":{"name":"public"}},"ingress":{}}`, "ingress.networking.k8s.io/shop\nhttproute.gateway.networking.k8s.io/shop"},
		{`{"ingress":null}`, "httproute.gateway.networking.k8s.io/shop"},
		{`{"type":"Ingress"}`, "ingress.networking.k8s.io/shop\nhttproute.gateway.networking.k8s.io/shop"},
		{`{"gateway":null}`, "ingress.networking.k8s.io/shop"},
	} {
		kubectl(t, "-n", ns, "patch", "webserver", "shop", "--type=merge", "-p", `{"spec":{"expose":`+step.expose+`}}`)
		eventuallyPrints(t, step.children, "-n", ns, "get", "ingress,httproute", "-o", "name")
		time.Sleep(10 * time.Second) // Traefik applies changes at intervals of 2 s, and DNS records have a TTL
	}
	l.End()
	if r := l.Wait(); r.Failed() > 0 {
		t.Error(r)
	}
}
