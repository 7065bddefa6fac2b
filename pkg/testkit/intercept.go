package testkit

import (
	"net/http"

	"k8s.io/client-go/rest"
)

// Intercept makes send carry out all requests of the clients that are created from
// cfg. next sends a request to the server.
func Intercept(cfg *rest.Config, send func(next http.RoundTripper, r *http.Request) (*http.Response, error)) {
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) { return send(next, r) })
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
