package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// requestTimeout is how long a client may take to say what it wants.
const requestTimeout = 10 * time.Second

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

func (n *supervisedNode) handler() (http.Handler, error) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+pathStatus, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(n.states(r.Context()))
	})
	onComponent := func(do func(*process, context.Context) error) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			p, err := n.find(r.FormValue("component"))
			if err == nil {
				err = do(p, r.Context())
			}
			respond(w, err)
		}
	}
	mux.HandleFunc("POST "+pathKill, onComponent((*process).kill))
	mux.HandleFunc("POST "+pathStart, onComponent((*process).start))
	mux.HandleFunc("GET "+pathDNS, func(w http.ResponseWriter, r *http.Request) {
		respond(w, dnsProbe().ask(r.Context()))
	})
	mux.HandleFunc("POST "+pathForget, func(w http.ResponseWriter, r *http.Request) {
		respond(w, n.forgetImage(r.Context(), r.FormValue("image")))
	})
	if n.node == controlNode {
		proxy, err := n.apiServerProxy()
		if err != nil {
			return nil, err
		}
		mux.Handle(pathAPIServer+"/", http.StripPrefix(pathAPIServer, proxy))
	}
	return mux, nil
}

func respond(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// apiServerProxy forwards requests to the API server with admin's certificate.
func (n *supervisedNode) apiServerProxy() (http.Handler, error) {
	dir := n.pkiDir()
	cert, err := tls.LoadX509KeyPair(filepath.Join(dir, "admin.crt"), filepath.Join(dir, "admin.key"))
	if err != nil {
		return nil, fmt.Errorf("loading admin's certificate: %w", err)
	}
	ca, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		return nil, fmt.Errorf("loading the certificate authority: %w", err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	target, err := url.Parse(apiServerURL())
	if err != nil {
		return nil, fmt.Errorf("parsing the API server's address: %w", err)
	}
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = target.Host
		},
		// While the API server starts, failing is normal and not worth a log.
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusBadGateway)
		},
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{cert}}},
	}, nil
}

// forgetImage drops an image from the node, so that the next pod pulls what
// was pushed under its name since. Containers that run from it go on.
func (n *supervisedNode) forgetImage(ctx context.Context, image string) error {
	out, err := os.CreateTemp("", "forget-image-*")
	if err != nil {
		return fmt.Errorf("forgetting image %s: %w", image, err)
	}
	defer func() { _ = os.Remove(out.Name()) }()
	defer func() { _ = out.Close() }()
	_, exited, err := n.reaper.start(filepath.Join(n.binDir(), "ctr"),
		[]string{"--namespace", "k8s.io", "images", "remove", image}, out)
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case status := <-exited:
		said, _ := os.ReadFile(out.Name())
		if status.ExitStatus() != 0 && !strings.Contains(string(said), "not found") {
			return fmt.Errorf("forgetting image %s: %s", image, strings.TrimSpace(string(said)))
		}
		return nil
	}
}

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
