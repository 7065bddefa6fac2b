//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// serve applies a WebServer called web, with additional fields of its spec in YAML
// flow style.
func serve(t *testing.T, ns, spec string) {
	t.Helper()
	if err := apply(t, webServer(ns, "web", `{image: "nginx:1.27.4", service: {type: NodePort}, `+spec+`}`)); err != nil {
		t.Fatal(err)
	}
}

// webReady waits until the current generation of web serves.
func webReady(t *testing.T, ns string) {
	t.Helper()
	eventually(t, "the current spec to serve", func() error {
		out, err := run(t.Context(), "", "kubectl", "-n", ns, "get", "webserver", "web", "-o",
			`jsonpath={.metadata.generation} {.status.observedGeneration} {.status.conditions[?(@.type=="Ready")].status}`)
		if f := strings.Fields(out); err == nil && (len(f) != 3 || f[0] != f[1] || f[2] != "True") {
			err = fmt.Errorf("generation, observed, ready: %s", out)
		}
		return err
	})
}

// webURL returns the URL of web, with the node port in that field of the status.
func webURL(t *testing.T, ns, scheme, field string) string {
	t.Helper()
	return fmt.Sprintf("%s://%s:%s", scheme, nodeAddress(t), kubectl(t, "-n", ns, "get", "webserver", "web", "-o", "jsonpath={.status.service."+field+"}"))
}

// TestWebServer_Config checks that a user's locations are served, and that a
// configuration which nginx rejects does not reach a serving pod; the error of
// nginx is in the status of the new pod.
func TestWebServer_Config(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	serve(t, ns, `replicas: 2, config: {inline: "location = /hello { return 200 one; }\nlocation / { try_files $uri /index.html; }"}`)
	webReady(t, ns)
	url := webURL(t, ns, "http", "nodePort")
	pageHas(t, url+"/hello", "one")
	pageHas(t, url+"/nowhere", "Welcome to nginx!")

	serve(t, ns, `replicas: 2, config: {inline: "\nlocation = /hello { retrun 200 two; }"}`)
	eventually(t, "nginx's own words", func() error {
		out, err := run(t.Context(), "", "kubectl", "-n", ns, "get", "pods,webservers", "-o", "json")
		if err == nil && !strings.Contains(out, `unknown directive \"retrun\" in /etc/nginx/conf.d/server.snippet:2`) {
			err = errors.New("they are in no status")
		}
		return err
	})
	for range 20 {
		if body, err := page(t.Context(), url+"/hello"); err != nil || !strings.Contains(body, "one") {
			t.Fatalf("the last good configuration does not keep serving: got %q, %v", body, err)
		}
	}
	eventuallyPrints(t, "False Invalid RolledBack", "-n", ns, "get", "webserver", "web", "-o",
		`jsonpath={.status.conditions[?(@.type=="ConfigValid")].status} {.status.conditions[?(@.type=="ConfigValid")].reason} {.status.conditions[?(@.type=="Ready")].reason}`)
	pageHas(t, url+"/hello", "one")

	serve(t, ns, `replicas: 2, config: {inline: "location = /hello { return 200 three; }"}`)
	webReady(t, ns)
	pageHas(t, url+"/hello", "three")
	eventuallyPrints(t, "True Tested", "-n", ns, "get", "webserver", "web", "-o",
		`jsonpath={.status.conditions[?(@.type=="ConfigValid")].status} {.status.conditions[?(@.type=="ConfigValid")].reason}`)
}

// TestWebServer_ConfigMaps checks that the content of a ConfigMap is served, that a
// missing one is waited for, and that a change is rolled out.
func TestWebServer_ConfigMaps(t *testing.T) {
	campaign(t, "campaign-e2e")
	t.Parallel()
	ns := namespace(t)
	configMap := func(name, key, text string) {
		t.Helper()
		if err := apply(t, fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: %s}\ndata: {%s: %q}\n", name, ns, key, text)); err != nil {
			t.Fatal(err)
		}
	}
	serve(t, ns, `config: {configMapRef: {name: cfg}}, content: {configMapRef: {name: pages}}`)
	eventuallyPrints(t, "ReferenceNotFound", "-n", ns, "get", "webserver", "web", "-o", `jsonpath={.status.conditions[?(@.type=="Stalled")].reason}`)
	configMap("cfg", "server.conf", "location = /hello { return 200 one; }")
	configMap("pages", "index.html", "page one")
	webReady(t, ns)
	url := webURL(t, ns, "http", "nodePort")
	pageHas(t, url+"/hello", "one")
	pageHas(t, url+"/", "page one")
	configMap("cfg", "server.conf", "location = /hello { return 200 two; }")
	configMap("pages", "index.html", "page two")
	pageHas(t, url+"/hello", "two")
	pageHas(t, url+"/", "page two")
}

func TestWebServer_ContentFromFiles(t *testing.T) {
	campaign(t, "campaign-e2e")
	t.Parallel()
	ns := namespace(t)
	serve(t, ns, `content: {files: {index.html: "<h1>Hello</h1>", a.css: "h1 {}"}}`)
	webReady(t, ns)
	url := webURL(t, ns, "http", "nodePort")
	pageHas(t, url+"/", "<h1>Hello</h1>")
	pageHas(t, url+"/a.css", "h1 {}")
	serve(t, ns, `content: {files: {index.html: "<h1>Bye</h1>"}}`)
	pageHas(t, url+"/", "<h1>Bye</h1>")
}

