//go:build envtest

package operator_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/platform-operator/platform-operator/pkg/operator"
	"github.com/platform-operator/platform-operator/pkg/testkit"
)

// roles returns the ClusterRoles of config/rbac/cluster_role.yaml.
func roles(t *testing.T) map[string]*rbacv1.ClusterRole {
	t.Helper()
	raw, err := os.ReadFile("../../config/rbac/cluster_role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*rbacv1.ClusterRole{}
	for doc := range strings.SplitSeq(string(raw), "\n---\n") {
		r := &rbacv1.ClusterRole{}
		if err := yaml.Unmarshal([]byte(doc), r); err != nil {
			t.Fatal(err)
		}
		if r.Kind == "ClusterRole" {
			all[r.Name] = r
		}
	}
	return all
}

// certificate returns a certificate for 127.0.0.1, and the pool that trusts it.
func certificate(t *testing.T) (*tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, pool
}

// tokenOf creates a service account, and returns a token for it.
func tokenOf(t *testing.T, c client.Client, ns, name string) string {
	t.Helper()
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
	if err := c.Create(t.Context(), sa); err != nil {
		t.Fatal(err)
	}
	r := &authenticationv1.TokenRequest{}
	if err := c.SubResource("token").Create(t.Context(), sa, r); err != nil {
		t.Fatal(err)
	}
	return r.Status.Token
}

// TestMetrics_RequireThePermission runs a manager that has only the
// permissions in config/ for cluster-scoped resources.
func TestMetrics_RequireThePermission(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	env, err := testkit.StartShared(scheme)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = env.Stop() })
	ns := env.NewNamespace(t)
	for role, subject := range map[string]rbacv1.Subject{
		"platform-operator-cluster":        {Kind: "User", APIGroup: rbacv1.GroupName, Name: "operator"},
		"platform-operator-metrics-reader": {Kind: "ServiceAccount", Namespace: ns, Name: "reader"},
	} {
		r, ok := roles(t)[role]
		if !ok {
			t.Fatalf("there is no ClusterRole %s", role)
		}
		b := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: role}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}, Subjects: []rbacv1.Subject{subject},
		}
		for _, o := range []client.Object{r, b} {
			if err := env.Admin.Create(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = env.Admin.Delete(context.Background(), o) })
		}
	}
	reader, stranger := tokenOf(t, env.Admin, ns, "reader"), tokenOf(t, env.Admin, ns, "stranger")

	cfg := rest.CopyConfig(env.AdminConfig)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: "operator"}
	cert, trusted := certificate(t)
	metrics, probes := testkit.FreeAddress(t), testkit.FreeAddress(t)
	mgr, err := operator.New(cfg, scheme, operator.Options{
		MetricsAddress: metrics, ProbeAddress: probes, SkipNameValidation: true,
		MetricsCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return cert, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Run(t, mgr)

	do := func(method, url, authorization string) (int, string, error) {
		req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
		if err != nil {
			return 0, "", err
		}
		if authorization != "" {
			req.Header.Set("Authorization", authorization)
		}
		req.Close = true
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true}
		res, err := transport.RoundTrip(req)
		if err != nil {
			return 0, "", err
		}
		defer func() { _ = res.Body.Close() }()
		body, _ := io.ReadAll(res.Body) // the response to plain HTTP may be cut off
		if res.ProtoMajor != 1 {
			t.Errorf("%s answers by %s", url, res.Proto)
		}
		return res.StatusCode, string(body), nil
	}
	if err := testkit.Eventually(t.Context(), "the manager to serve", func(context.Context) (bool, error) {
		_, _, err := do("GET", "https://"+metrics+"/metrics", "")
		return err == nil, err
	}); err != nil {
		t.Fatal(err)
	}

	for name, tc := range map[string]struct {
		method, url, authorization string
		code                       int
	}{
		"no token":                        {"GET", "https://" + metrics + "/metrics", "", 401},
		"a token of no issuer":            {"GET", "https://" + metrics + "/metrics", "Bearer eyJhbGciOiJub25lIn0.e30.", 401},
		"not a token":                     {"GET", "https://" + metrics + "/metrics", "Basic YTpi", 401},
		"a token without the permission":  {"GET", "https://" + metrics + "/metrics", "Bearer " + stranger, 403},
		"a token with the permission":     {"GET", "https://" + metrics + "/metrics", "Bearer " + reader, 200},
		"a permission to get, and a POST": {"POST", "https://" + metrics + "/metrics", "Bearer " + reader, 403},
		"plain HTTP":                      {"GET", "http://" + metrics + "/metrics", "Bearer " + reader, 400},
		"profiles":                        {"GET", "https://" + metrics + "/debug/pprof/", "Bearer " + reader, 404},
		"profiles at the port of probes":  {"GET", "http://" + probes + "/debug/pprof/", "", 404},
		"metrics at the port of probes":   {"GET", "http://" + probes + "/metrics", "", 404},
		"health, which needs no token":    {"GET", "http://" + probes + "/healthz", "", 200},
		"readiness, which needs no token": {"GET", "http://" + probes + "/readyz", "", 200},
	} {
		t.Run(name, func(t *testing.T) {
			code, body, err := do(tc.method, tc.url, tc.authorization)
			if err != nil || code != tc.code {
				t.Errorf("got %d %q, %v, want %d", code, body, err, tc.code)
			}
			has := strings.Contains(body, "controller_runtime_") || strings.Contains(body, "go_goroutines")
			if has != (tc.code == 200 && strings.HasSuffix(tc.url, "/metrics")) {
				t.Errorf("metrics in the answer: %v", has)
			}
		})
	}

	for name, tc := range map[string]struct {
		config *tls.Config
		want   string // negotiated protocol; "" if the connection is rejected
	}{
		"HTTP/2 or HTTP/1.1": {&tls.Config{NextProtos: []string{"h2", "http/1.1"}}, "http/1.1"},
		"HTTP/2 alone":       {&tls.Config{NextProtos: []string{"h2"}}, ""},
		"TLS 1.2":            {&tls.Config{NextProtos: []string{"http/1.1"}, MaxVersion: tls.VersionTLS12}, "http/1.1"}, //nolint:gosec // the test checks what is accepted
		"TLS 1.1":            {&tls.Config{NextProtos: []string{"http/1.1"}, MaxVersion: tls.VersionTLS11}, ""},         //nolint:gosec // the test checks what is rejected
	} {
		t.Run(name, func(t *testing.T) {
			c := tc.config.Clone()
			c.RootCAs, c.MinVersion = trusted, tls.VersionTLS10
			conn, err := (&tls.Dialer{Config: c}).DialContext(t.Context(), "tcp", metrics)
			got := ""
			if err == nil {
				got = conn.(*tls.Conn).ConnectionState().NegotiatedProtocol
				_ = conn.Close()
			}
			if got != tc.want {
				t.Errorf("agreed on %q, %v, want %q", got, err, tc.want)
			}
		})
	}
}
