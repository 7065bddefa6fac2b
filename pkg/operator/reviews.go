package operator

import (
	"crypto/sha256"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/platform-operator/platform-operator/pkg/httplimit"
)

// Everything that can connect to the metrics endpoint can send tokens to it, each of
// which the API server has to review, for the same user as all other requests of the
// operator. Therefore reviews of tokens that were never accepted are limited, per
// address and in all, and those of accepted tokens are separate: a scrape does not
// wait for them.
const (
	// reviewsAtATime is the maximum number of concurrent reviews of unknown tokens,
	// and again of known ones.
	reviewsAtATime = 8
	// reviewsPerAddress is the part of them that one address may take.
	reviewsPerAddress = 2
	// reviewRate is the number of unknown tokens that are reviewed per second, and
	// reviewBurst the number of those at once. The limits of one address are lower.
	// Several replicas of Prometheus may have the address of their node.
	reviewRate            = 10
	reviewBurst           = 40
	reviewRatePerAddress  = 1
	reviewBurstPerAddress = 16

	// knownFor is how long after its last review an accepted token is known.
	// It is longer than any interval of scrapes.
	knownFor = time.Hour
	// refusedFor is how long a refused request is refused again without a review.
	// A permission that is granted in the meantime takes effect after it.
	refusedFor = 10 * time.Second
	// maxKnown and maxRefused limit the memory.
	maxKnown   = 256
	maxRefused = 1024
)

// reviews decides which requests are reviewed.
type reviews struct {
	known, unknown *semaphore.Weighted
	limiter        flowcontrol.RateLimiter
	// accepted contains the hashes of tokens, and refused those of requests, with the
	// status.
	accepted, refused *cache.LRUExpireCache

	mu        sync.Mutex
	addresses *cache.LRUExpireCache
}

// address limits the reviews that one client causes.
type address struct {
	places  *semaphore.Weighted
	limiter flowcontrol.RateLimiter
}

func newReviews() *reviews {
	return &reviews{
		known: semaphore.NewWeighted(reviewsAtATime), unknown: semaphore.NewWeighted(reviewsAtATime),
		limiter:  flowcontrol.NewTokenBucketRateLimiter(reviewRate, reviewBurst),
		accepted: cache.NewLRUExpireCache(maxKnown), refused: cache.NewLRUExpireCache(maxRefused),
		addresses: cache.NewLRUExpireCache(maxRefused),
	}
}

// review reviews a request, unless it was refused just before or the limits do not
// allow it. It returns the HTTP status to respond with.
func (l *reviews) review(r *http.Request, c kubernetes.Interface) (int, error) {
	token := bearer(r)
	if token == "" {
		return http.StatusUnauthorized, nil
	}
	hash := sha256.Sum256([]byte(token))
	request := sha256.Sum256([]byte(r.Method + " " + r.URL.Path + " " + token))
	if code, ok := l.refused.Get(request); ok {
		return code.(int), nil
	}
	release, code := l.admit(hash, r.RemoteAddr)
	if code != http.StatusOK {
		return code, nil
	}
	defer release()
	code, err := review(r, token, c)
	switch {
	case err != nil: // nothing is known about the token
	case code == http.StatusOK:
		l.accepted.Add(hash, nil, knownFor)
	default:
		l.accepted.Remove(hash)
		l.refused.Add(request, code, refusedFor)
	}
	return code, err
}

// admit takes a place for a review, which release returns. If the status is not 200,
// there is none.
func (l *reviews) admit(token [sha256.Size]byte, remote string) (release func(), code int) {
	if _, ok := l.accepted.Get(token); ok {
		if !l.known.TryAcquire(1) {
			return nil, http.StatusServiceUnavailable
		}
		return func() { l.known.Release(1) }, http.StatusOK
	}
	a := l.address(remote)
	if !a.places.TryAcquire(1) {
		return nil, http.StatusTooManyRequests
	}
	if !l.unknown.TryAcquire(1) {
		a.places.Release(1)
		return nil, http.StatusServiceUnavailable
	}
	release = func() {
		l.unknown.Release(1)
		a.places.Release(1)
	}
	switch {
	case !a.limiter.TryAccept():
		code = http.StatusTooManyRequests
	case !l.limiter.TryAccept():
		code = http.StatusServiceUnavailable
	default:
		return release, http.StatusOK
	}
	release()
	return nil, code
}

// address returns the limits of a client, without its port.
func (l *reviews) address(remote string) *address {
	remote = httplimit.Host(remote)
	l.mu.Lock()
	defer l.mu.Unlock()
	a, ok := l.addresses.Get(remote)
	if !ok {
		a = &address{semaphore.NewWeighted(reviewsPerAddress), flowcontrol.NewTokenBucketRateLimiter(reviewRatePerAddress, reviewBurstPerAddress)}
	}
	l.addresses.Add(remote, a, knownFor) // again, so that it does not expire while it is used
	return a.(*address)
}