func TestWebServer_Metrics(t *testing.T) {
	campaign(t, "campaign-e2e")
	t.Parallel()
	ns := namespace(t)
	serve(t, ns, `monitoring: {enabled: true}`)
	webReady(t, ns)
	pod := kubectl(t, "-n", ns, "get", "pods", "-l", "webserver_cr=web", "-o", "jsonpath={.items[0].metadata.name}")
	eventually(t, "the exporter to see nginx", func() error {
		out, err := run(t.Context(), "", "kubectl", "get", "--raw", fmt.Sprintf("/api/v1/namespaces/%s/pods/%s:9113/proxy/metrics", ns, pod))
		if err == nil && !strings.Contains(out, "\nnginx_up 1\n") {
			err = fmt.Errorf("no nginx_up 1 in\n%s", out)
		}
		return err
	})
	if _, err := page(t.Context(), webURL(t, ns, "http", "nodePort")+"/stub_status"); err == nil {
		t.Error("stub_status is open to everybody")
	}
}

// TestWebServer_ServesARenewedCertificate uses https with a certificate in a Secret.
// A renewed one is served within two minutes, and no request fails in the meantime,
// neither on new connections nor on one that stays open. The renewal keeps the key:
// with another key, a handshake may occur between the updates of the two files, as
// documented.
func TestWebServer_ServesARenewedCertificate(t *testing.T) {
	campaign(t, "campaign-e2e")
	t.Parallel()
	ns := namespace(t)
	secret := func(cert, key []byte) {
		t.Helper()
		dir := t.TempDir()
		for name, content := range map[string][]byte{"tls.crt": cert, "tls.key": key} {
			if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		made := kubectl(t, "-n", ns, "create", "secret", "generic", "web-tls", "--type=kubernetes.io/tls", "--from-file="+dir, "--dry-run=client", "-o", "yaml")
		if err := apply(t, made); err != nil {
			t.Fatal(err)
		}
	}
	private, other := privateKey(t), privateKey(t)
	first, second := certificate(t, "first", private), certificate(t, "second", private)

	// A certificate and key that do not match do not reach a serving pod.
	secret(first, inPEM(t, other))
	serve(t, ns, `replicas: 2, tls: {secretRef: {name: web-tls}}, config: {inline: "location = /hello { return 200 $scheme; }"}`)
	eventually(t, "nginx's word about a key that does not match", func() error {
		out, err := run(t.Context(), "", "kubectl", "-n", ns, "get", "pods,webservers", "-o", "json")
		if err == nil && !strings.Contains(out, "key values mismatch") {
			err = errors.New("it is in no status")
		}
		return err
	})
	secret(first, inPEM(t, private))
	webReady(t, ns)
	url := webURL(t, ns, "https", "httpsNodePort") + "/hello"
	pageHas(t, webURL(t, ns, "http", "nodePort")+"/hello", "http")

	staying := newClient()
	if cn, err := servedBy(t.Context(), staying, url); err != nil || cn != "first" {
		t.Fatalf("certificate of %q, %v", cn, err)
	}
	secret(second, inPEM(t, private))
	since, row := time.Now(), 0
	for row < 50 { // in a row: both pods have it
		fresh := newClient()
		cn, err := servedBy(t.Context(), fresh, url)
		fresh.CloseIdleConnections()
		if err != nil {
			t.Fatalf("%s after the renewal: %v", time.Since(since).Round(time.Second), err)
		}
		if _, err := servedBy(t.Context(), staying, url); err != nil {
			t.Fatalf("on an open connection, %s after the renewal: %v", time.Since(since).Round(time.Second), err)
		}
		if row++; cn != "second" {
			row = 0
		}
		if time.Since(since) > patience {
			t.Fatalf("%s after the renewal a pod still serves the certificate of %q", patience, cn)
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Logf("served by all after %s", time.Since(since).Round(time.Second))
	if got := kubectl(t, "-n", ns, "get", "pods", "-l", "webserver_cr=web", "-o", "jsonpath={.items[*].status.containerStatuses[0].restartCount}"); got != "0 0" {
		t.Errorf("containers restarted: %s", got)
	}
}

// newClient returns a client with connections of its own. It accepts any
// certificate, because the test checks the certificate itself.
func newClient() *http.Client {
	return &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // self-signed
	}}
}

// servedBy returns the common name of the certificate of the connection that a
// request used.
func servedBy(ctx context.Context, c *http.Client, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	res, err := c.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = res.Body.Close() }()
	var body bytes.Buffer
	if _, err := body.ReadFrom(res.Body); err != nil {
		return "", err
	}
	if res.StatusCode != http.StatusOK || body.String() != "https" {
		return "", fmt.Errorf("%s: %q", res.Status, body.String())
	}
	return res.TLS.PeerCertificates[0].Subject.CommonName, nil
}

func privateKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// inPEM returns a key in the format of a Secret.
func inPEM(t *testing.T, k *ecdsa.PrivateKey) []byte {
	t.Helper()
	raw, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
}

// certificate returns a certificate of that name as PEM, signed by its own key.
func certificate(t *testing.T, name string, private *ecdsa.PrivateKey) []byte {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
