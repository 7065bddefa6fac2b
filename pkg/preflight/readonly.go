package preflight

import (
	"fmt"
	"net/http"

	"k8s.io/client-go/rest"

	"github.com/platform-operator/platform-operator/pkg/naming"
)

// ReadOnly returns a copy of a configuration with which nothing but reading is
// possible: every other request fails before it leaves this process.
func ReadOnly(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1 // a few lists; what else is there is at most one read a reference
	cfg.UserAgent = naming.ManagedBy + "-preflight"
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return readOnly{next} })
	return cfg
}

type readOnly struct{ next http.RoundTripper }

// RoundTrip lets GET through.
func (r readOnly) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodGet {
		if req.Body != nil {
			_ = req.Body.Close() // as RoundTrip must
		}
		return nil, fmt.Errorf("preflight only reads: %s %s is refused", req.Method, req.URL.Path)
	}
	return r.next.RoundTrip(req)
}
