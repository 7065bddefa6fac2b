package certificates

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// short are lifetimes with many renewals and rotations in a test.
var short = Lifetimes{
	Validity: 9 * time.Hour, RenewBefore: 3 * time.Hour,
	CAValidity: 20 * time.Hour, CARenewBefore: 12 * time.Hour,
	Overlap: 20 * time.Minute,
}

// lag is how long, in a test, an API server may trust the previous bundle of a
// configuration, and a replica may serve the previous certificate of the
// Secret.
const lag = 15 * time.Minute

var errCrash = errors.New("the operator crashed")

// world is a cluster with a simulated clock. It records which certificates and
// bundles were in place, and when.
type world struct {
	t       *testing.T
	now     time.Time
	data    map[string][]byte
	version int
	release release
	configs [2]configuration
	missing [2]bool // configurations that do not exist
	unread  error   // the error of reading the second configuration
	frozen  bool    // no configuration may be written

	leaves  history
	bundles [2]history
	placed  time.Time // when both configurations first had a bundle

	writes  int
	crashAt int    // the write at which the operator crashes; 0: none
	after   bool   // whether that write is completed before the crash
	between func() // called once between the next reads and their writes
}

// history contains the values that were visible, and since when.
type history []struct {
	from time.Time
	pem  string
}

func (h *history) add(at time.Time, pem string) {
	if n := len(*h); n == 0 || (*h)[n-1].pem != pem {
		*h = append(*h, struct {
			from time.Time
			pem  string
		}{at, pem})
	}
}

// end returns when the i-th value was last used by a replica or an API server.
func (h history) end(i int) time.Time {
	if i+1 < len(h) {
		return h[i+1].from.Add(lag)
	}
	return time.Unix(1<<40, 0)
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	for i, kind := range []string{"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"} {
		w.configs[i] = configuration{kind: kind, version: "1", bundles: [][]byte{nil, nil}}
	}
	return w
}

func (w *world) keeper(l Lifetimes) *Rotator {
	k := &Rotator{Secret: "cert", Configuration: "op", Services: []string{"hook", "metrics"}, Lifetimes: l}
	now := func() time.Time { return w.now }
	k.init(w, "ns", now, now)
	return k
}

func (w *world) readSecret(context.Context) (stored, error) {
	s := stored{data: maps.Clone(w.data), version: strconv.Itoa(w.version), release: maps.Clone(w.release)}
	if f := w.between; f != nil {
		w.between = nil
		f()
	}
	return s, nil
}

func (w *world) writeSecret(_ context.Context, s stored) error {
	return w.write(s.version, strconv.Itoa(w.version), func() {
		w.release = maps.Clone(s.release)
		w.set(s.data)
	})
}

func (w *world) readConfigurations(context.Context) ([]configuration, error) {
	both := []configuration{w.configs[0], w.configs[1]}
	for i := range both {
		if w.missing[i] {
			both[i] = configuration{kind: both[i].kind, missing: true}
		}
	}
	if w.unread != nil {
		return both[:1], w.unread
	}
	return both, nil
}

func (w *world) inject(_ context.Context, c configuration, bundle []byte) error {
	if w.frozen {
		return errors.New("forbidden")
	}
	i := 0
	if c.kind == w.configs[1].kind {
		i = 1
	}
	return w.write(c.version, w.configs[i].version, func() { w.setBundle(i, bundle) })
}

func (w *world) write(read, is string, do func()) error {
	if read != is {
		return apierrors.NewConflict(schema.GroupResource{}, "x", errors.New("it has changed"))
	}
	if w.writes++; w.writes != w.crashAt {
		do()
		return nil
	}
	if w.after {
		do()
	}
	return errCrash
}

// set changes the Secret, as any client may.
func (w *world) set(data map[string][]byte) {
	w.data, w.version = maps.Clone(data), w.version+1
	if m := read(data, w.now); m.serving != nil {
		w.leaves.add(w.now, string(data[corev1.TLSCertKey]))
	}
}

