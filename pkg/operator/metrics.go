package operator

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// reviewTimeout limits the two requests to the API server that a scrape causes.
const reviewTimeout = 10 * time.Second

// metricsOptions returns the options of the metrics endpoint, which uses TLS
// and requires a bearer token of a user with permission to get the URL
// /metrics.
func metricsOptions(o Options) metricsserver.Options {
	return metricsserver.Options{
		BindAddress:    o.MetricsAddress,
		SecureServing:  true,
		FilterProvider: reviewed,
		TLSOpts: []func(*tls.Config){secure, func(c *tls.Config) {
			// If it is nil, the server generates a self-signed certificate.
			c.GetCertificate = o.MetricsCertificate
		}},
	}
}

// secure configures the TLS servers. HTTP/2 is disabled because of its rapid
// reset vulnerability; neither scrapes nor admission requests need it.
func secure(c *tls.Config) {
	c.MinVersion = tls.VersionTLS12
	c.NextProtos = []string{"http/1.1"}
}

// reviewed returns a filter that accepts requests which the API server
// authorizes. It does the same as that of controller-runtime, which would add
// all of k8s.io/apiserver to the binary, and which responds to an invalid token
// with an internal error.
func reviewed(cfg *rest.Config, httpClient *http.Client) (metricsserver.Filter, error) {
	c, err := kubernetes.NewForConfigAndClient(cfg, httpClient)
	if err != nil {
		return nil, fmt.Errorf("making the client that reviews who reads metrics: %w", err)
	}
	limits := newReviews()
	return func(log logr.Logger, next http.Handler) (http.Handler, error) {
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
		}), nil
	}, nil
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
