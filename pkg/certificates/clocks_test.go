package certificates

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// replica is a keeper whose clock is wrong by skew, and that sends requests to
// an API server whose clock may also be wrong. If dated is false, responses
// have no Date header.
type replica struct {
	*world
	*Rotator
	clock  clock
	skew   time.Duration
	server time.Duration
	dated  bool
}

func newReplica(w *world, l Lifetimes, skew time.Duration) *replica {
	r := &replica{world: w, skew: skew}
	r.Rotator = &Rotator{Secret: "cert", Configuration: "op", Services: []string{"hook", "metrics"}, Lifetimes: l}
	r.clock.local = func() time.Time { return w.now.Add(r.skew) }
	r.init(r, "ns", func() time.Time { return w.now }, r.clock.now)
	return r
}

func (r *replica) readSecret(ctx context.Context) (stored, error) {
	if r.dated {
		r.clock.observe(r.world.now.Add(r.server).Format(http.TimeFormat))
	}
	return r.world.readSecret(ctx)
}

// settle lets all replicas reconcile, as their watches do, until none of them
// has anything to do immediately. Each replica observes every change of the
// Secret.
func settle(w *world, replicas ...*replica) {
	w.t.Helper()
	for rounds, due := 0, true; due; rounds++ {
		if rounds == 100 {
			w.t.Fatalf("after %d rounds there is still something to do at once", rounds)
		}
		due = false
		for _, r := range replicas {
			before := w.version
			if again, err := r.keep(w.t.Context()); err != nil {
				w.t.Fatal(err)
			} else if again == 0 {
				due = true
			}
			if w.version != before {
				due = true
			}
			for _, other := range replicas {
				other.take(w.t.Context(), w.data)
			}
		}
	}
}

// refused returns why an API server whose clock is wrong by skew rejects the
// certificate of a replica, or nil.
func refused(w *world, k *Rotator, skew time.Duration) error {
	cert, err := k.GetCertificate(&tls.ClientHelloInfo{})
	if err != nil {
		return err
	}
	for _, c := range w.configs {
		for _, bundle := range c.bundles {
			roots := x509.NewCertPool()
			roots.AppendCertsFromPEM(bundle)
			if _, err := cert.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "hook.ns.svc", CurrentTime: w.now.Add(skew)}); err != nil {
				return fmt.Errorf("%s at an API server whose clock is off by %s: %w", c.kind, skew, err)
			}
		}
	}
	return nil
}

// monthly are lifetimes with several renewals in a simulation of some weeks.
var monthly = Lifetimes{
	Validity: 30 * day, RenewBefore: 10 * day,
	CAValidity: 3650 * day, CARenewBefore: 365 * day,
	Overlap: time.Hour,
}

// TestRotator_IsIndependentOfClocks simulates two replicas and two API servers,
// each with its own clock, for some weeks.
func TestRotator_IsIndependentOfClocks(t *testing.T) {
	const wide = 100 * day
	for name, tc := range map[string]struct {
		local   time.Duration // the error of the replicas' clocks
		dated   bool          // responses have a Date header
		perDay  int           // the maximum number of writes of the Secret in a day
		correct bool          // the clocks are corrected at the end
	}{
		"responses are dated":                      {local: wide, dated: true, perDay: 2},
		"no dates, and clocks differ by less":      {local: backdate/2 - time.Minute, perDay: 2},
		"no dates, and clocks differ by much more": {local: wide, perDay: 2 * 24 * (manyWrites + 1), correct: true},
	} {
		t.Run(name, func(t *testing.T) {
			for seed, wrong := range [][2]time.Duration{{1, -1}, {1, 0}, {-1, 0}} {
				random := rand.New(rand.NewPCG(uint64(seed), 0)) //nolint:gosec // a reproducible simulation
				within := func(d time.Duration) time.Duration { return time.Duration(random.Int64N(int64(2*d))) - d }
				w := newWorld(t)
				first, second := newReplica(w, monthly, wrong[0]*tc.local), newReplica(w, monthly, wrong[1]*tc.local)
				servers := []time.Duration{within(backdate / 2), within(backdate / 2)}
				first.dated, second.dated = tc.dated, tc.dated
				where := fmt.Sprintf("clocks of the replicas off by %s and %s", first.skew, second.skew)

				var writes []time.Time
				for end := w.now.Add(30 * day); w.now.Before(end); {
					first.server, second.server = servers[random.IntN(2)], servers[random.IntN(2)]
					before := w.version
					if random.IntN(2) == 0 {
						settle(w, first, second)
					} else {
						settle(w, second, first)
					}
					for range w.version - before {
						writes = append(writes, w.now)
					}
					if n := len(writes) - tc.perDay; n > 0 && w.now.Sub(writes[n-1]) < day {
						t.Fatalf("%s: the Secret was written more than %d times in a day", where, tc.perDay)
					}
					for _, skew := range servers {
						for _, r := range []*replica{first, second} {
							if err := refused(w, r.Rotator, skew); err != nil && !tc.correct {
								t.Fatalf("%s: %v", where, err)
							}
						}
					}
					w.now = w.now.Add(time.Minute + time.Duration(random.Int64N(int64(day))))
				}
				if len(read(w.data, w.now).bundle) == 0 || len(writes) < 2 {
					t.Errorf("%s: %d writes: the simulation shows nothing", where, len(writes))
				}
				if !tc.correct {
					continue
				}
				first.skew, second.skew = 0, 0
				for end := w.now.Add(monthly.Overlap); !w.now.After(end); w.now = w.now.Add(time.Minute) {
					settle(w, first, second)
				}
				for _, r := range []*replica{first, second} {
					if err := refused(w, r.Rotator, 0); err != nil {
						t.Errorf("%s: %s after the clocks were corrected: %v", where, monthly.Overlap, err)
					}
				}
			}
		})
	}
}

