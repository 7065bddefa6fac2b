package preflight

import (
	"fmt"
	"net/http"

	"k8s.io/client-go/rest"

	"github.com/platform-operator/platform-operator/pkg/naming"
)

// ReadOnly returns a copy of a configuration that allows only reads: every
// other request fails before it is sent.
func ReadOnly(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1 // unlimited: only a few lists, and at most one read per reference
	cfg.UserAgent = naming.ManagedBy + "-preflight"
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return readOnly{next} })
	return cfg
}

type readOnly struct{ next http.RoundTripper }

// RoundTrip forwards GET requests and refuses all others.
func (r readOnly) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodGet {
		if req.Body != nil {
			_ = req.Body.Close() // required of a RoundTripper
		}
		return nil, fmt.Errorf("preflight only reads: %s %s is refused", req.Method, req.URL.Path)
	}
	return r.next.RoundTrip(req)
}
