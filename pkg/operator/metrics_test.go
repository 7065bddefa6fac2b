package operator

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// reviewer is an API server that only reviews tokens: "prometheus" may get the
// metrics, "stranger" may not, and the others are invalid. It holds the reviews of
// tokens that begin with "slow" until the test ends.
type reviewer struct {
	tokens, accesses atomic.Int32
	held             sync.WaitGroup
	revoked          atomic.Bool
	release          chan struct{}
}

func (v *reviewer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case "/apis/authentication.k8s.io/v1/tokenreviews":
		v.tokens.Add(1)
		var t authenticationv1.TokenReview
		_ = json.NewDecoder(r.Body).Decode(&t)
		if strings.HasPrefix(t.Spec.Token, "slow") {
			v.held.Done()
			<-v.release
		}
		t.Status.Authenticated = !v.revoked.Load() && (t.Spec.Token == "prometheus" || t.Spec.Token == "stranger")
		t.Status.User.Username = t.Spec.Token
		_ = json.NewEncoder(w).Encode(t)
	default:
		v.accesses.Add(1)
		var a authorizationv1.SubjectAccessReview
		_ = json.NewDecoder(r.Body).Decode(&a)
		a.Status.Allowed = a.Spec.User == "prometheus"
		_ = json.NewEncoder(w).Encode(a)
	}
}

// reviewing returns the API server, and a function that requests the metrics and
// returns the status.
func reviewing(t *testing.T) (*reviewer, func(address, token string) int) {
	t.Helper()
	v := &reviewer{release: make(chan struct{})}
	api := httptest.NewServer(v)
	t.Cleanup(api.Close)
	c, err := kubernetes.NewForConfigAndClient(&rest.Config{Host: api.URL, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}, api.Client())
	if err != nil {
		t.Fatal(err)
	}
	metrics := reviewed(c, logr.Discard(), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	return v, func(address, token string) int {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
		r.RemoteAddr = net.JoinHostPort(address, "40000")
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		metrics.ServeHTTP(w, r)
		return w.Code
	}
}

func TestMetrics_UnknownTokensDoNotLockOutKnownOnes(t *testing.T) {
	v, get := reviewing(t)
	if code := get("192.0.2.1", "prometheus"); code != http.StatusOK {
		t.Fatalf("Prometheus gets %d", code)
	}
	// Tokens whose review takes long, from many addresses: until none is reviewed any
	// more.
	var busy sync.WaitGroup
	v.held.Add(reviewsAtATime)
	for i := range reviewsAtATime {
		busy.Go(func() { get(fmt.Sprintf("198.51.100.%d", i+1), fmt.Sprintf("slow%d", i)) })
	}
	v.held.Wait()
	defer busy.Wait()
	defer close(v.release)
	if code := get("203.0.113.1", "another"); code != http.StatusServiceUnavailable {
		t.Errorf("an unknown token gets %d while the reviews are busy, want 503", code)
	}
	if code := get("192.0.2.1", "prometheus"); code != http.StatusOK {
		t.Errorf("Prometheus gets %d while the reviews are busy, want 200", code)
	}
}

func TestMetrics_OneAddressDoesNotTakeAllReviews(t *testing.T) {
	v, get := reviewing(t)
	v.held.Add(reviewsPerAddress)
	var busy sync.WaitGroup
	for i := range reviewsPerAddress {
		busy.Go(func() { get("198.51.100.1", fmt.Sprintf("slow%d", i)) })
	}
	v.held.Wait()
	defer busy.Wait()
	defer close(v.release)
	if code := get("198.51.100.1", "one more"); code != http.StatusTooManyRequests {
		t.Errorf("one more token from the address gets %d, want 429", code)
	}
	if code := get("192.0.2.1", "prometheus"); code != http.StatusOK {
		t.Errorf("Prometheus, from another address, gets %d, want 200", code)
	}
}

func TestMetrics_RefusedTokensAreNotReviewedAgain(t *testing.T) {
	v, get := reviewing(t)
	for range 20 {
		if code := get("198.51.100.1", "invalid"); code != http.StatusUnauthorized {
			t.Errorf("an invalid token gets %d, want 401", code)
		}
		if code := get("198.51.100.2", "stranger"); code != http.StatusForbidden {
			t.Errorf("a token without the permission gets %d, want 403", code)
		}
	}
	if tokens, accesses := v.tokens.Load(), v.accesses.Load(); tokens != 2 || accesses != 1 {
		t.Errorf("the API server is asked for %d tokens and %d permissions, want 2 and 1", tokens, accesses)
	}
}

func TestMetrics_LimitsTheReviewsOfUnknownTokens(t *testing.T) {
	v, get := reviewing(t)
	begin := time.Now()
	for i := range 1000 {
		get("198.51.100.1", fmt.Sprint("one address, ", i))
	}
	refilled := func(rate int) int32 { return int32(rate * (1 + int(time.Since(begin).Seconds()))) } //nolint:gosec // the test does not take years
	if n := v.tokens.Load(); n < reviewBurstPerAddress || n > reviewBurstPerAddress+refilled(reviewRatePerAddress) {
		t.Errorf("1000 tokens from one address cause %d reviews", n)
	}
	for i := range 1000 {
		get(fmt.Sprintf("2001:db8::%x", i), fmt.Sprint("many addresses, ", i))
	}
	if n := v.tokens.Load(); n > reviewBurst+refilled(reviewRate) {
		t.Errorf("1000 tokens from many addresses cause %d reviews", n)
	}
}

// A token that was revoked is reviewed like an unknown one.
func TestMetrics_RefusedTokensAreUnknown(t *testing.T) {
	v, get := reviewing(t)
	get("192.0.2.1", "prometheus")
	v.revoked.Store(true)
	if code := get("192.0.2.1", "prometheus"); code != http.StatusUnauthorized {
		t.Errorf("a revoked token gets %d, want 401", code)
	}
	for range reviewBurst {
		get("192.0.2.1", "prometheus")
	}
	if n := v.tokens.Load(); n != 2 {
		t.Errorf("%d reviews, want 2", n)
	}
}