func TestRotator_ReplacesACAThatIsNotValidYet(t *testing.T) {
	w := newWorld(t)
	ahead := newReplica(w, DefaultLifetimes(), 100*day)
	settle(w, ahead)
	if err := refused(w, ahead.Rotator, 0); err == nil {
		t.Fatal("the CA is valid already: the test shows nothing")
	}
	right := newReplica(w, DefaultLifetimes(), 0)
	before := w.writes
	settle(w, right)
	if err := refused(w, right.Rotator, 0); err != nil {
		t.Error(err)
	}
	if n := w.writes - before; n != 3 {
		t.Errorf("%d writes, want one of the Secret and one of each configuration", n)
	}
}

// Another client removes the certificate as soon as it is written. After it
// stops, the certificate is restored within an overlap.
func TestRotator_PausesBetweenWrites(t *testing.T) {
	w := newWorld(t)
	k := w.keeper(DefaultLifetimes())
	var written []time.Time
	for end := w.now.Add(2 * day); w.now.Before(end); {
		before := w.version
		again, err := k.keep(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if w.version != before {
			if n := len(written); n > 0 && w.now.Sub(written[n-1]) < 5*time.Second {
				t.Fatalf("written after %s", w.now.Sub(written[n-1]))
			}
			written = append(written, w.now)
			w.set(nil)
		}
		w.now = w.now.Add(again)
	}
	if n, most := len(written), 48*manyWrites+1; n < 48 || n > most {
		t.Errorf("%d writes in two days, want at most %d", n, most)
	}
	w.rested(w.run(k, 2*time.Hour+k.Lifetimes.Overlap))
}

func TestRotator_RepairsAtOnceAfterALongRest(t *testing.T) {
	w := newWorld(t)
	k := w.run(w.keeper(DefaultLifetimes()), time.Hour)
	w.set(nil)
	if _, err := k.keep(t.Context()); err != nil || len(w.data[corev1.TLSCertKey]) == 0 {
		t.Errorf("no certificate after one reconcile: %v", err)
	}
}

func TestClock_FollowsTheAPIServer(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	local := start
	c := &clock{local: func() time.Time { return local }}
	expect := func(what string, want time.Time) {
		t.Helper()
		if got := c.now(); !got.Equal(want) {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	expect("before the first response", start)
	for _, near := range []time.Duration{-tolerance, tolerance} {
		c.observe(start.Add(near).Format(http.TimeFormat))
		expect("a difference that may be a delay", start)
	}
	server := start.Add(-100 * day)
	c.observe(server.Format(http.TimeFormat))
	expect("a local clock that is ahead", server)
	local = local.Add(time.Hour)
	expect("an hour after the response", server.Add(time.Hour))
	for _, useless := range []string{"", "yesterday"} {
		c.observe(useless)
		expect("a date that cannot be parsed", server.Add(time.Hour))
	}
}

func TestClock_ObservesEveryResponse(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", start.Add(day).Format(http.TimeFormat))
		w.WriteHeader(http.StatusForbidden)
	}))
	defer server.Close()
	c := &clock{local: func() time.Time { return start }}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.wrap(&http.Client{}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if got := c.now(); !got.Equal(start.Add(day)) {
		t.Errorf("got %s, want %s", got, start.Add(day))
	}
}
