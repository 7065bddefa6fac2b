//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// http3Load is a client of HTTP/3 that sends requests until it is stopped: the program e2e/http3.
type http3Load struct {
	end io.Closer
	cmd *exec.Cmd
	out bytes.Buffer
}

// http3Result is what became of the requests.
type http3Result struct {
	Requests, Connections, Again int
	Failed                       map[string]int
	Slowest                      time.Duration
}

func startHTTP3(t *testing.T, args ...string) *http3Load {
	t.Helper()
	l := &http3Load{cmd: exec.CommandContext(t.Context(), "../bin/http3", args...)}
	l.cmd.Stdout = &l.out
	in, err := l.cmd.StdinPipe()
	if err == nil {
		err = l.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	l.end = in
	return l
}

func (l *http3Load) stop(t *testing.T) (r http3Result) {
	t.Helper()
	_ = l.end.Close()
	if err := l.cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(l.out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestCampaignHTTP3 follows the header Alt-Svc to HTTP/3, at the address and at a node port of the Service,
// changes content and image under load, and then to an image without HTTP/3.
func TestCampaignHTTP3(t *testing.T) {
	campaign(t, "campaign-http3")
	ns, key := namespace(t), privateKey(t)
	pair, _ := json.Marshal(string(append(certificate(t, "web", key), inPEM(t, key)...)))
	set := func(image, content string) error {
		return apply(t, fmt.Sprintf("apiVersion: v1\nkind: Secret\ntype: kubernetes.io/tls\nmetadata: {name: pair, namespace: %s}\nstringData: {tls.crt: %[2]s, tls.key: %[2]s}\n---\n", ns, pair)+
			webServer(ns, "web", fmt.Sprintf(`{image: "%s", replicas: 3, service: {type: NodePort}, rollout: {maxUnavailable: 0}, tls: {secretRef: {name: pair}, http3: true},
  content: {files: {index.html: "%s"}}, config: {inline: "http2 on;\nlocation = /own { add_header X-Own a; return 200; }\nlocation = /none { return 404; }"}}`, image, content)))
	}
	change := func(image, content string) {
		t.Helper()
		if err := set(image, content); err != nil {
			t.Fatal(err)
		}
		webReady(t, ns)
		time.Sleep(12 * time.Second) // the earlier pods end
	}
	change("nginx:1.26", "first")
	urls := []string{
		"https://" + kubectl(t, "-n", ns, "get", "service", "web-service", "-o", "jsonpath={.spec.clusterIP}"),
		webURL(t, ns, "https", "httpsNodePort"),
	}
	for _, url := range urls {
		for _, path := range []string{"/", "/own", "/none"} {
			if got := announced(t, url+path); got != url {
				t.Errorf("%s%s announces HTTP/3 at %s", url, path, got)
			}
		}
	}
	var loads []*http3Load
	for i, url := range urls {
		port := 10000 + 10000*i
		loads = append(loads, startHTTP3(t, "-url", url, "-rate", "10", "-port", strconv.Itoa(port)),
			startHTTP3(t, "-url", url, "-rate", "20", "-kept", "6", "-port", strconv.Itoa(port+5000)))
	}
	for i, image := range slices.Repeat([]string{"nginx:1.26", "nginx:1.30"}, 2) {
		change(image, fmt.Sprint("content ", i))
		change(image, fmt.Sprint("another content ", i))
	}
	for i, l := range loads {
		r := l.stop(t)
		t.Logf("%s: %+v", strings.Join(l.cmd.Args[1:], " "), r)
		if r.Requests < 1000 || len(r.Failed) > 0 || i%2 == 0 && r.Again > 0 {
			t.Errorf("%d requests, %d sent again, failed: %v", r.Requests, r.Again, r.Failed)
		}
	}
	if err := set("nginx:1.27.4", "third"); err != nil {
		t.Fatal(err)
	}
	eventuallyPrints(t, "RolledBack", "-n", ns, "get", "webserver", "web", "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].reason}`)
	message := kubectl(t, "-n", ns, "get", "webserver", "web", "-o", `jsonpath={.status.conditions[?(@.type=="ConfigValid")].message}`)
	if want := "the nginx of the image has no HTTP/3. Use another image, or remove spec.tls.http3"; !strings.Contains(message, want) {
		t.Errorf("%q does not say %q", message, want)
	}
}

// announced returns the URL at which a response over HTTP/2 announces HTTP/3.
func announced(t *testing.T, url string) string {
	t.Helper()
	c := newClient()
	c.Transport.(*http.Transport).ForceAttemptHTTP2 = true
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	port, found := strings.CutPrefix(res.Header.Get("Alt-Svc"), `h3=":`)
	port, _, _ = strings.Cut(port, `"`)
	if res.ProtoMajor != 2 || !found {
		return fmt.Sprintf("none (%s, %v)", res.Proto, res.Header)
	}
	at := "https://" + req.URL.Hostname()
	if port != "443" {
		at += ":" + port
	}
	return at
}
