//go:build e2e

package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"io"
	"net/http"
	"strings"
	"testing"
)

// monitor reads the operator's metrics like Prometheus, with an account of its own,
// and trusts only the operator's CA.
type monitor struct {
	*testing.T
	ns     string
	client *http.Client
}

// newMonitor creates two accounts in a namespace: reader is permitted to read
// metrics, stranger is not.
func newMonitor(t *testing.T, ns string) monitor {
	t.Helper()
	for _, name := range []string{"reader", "stranger"} {
		kubectl(t, "-n", ns, "create", "serviceaccount", name)
	}
	kubectl(t, "create", "clusterrolebinding", ns, "--clusterrole=platform-operator-metrics-reader", "--serviceaccount="+ns+":reader")
	t.Cleanup(func() {
		if _, err := run(context.WithoutCancel(t.Context()), "", "kubectl", "delete", "clusterrolebinding", ns); err != nil {
			t.Error(err)
		}
	})
	ca, err := base64.StdEncoding.DecodeString(kubectl(t, "-n", operatorNamespace, "get", "secret", "platform-operator-webhook-cert", "-o", `jsonpath={.data.ca\.crt}`))
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	if !trusted.AppendCertsFromPEM(ca) {
		t.Fatalf("no CA in the Secret of the certificate: %q", ca)
	}
	return monitor{t, ns, &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{RootCAs: trusted, ServerName: "platform-operator-metrics." + operatorNamespace + ".svc", MinVersion: tls.VersionTLS12},
	}}}
}

func (m monitor) token(account string) string {
	m.Helper()
	return kubectl(m.T, "-n", m.ns, "create", "token", account)
}

// pods returns the addresses of the replicas, without those that an earlier test has
// replaced and that are still terminating.
func (m monitor) pods() []string {
	m.Helper()
	const addresses = `go-template={{range .items}}{{if not .metadata.deletionTimestamp}}{{.status.podIP}} {{end}}{{end}}`
	return strings.Fields(kubectl(m.T, "-n", operatorNamespace, "get", "pods", "-l", "app.kubernetes.io/name=platform-operator", "-o", addresses))
}

func (m monitor) get(url, token string) (int, string, error) {
	m.Helper()
	req, err := http.NewRequestWithContext(m.Context(), http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := m.client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = res.Body.Close() }()
	body, _ := io.ReadAll(res.Body) // the response to plain HTTP may be truncated
	return res.StatusCode, string(body), nil
}

// TestMetrics_RequireThePermission sends requests to the installed operator.
func TestMetrics_RequireThePermission(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	m := newMonitor(t, ns)
	pods := m.pods()
	if len(pods) < 2 {
		t.Fatalf("pods: %v", pods)
	}
	reader, stranger := m.token("reader"), m.token("stranger")
	for _, ip := range pods {
		for name, tc := range map[string]struct {
			url, token string
			code       int
		}{
			"no token":                       {"https://" + ip + ":8443/metrics", "", http.StatusUnauthorized},
			"a wrong token":                  {"https://" + ip + ":8443/metrics", "wrong", http.StatusUnauthorized},
			"a token without the permission": {"https://" + ip + ":8443/metrics", stranger, http.StatusForbidden},
			"a token with the permission":    {"https://" + ip + ":8443/metrics", reader, http.StatusOK},
			"plain HTTP":                     {"http://" + ip + ":8443/metrics", reader, http.StatusBadRequest},
			"profiles":                       {"https://" + ip + ":8443/debug/pprof/", reader, http.StatusNotFound},
		} {
			if code, body, err := m.get(tc.url, tc.token); err != nil || code != tc.code {
				t.Errorf("%s: %d %.200s %v, want %d", name, code, body, err, tc.code)
			}
		}
		if code, _, err := m.get("http://"+ip+":8080/metrics", ""); err == nil {
			t.Errorf("the port of old answers %d", code)
		}
	}
}

// TestOperator_ImageHasNoShell checks that an attacker in the pod finds no
// program to run.
func TestOperator_ImageHasNoShell(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"sh", "/bin/sh", "bash", "/busybox/sh"} {
		if out, err := run(t.Context(), "", "kubectl", "-n", operatorNamespace, "exec", "deployment/"+operatorName, "--", shell, "-c", "true"); err == nil {
			t.Errorf("%s runs: %s", shell, out)
		} else if !strings.Contains(err.Error(), "no such file") && !strings.Contains(err.Error(), "not found") {
			t.Errorf("%s: %v", shell, err)
		}
	}
}
