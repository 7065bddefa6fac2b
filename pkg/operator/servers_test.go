package operator_test

import (
	"crypto/tls"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/platform-operator/platform-operator/pkg/operator"
	"github.com/platform-operator/platform-operator/pkg/testkit"
)

// TestServers_AreBounded starts the servers of a replica without an API server.
func TestServers_AreBounded(t *testing.T) {
	o := operator.Options{MetricsAddress: testkit.FreeAddress(t), ProbeAddress: testkit.FreeAddress(t), SkipNameValidation: true}
	mgr, err := operator.New(&rest.Config{Host: "http://127.0.0.1:1"}, runtime.NewScheme(), o.Servers())
	if err != nil {
		t.Fatal(err)
	}
	testkit.Run(t, mgr)
	c := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // of this test
	for _, tc := range []struct {
		url    string
		header int // length
		want   int
	}{
		{"https://" + o.MetricsAddress + "/metrics", 0, http.StatusUnauthorized},
		{"https://" + o.MetricsAddress + "/metrics", 4 << 10, http.StatusUnauthorized},
		{"https://" + o.MetricsAddress + "/metrics", 16 << 10, http.StatusRequestHeaderFieldsTooLarge},
		{"http://" + o.ProbeAddress + "/healthz", 0, http.StatusOK},
		{"http://" + o.ProbeAddress + "/readyz", 0, http.StatusOK},
		{"http://" + o.ProbeAddress + "/readyz/ping", 0, http.StatusOK},
		{"http://" + o.ProbeAddress + "/metrics", 0, http.StatusNotFound},
		{"http://" + o.ProbeAddress + "/readyz", 16 << 10, http.StatusRequestHeaderFieldsTooLarge},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, tc.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("A", strings.Repeat("a", tc.header))
		answer, err := c.Do(r)
		if err != nil {
			t.Errorf("%s: %v", tc.url, err)
			continue
		}
		_ = answer.Body.Close()
		if answer.StatusCode != tc.want {
			t.Errorf("%s with a header of %d bytes answers %d, want %d", tc.url, tc.header, answer.StatusCode, tc.want)
		}
	}
}
