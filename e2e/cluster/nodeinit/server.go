package nodeinit

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/platform-operator/platform-operator/e2e/cluster/config"
	"github.com/platform-operator/platform-operator/e2e/cluster/control"
	"github.com/platform-operator/platform-operator/e2e/cluster/probe"
)

func (n *supervisedNode) handler() (http.Handler, error) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+control.PathStatus, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(n.states(r.Context()))
	})
	mux.HandleFunc("GET "+control.PathDNS, func(w http.ResponseWriter, r *http.Request) {
		respond(w, probe.DNS().Ask(r.Context()))
	})
	mux.HandleFunc("POST "+control.PathForget, func(w http.ResponseWriter, r *http.Request) {
		respond(w, n.forgetImage(r.Context(), r.FormValue("image")))
	})
	if n.node == config.ControlNode {
		proxy, err := n.apiServerProxy()
		if err != nil {
			return nil, err
		}
		mux.Handle(control.PathAPIServer+"/", http.StripPrefix(control.PathAPIServer, proxy))
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
	dir := n.PKIDir()
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
	target, err := url.Parse(config.APIServerURL())
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
	_, exited, err := n.reaper.Start(filepath.Join(n.BinDir(), "ctr"),
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
