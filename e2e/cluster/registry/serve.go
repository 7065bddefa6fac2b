package registry

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"time"
)

// headerTimeout limits how long a client may take to send a request.
const headerTimeout = 10 * time.Second

// Serve is the life of the registry component. It listens inside the
// cluster's network for containerd, and on a unix socket for `cluster load`,
// which is outside.
func Serve(ctx context.Context, dir, address, socket string) error {
	s, err := Open(dir)
	if err != nil {
		return err
	}
	tcp, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("listening for image pulls: %w", err)
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the old registry socket: %w", err)
	}
	unix, err := net.Listen("unix", socket)
	if err != nil {
		return fmt.Errorf("listening for image pushes: %w", err)
	}
	server := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: headerTimeout,
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	done := make(chan error, 2)
	for _, l := range []net.Listener{tcp, unix} {
		go func() { done <- server.Serve(l) }()
	}
	return <-done
}
