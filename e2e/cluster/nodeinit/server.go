package nodeinit

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/platform-operator/platform-operator/e2e/cluster/control"
	"github.com/platform-operator/platform-operator/e2e/cluster/probe"
)

func (n *supervisedNode) handler() http.Handler {
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
	return mux
}

func respond(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusNoContent)
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
