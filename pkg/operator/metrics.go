package operator

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	certutil "k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/platform-operator/platform-operator/pkg/httplimit"
)

// reviewTimeout limits the two requests to the API server that a scrape causes.
const reviewTimeout = 10 * time.Second

// serveMetrics adds the metrics endpoint, which uses TLS and requires a bearer token of a
// user with permission to get the URL /metrics. That of controller-runtime, like its
// health endpoint, has no limits of connections and headers.
func serveMetrics(mgr manager.Manager, o Options) error {
	if o.MetricsAddress == disabled {
		return nil
	}
	c, err := kubernetes.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("making the client that reviews who reads metrics: %w", err)
	}
	certificate := o.MetricsCertificate
	if certificate == nil {
		own, err := selfSigned()
		if err != nil {
			return err
		}
		certificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return own, nil }
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", reviewed(c, mgr.GetLogger(), promhttp.HandlerFor(metrics.Registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError})))
	return serve(mgr, "metrics", o.MetricsAddress, mux, secure(certificate))
}

// serveHealth adds the health endpoint.
func serveHealth(mgr manager.Manager, address string, ready map[string]healthz.Checker) error {
	if address == disabled {
		return nil
	}
	mux := http.NewServeMux()
	for path, checks := range map[string]map[string]healthz.Checker{"/healthz": {"ping": healthz.Ping}, "/readyz": ready} {
		handler := http.StripPrefix(path, &healthz.Handler{Checks: checks})
		mux.Handle(path, handler)
		mux.Handle(path+"/", handler) // a single check
	}
	return serve(mgr, "health", address, mux, nil)
}

const (
	// disabled is the address of an endpoint that is not served.
	disabled = "0"
	// maxConnections limits the connections of the metrics and the health endpoint. The
	// clients of each are a few.
	maxConnections = 64
)

// serve adds a server to a manager. Its port is in use from now on.
func serve(mgr manager.Manager, name, address string, h http.Handler, config *tls.Config) error {
	l, err := httplimit.Listen(context.Background(), address, maxConnections)
	if err != nil {
		return fmt.Errorf("serving %s: %w", name, err)
	}
	if config != nil {
		l = tls.NewListener(l, config)
	}
	return mgr.Add(&manager.Server{Name: name, Server: httplimit.NewServer(h), Listener: l}) //nolint:wrapcheck // it is complete
}

// secure returns the configuration of the TLS servers. HTTP/2 is disabled because of its
// rapid reset vulnerability; neither scrapes nor admission requests need it.
func secure(certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, GetCertificate: certificate}
}

// selfSigned returns a certificate for a metrics endpoint without webhooks.
func selfSigned() (*tls.Certificate, error) {
	cert, key, err := certutil.GenerateSelfSignedCertKey("localhost", nil, nil)
	if err != nil {
		return nil, fmt.Errorf("generating the certificate of the metrics: %w", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("loading the certificate of the metrics: %w", err)
	}
	return &pair, nil
}

// reviewed returns a handler that accepts requests which the API server authorizes. It
// does the same as the filter of controller-runtime, which would add all of
// k8s.io/apiserver to the binary, and which responds to an invalid token with an internal
// error.
func reviewed(c kubernetes.Interface, log logr.Logger, next http.Handler) http.Handler {
	limits := newReviews()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		code, err := limits.review(r, c)
		if err != nil {
			log.Error(err, "Failed to ask who reads metrics")
		}
		if code != http.StatusOK {
			http.Error(w, http.StatusText(code), code)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// bearer returns the token of a request, or "".
func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// review authenticates the token of a request and authorizes its user with the
// API server. It returns the HTTP status to respond with.
func review(r *http.Request, token string, c kubernetes.Interface) (int, error) {
	ctx, cancel := context.WithTimeout(r.Context(), reviewTimeout)
	defer cancel()
	who, err := c.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token},
	}, metav1.CreateOptions{})
	if err != nil {
		return http.StatusInternalServerError, fmt.Errorf("reviewing a token: %w", err)
	}
	if !who.Status.Authenticated {
		return http.StatusUnauthorized, nil
	}
	user := who.Status.User
	may, err := c.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra(user.Extra),
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: r.URL.Path, Verb: strings.ToLower(r.Method)},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return http.StatusInternalServerError, fmt.Errorf("reviewing the permissions of %q: %w", user.Username, err)
	}
	if !may.Status.Allowed {
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}

func extra(of map[string]authenticationv1.ExtraValue) map[string]authorizationv1.ExtraValue {
	same := make(map[string]authorizationv1.ExtraValue, len(of))
	for k, v := range of {
		same[k] = authorizationv1.ExtraValue(v)
	}
	return same
}