// setBundle changes a configuration, as any client may.
func (w *world) setBundle(i int, bundle []byte) {
	n, _ := strconv.Atoi(w.configs[i].version)
	w.configs[i].version, w.configs[i].bundles = strconv.Itoa(n+1), [][]byte{bundle, bundle}
	w.bundles[i].add(w.now, string(bundle))
	if w.placed.IsZero() && w.configs[0].trusts(bundle) && w.configs[1].trusts(bundle) {
		w.placed = w.now
	}
}

// run advances the clock. After a crash it starts the operator again.
func (w *world) run(k *Rotator, d time.Duration) *Rotator {
	for end, still := w.now.Add(d), 0; w.now.Before(end); {
		again, err := k.keep(w.t.Context())
		switch {
		case errors.Is(err, errCrash):
			k, again = w.keeper(k.Lifetimes), 0
		case err != nil:
			w.t.Fatal(err)
		}
		if still++; again > 0 {
			still = 0
		}
		if still > 20 {
			w.t.Fatal("it does not come to rest")
		}
		k.take(w.t.Context(), w.data) // as the watch does
		w.now = w.now.Add(again)
	}
	return k
}

// failures returns the handshakes that would have failed since the certificate
// was first in place: between a certificate that some replica may have served,
// and a bundle that some API server may have had at the same time.
func (w *world) failures() []string {
	var all []string
	for i, leaf := range w.leaves {
		cert := parse(w.t, leaf.pem)
		if next := w.leaves.end(i); i+1 < len(w.leaves) && cert.NotAfter.Before(next.Add(-lag)) {
			all = append(all, fmt.Sprintf("certificate %d ended at %s, and was served until %s", i, cert.NotAfter, next))
		}
		for c, bundles := range w.bundles {
			for j, bundle := range bundles {
				from, to := later(leaf.from, bundle.from), earlier(w.leaves.end(i), bundles.end(j))
				if from.After(to) || !to.After(w.placed) {
					continue
				}
				roots := x509.NewCertPool()
				roots.AppendCertsFromPEM([]byte(bundle.pem))
				for _, name := range []string{"hook.ns.svc", "metrics.ns.svc"} {
					if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: name, CurrentTime: from}); err != nil {
						all = append(all, fmt.Sprintf("certificate %d with bundle %d of configuration %d, from %s to %s: %v", i, j, c, from, to, err))
					}
				}
			}
		}
	}
	return all
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func parse(t *testing.T, raw string) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode([]byte(raw))
	if block == nil {
		t.Fatalf("no certificate in %q", raw)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// rested fails the test if the world is not consistent when there is nothing
// left to do.
func (w *world) rested(k *Rotator) {
	w.t.Helper()
	m := read(w.data, w.now)
	if m.signer == nil || m.serving == nil || len(m.bundle) != 1 || !m.signedBy(m.bundle[0]) {
		w.t.Errorf("it ends with %d CAs, key %t, certificate %t", len(m.bundle), m.signer != nil, m.serving != nil)
	}
	for _, c := range w.configs {
		if !c.trusts(w.data[bundleKey]) {
			w.t.Errorf("%s has another bundle", c.kind)
		}
	}
	if err := k.Ready(nil); err != nil {
		w.t.Errorf("it is not ready: %v", err)
	}
}

func TestRotator_NoHandshakeFailsDuringRotation(t *testing.T) {
	w := newWorld(t)
	k := w.run(w.keeper(short), 28*time.Hour)
	for _, f := range w.failures() {
		t.Error(f)
	}
	w.rested(k)
	// A CA is in place for 8 hours: three rotations, each of which has two CAs
	// for a while, and then one.
	if n := len(w.bundles[0]); n != 7 {
		t.Errorf("%d bundles were injected, want A, BA, B, CB, C, DC, D", n)
	}
	if n := len(w.leaves); n < 6 {
		t.Errorf("only %d certificates", n)
	}
}

func TestRotator_HandshakesFailWithoutOverlap(t *testing.T) {
	w := newWorld(t)
	hasty := short
	hasty.Overlap = 0
	w.run(w.keeper(hasty), 20*time.Hour)
	if len(w.failures()) == 0 {
		t.Error("the tests here would not see a roll that is too quick")
	}
}

func TestRotator_SurvivesACrashAtAnyWrite(t *testing.T) {
	calm := newWorld(t)
	calm.run(calm.keeper(short), 20*time.Hour)
	if calm.writes < 15 {
		t.Fatalf("only %d writes to crash at", calm.writes)
	}
	for n := range calm.writes {
		for _, after := range []bool{false, true} {
			w := newWorld(t)
			w.crashAt, w.after = n+1, after
			k := w.run(w.keeper(short), 20*time.Hour)
			for _, f := range w.failures() {
				t.Errorf("crash at write %d, done %t: %s", n+1, after, f)
			}
			w.rested(k)
		}
	}
	t.Logf("%d crashes", 2*calm.writes)
}

// Two replicas take the same step at the same time: here the second one takes
// all its steps between the reads and the writes of the first.
func TestRotator_TwoReplicasDoNotUndoEachOthersSteps(t *testing.T) {
	w := newWorld(t)
	first, second := w.keeper(short), w.keeper(short)
	conflicts := 0
	for end := w.now.Add(20 * time.Hour); w.now.Before(end); w.now = w.now.Add(5 * time.Minute) {
		w.between = func() {
			for range 3 {
				if _, err := second.keep(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		if _, err := first.keep(t.Context()); apierrors.IsConflict(err) {
			conflicts++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if conflicts == 0 {
		t.Error("they never met")
	}
	for _, f := range w.failures() {
		t.Error(f)
	}
	w.rested(first)
	w.rested(second)
}

func TestRotator_RepairsDamageWithoutAFailedHandshake(t *testing.T) {
	drop := func(keys ...string) func(*world) {
		return func(w *world) {
			data := maps.Clone(w.data)
			for _, k := range keys {
				delete(data, k)
			}
			w.set(data)
		}
	}
	garbage := func(key string) func(*world) {
		return func(w *world) {
			data := maps.Clone(w.data)
			data[key] = []byte("-----BEGIN NONSENSE-----\n")
			w.set(data)
		}
	}
	other := func(keys ...string) func(*world) {
		return func(w *world) {
			foreign, _, err := step(nil, short, []string{"hook.ns.svc", "metrics.ns.svc"}, w.now, false)
			if err != nil {
				w.t.Fatal(err)
			}
			data := maps.Clone(w.data)
			for _, k := range keys {
				data[k] = foreign[k]
			}
			w.set(data)
		}
	}
	for name, tc := range map[string]struct {
		damage func(*world)
		keepCA bool
	}{
		"Secret deleted":                 {drop(bundleKey, caKeyKey, corev1.TLSCertKey, corev1.TLSPrivateKeyKey), false},
		"CA's key gone":                  {drop(caKeyKey), false},
		"CA's key of another":            {other(caKeyKey), false},
		"CA gone":                        {drop(bundleKey), false},
		"CA is garbage":                  {garbage(bundleKey), false},
		"CA of another":                  {other(bundleKey), false},
		"CA of another with its key":     {other(bundleKey, caKeyKey), false},
		"certificate gone":               {drop(corev1.TLSCertKey), true},
		"certificate is garbage":         {garbage(corev1.TLSCertKey), true},
		"certificate's key of another":   {other(corev1.TLSPrivateKeyKey), true},
		"certificate of another, whole":  {other(corev1.TLSCertKey, corev1.TLSPrivateKeyKey), true},
		"both keys gone":                 {drop(caKeyKey, corev1.TLSPrivateKeyKey), false},
		"CA and its key gone":            {drop(bundleKey, caKeyKey), false},
		"certificate and its key absent": {drop(corev1.TLSCertKey, corev1.TLSPrivateKeyKey), true},
	} {
		// At rest, and in each phase of a rotation, which begins after 8 hours.
		for phase, at := range map[string]time.Duration{
			"at rest": time.Hour, "new CA announced": 8*time.Hour + 10*time.Minute, "old CA about to go": 8*time.Hour + 30*time.Minute,
		} {
			t.Run(name+", "+phase, func(t *testing.T) {
				w := newWorld(t)
				k := w.run(w.keeper(short), at)
				w.now = w.placed.Add(at)
				before := read(w.data, w.now)
				if want := 1; at > 2*time.Hour && len(before.bundle) != want+1 {
					t.Fatalf("there is no roll: %d CAs", len(before.bundle))
				}
				tc.damage(w)
				if k.current.Load() == nil {
					t.Fatal("it serves nothing")
				}
				k.take(t.Context(), w.data) // a replica observes it immediately
				w.run(k, 2*time.Hour)
				for _, f := range w.failures() {
					t.Error(f)
				}
				w.rested(k)
				if same := read(w.data, w.now).bundle[0].Equal(before.bundle[0]); same != tc.keepCA {
					t.Errorf("the CA is still the same: %t, want %t", same, tc.keepCA)
				}
			})
		}
	}
}

func TestRotator_RestoresADeletedBundleAtOnce(t *testing.T) {
	w := newWorld(t)
	k := w.run(w.keeper(short), 8*time.Hour+10*time.Minute)
	if n := len(read(w.data, w.now).bundle); n != 2 {
		t.Fatalf("there is no roll: %d CAs", n)
	}
	for i, wiped := range [][]byte{nil, []byte("of another")} {
		w.setBundle(i, wiped)
	}
	at := w.now
	for range 3 {
		if _, err := k.keep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if !w.configs[0].trusts(w.data[bundleKey]) || !w.configs[1].trusts(w.data[bundleKey]) {
		t.Fatal("the bundle is not back")
	}
	// The new CA is not used before it has been in place for the full overlap
	// again.
	w.run(k, short.Overlap-time.Minute)
	if m := read(w.data, w.now); m.signedBy(m.bundle[0]) {
		t.Errorf("signed by the new CA %s after it was put back", w.now.Sub(at))
	}
	w.run(k, time.Hour)
	w.rested(k)
}

// The Secret that the previous rotator wrote: RSA, keys in PKCS #1, no name for
// the metrics.
func TestRotator_AdoptsTheSecretOfThePreviousRotator(t *testing.T) {
	w := newWorld(t)
	pair := func(template, parent *x509.Certificate, parentKey *rsa.PrivateKey) (*x509.Certificate, *rsa.PrivateKey, []byte, []byte) {
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			t.Fatal(err)
		}
		if parent == nil {
			parent, parentKey = template, key
		}
		der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
		if err != nil {
			t.Fatal(err)
		}
		certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
		return parse(t, string(certPEM)), key, certPEM, pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	}
	ca, caKey, caPEM, caKeyPEM := pair(&x509.Certificate{
		SerialNumber: big.NewInt(0), NotBefore: w.now.Add(-time.Hour), NotAfter: w.now.Add(3650 * day), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment | x509.KeyUsageCertSign,
	}, nil, nil)
	_, _, certPEM, keyPEM := pair(&x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: w.now.Add(-time.Hour), NotAfter: w.now.Add(365 * day), DNSNames: []string{"hook.ns.svc"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, ca, caKey)
	w.set(map[string][]byte{bundleKey: caPEM, caKeyKey: caKeyPEM, corev1.TLSCertKey: certPEM, corev1.TLSPrivateKeyKey: keyPEM})
	w.setBundle(0, caPEM)
	w.setBundle(1, caPEM)

	k := w.run(w.keeper(DefaultLifetimes()), time.Hour)
	if !bytes.Equal(w.data[bundleKey], caPEM) {
		t.Error("its CA was not kept")
	}
	cert, err := k.GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"hook.ns.svc", "hook.ns.svc.cluster.local", "metrics.ns.svc"} {
		if err := cert.Leaf.VerifyHostname(name); err != nil {
			t.Error(err)
		}
	}
	if _, ok := cert.PrivateKey.(*ecdsa.PrivateKey); !ok {
		t.Errorf("its key is a %T", cert.PrivateKey)
	}
}

func TestRotator_IsReadyOnlyWithACertificate(t *testing.T) {
	w := newWorld(t)
	k := w.keeper(short)
	if _, err := k.GetCertificate(nil); err == nil || k.Ready(nil) == nil || len(k.Expiries()) != 0 {
		t.Error("there is a certificate before there is one")
	}
	for range 2 { // creates it, and injects the CA
		if _, err := k.keep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := k.GetCertificate(nil); err != nil {
		t.Error(err)
	}
	if k.Ready(nil) == nil {
		t.Error("ready too early: the API server would not trust the answer")
	}
	w.run(k, time.Minute)
	if err := k.Ready(nil); err != nil {
		t.Error(err)
	}
	ends := k.Expiries()
	if got, want := ends["serving"].Sub(w.placed), short.Validity; got != want {
		t.Errorf("the certificate ends in %s, want %s", got, want)
	}
	if got, want := ends["ca"].Sub(w.placed), short.CAValidity; got != want {
		t.Errorf("the CA ends in %s, want %s", got, want)
	}
}

func TestRotator_RenewsWithoutAConfiguration(t *testing.T) {
	for name, tc := range map[string]struct {
		lose  func(*world)
		ready bool
	}{
		"one does not exist":     {func(w *world) { w.missing[1] = true }, true},
		"neither exists":         {func(w *world) { w.missing = [2]bool{true, true} }, true},
		"one may not be read":    {func(w *world) { w.unread = errors.New("forbidden") }, false},
		"neither may be written": {func(w *world) { w.frozen = true }, true}, // both have the CA
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			l := DefaultLifetimes() // so that no CA rotation is due meanwhile
			k := w.run(w.keeper(l), time.Hour)
			before := read(w.data, w.now).serving.Leaf
			tc.lose(w)
			for end := w.now.Add(l.Validity); w.now.Before(end); w.now = w.now.Add(6 * time.Hour) {
				k.pass(t.Context())
			}
			if m := read(w.data, w.now); m.serving == nil || m.serving.Leaf.Equal(before) {
				t.Error("the certificate ended without being renewed")
			}
			started := w.keeper(l)
			for range 3 {
				started.pass(t.Context())
			}
			if ready := started.Ready(nil) == nil; ready != tc.ready {
				t.Errorf("a replica that was started meanwhile: ready %t, want %t", ready, tc.ready)
			}
			w.missing, w.unread, w.frozen = [2]bool{}, nil, false
			w.rested(w.run(k, 2*time.Hour))
		})
	}
}

// A CA must not sign before every existing configuration contains it. A
// configuration that cannot be read counts as one that does not.
func TestRotator_DoesNotRollPastAConfigurationItCannotRead(t *testing.T) {
	w := newWorld(t)
	k := w.run(w.keeper(short), 8*time.Hour+10*time.Minute)
	w.unread = errors.New("timeout")
	for range 60 {
		k.pass(t.Context())
		w.now = w.now.Add(time.Minute)
	}
	if m := read(w.data, w.now); len(m.bundle) != 2 || m.signedBy(m.bundle[0]) {
		t.Errorf("%d CAs, signed by the new one: %t; want 2 and false", len(m.bundle), m.signedBy(m.bundle[0]))
	}
	w.unread = nil
	w.rested(w.run(k, 2*time.Hour))
	for _, f := range w.failures() {
		t.Error(f)
	}
}

// The configurations get the labels and annotations of the release after the
// Secret has been created, or lose them: missing values are added once, and
// nothing is removed or changed.
func TestRotator_AddsTheReleaseThatIsMissing(t *testing.T) {
	helm := release{helmManagedBy: "Helm", helmReleaseName: "a", helmReleaseNamespace: "b"}
	for name, tc := range map[string]struct {
		secret, configuration, want release
		writes                      int
	}{
		"not installed by Helm":       {nil, nil, nil, 0},
		"a label without a release":   {nil, release{helmManagedBy: "Kustomize"}, nil, 0},
		"none":                        {nil, helm, helm, 1},
		"a part":                      {release{helmReleaseName: "a"}, helm, helm, 1},
		"all":                         {helm, helm, helm, 0},
		"configurations without":      {helm, nil, helm, 0},
		"another value":               {release{helmManagedBy: "Flux", helmReleaseName: "a", helmReleaseNamespace: "b"}, helm, release{helmManagedBy: "Flux", helmReleaseName: "a", helmReleaseNamespace: "b"}, 0},
		"another value and none else": {release{helmManagedBy: "Flux"}, helm, release{helmManagedBy: "Flux", helmReleaseName: "a", helmReleaseNamespace: "b"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			k := w.run(w.keeper(short), time.Hour)
			w.release, w.configs[1].release = tc.secret, tc.configuration
			data, before := maps.Clone(w.data), w.writes
			k = w.run(k, time.Hour)
			if diff := cmp.Diff(tc.want, w.release, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if n := w.writes - before; n != tc.writes {
				t.Errorf("%d writes, want %d", n, tc.writes)
			}
			if !maps.EqualFunc(data, w.data, bytes.Equal) {
				t.Error("the certificate was changed")
			}
			w.run(k, 5*time.Hour) // a renewal
			if diff := cmp.Diff(tc.want, w.release, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("after a renewal (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRotator_RunsInEveryReplica(t *testing.T) {
	if (&Rotator{}).NeedLeaderElection() {
		t.Error("only the leader could answer admission")
	}
}

// The certificate of another issuer is served unchanged; a broken one is not
// served.
func TestRotator_ReadOnlyServesTheExistingCertificate(t *testing.T) {
	w := newWorld(t)
	k := w.keeper(short)
	k.ReadOnly = true
	data, _, err := step(nil, short, []string{"hook.ns.svc"}, w.now, false)
	if err != nil {
		t.Fatal(err)
	}
	delete(data, bundleKey) // public issuers may omit it
	k.take(t.Context(), nil)
	if k.Ready(nil) == nil {
		t.Error("ready with an empty Secret")
	}
	k.take(t.Context(), data)
	if err := k.Ready(nil); err != nil {
		t.Error(err)
	}
	served, _ := k.GetCertificate(nil)
	k.take(t.Context(), with(data, corev1.TLSPrivateKeyKey, []byte("nonsense")))
	if still, _ := k.GetCertificate(nil); still != served {
		t.Error("a broken Secret took the certificate away")
	}
	if w.writes > 0 {
		t.Error("it wrote")
	}
}

// A certificate that is renewed repeatedly must not delay a rotation: its CA
// would expire before the next one may sign.
func TestRotator_RenewalsDoNotDelayACARotation(t *testing.T) {
	w := newWorld(t)
	l := short
	l.Validity, l.RenewBefore = 3*time.Hour, 3*time.Hour-l.Overlap/2 // renewed twice during a step of a rotation
	k := w.run(w.keeper(l), 28*time.Hour)
	for _, f := range w.failures() {
		t.Error(f)
	}
	if n := len(w.bundles[0]); n != 7 {
		t.Errorf("%d bundles were injected, want A, BA, B, CB, C, DC, D", n)
	}
	w.rested(k)
}

func TestLifetimes(t *testing.T) {
	if err := DefaultLifetimes().Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	if err := short.Validate(); err != nil {
		t.Errorf("those of the tests: %v", err)
	}
	for want, change := range map[string]func(*Lifetimes){
		"overlap 0s must be more than 0":                              func(l *Lifetimes) { l.Overlap = 0 },
		"renew-before 1h0m0s must be at least 2h0m0s":                 func(l *Lifetimes) { l.RenewBefore = time.Hour },
		"validity 720h0m0s must be longer than renew-before 720h0m0s": func(l *Lifetimes) { l.Validity = l.RenewBefore },
		"validity 9600h0m0s must not be longer than 8760h0m0s":        func(l *Lifetimes) { l.Validity = 400 * day },
		"CA validity 24h0m0s must be at least 8762h0m0s":              func(l *Lifetimes) { l.CAValidity = day },
	} {
		l := DefaultLifetimes()
		change(&l)
		if err := l.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
