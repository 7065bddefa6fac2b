// Package certificates manages the serving certificate of the operator: it is
// issued when the operator first starts and renewed before it expires, its CA
// is injected into the webhook configurations, and it is rotated in steps, so
// that no request of the API server fails.
//
// The Secret is the source of truth: its content determines the next step.
// Every replica may write it. Each write has the resource version that was
// read, so that one of two replicas wins, and the other reads it again.
package certificates

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Rotator manages the certificate of one operator. Its fields must be set before
// it is added to a manager.
type Rotator struct {
	// Secret is the name of the Secret with the certificate, in the namespace
	// of the operator.
	Secret string
	// Configuration is the name of both webhook configurations. If it is empty,
	// there are none.
	Configuration string
	// Services are the names of the operator's Services that use the
	// certificate.
	Services []string
	// Hosts are additional DNS names for the certificate.
	Hosts []string
	// ReadOnly means that another controller, such as cert-manager, manages the
	// Secret and the configurations. The certificate in the Secret is only
	// served.
	ReadOnly bool
	// Lifetimes defaults to DefaultLifetimes if it is zero.
	Lifetimes Lifetimes

	store   store
	names   []string
	elapsed func() time.Time
	date    func() time.Time
	wake    chan struct{}
	current atomic.Pointer[shown]
	placed  atomic.Bool

	// The fields below are used only by the loop.
	before  map[string][]byte // the last valid data
	stands  trust             // the state last observed in the Secret and the configurations
	since   time.Time         // since when it has been observed
	written []time.Time       // the times of the latest writes of the Secret
	often   bool              // the next write waits because there have been too many
	adrift  bool              // the local clock differs from that of the API server
	refused int               // consecutive failures
	missing map[string]bool   // kinds of configurations that did not exist
}

// shown is the certificate that is served, and the expiry time of its CA.
type shown struct {
	serving *tls.Certificate
	caEnds  time.Time
}

// store reads and writes the certificates: the API server, or memory in tests.
// A write fails with a conflict if the object has changed since it was read.
type store interface {
	readSecret(context.Context) (stored, error)
	writeSecret(context.Context, stored) error
	// readConfigurations returns the configurations that could be read, even if
	// another one could not. One that does not exist is returned without
	// webhooks.
	readConfigurations(context.Context) ([]configuration, error)
	inject(ctx context.Context, c configuration, bundle []byte) error
}

// stored is the data of the Secret, the resource version at which it was read,
// and the metadata by which Helm recognizes its release.
type stored struct {
	data    map[string][]byte
	version string
	release release
}

// configuration is a webhook configuration with the CA bundle of each webhook.
type configuration struct {
	kind, version string
	missing       bool
	bundles       [][]byte
	release       release
}

// trusts reports whether every webhook has the given bundle.
func (c configuration) trusts(bundle []byte) bool {
	return !slices.ContainsFunc(c.bundles, func(b []byte) bool { return !bytes.Equal(b, bundle) })
}

// AddTo adds the keeper to a manager. It runs in every replica. namespace is
// that of the Secret.
func (k *Rotator) AddTo(mgr manager.Manager, namespace string) error {
	if k.Lifetimes == (Lifetimes{}) {
		k.Lifetimes = DefaultLifetimes()
	}
	if err := k.Lifetimes.Validate(); err != nil {
		return fmt.Errorf("lifetimes of certificates: %w", err)
	}
	s, err := newCluster(mgr, k, namespace)
	if err != nil {
		return err
	}
	k.init(s, namespace, time.Now, s.clock.now)
	return mgr.Add(k)
}

// init sets the clocks: elapsed measures durations, and date determines whether
// certificates are valid. They are separate, because neither setting a clock
// nor switching to another one may shorten or extend a pause.
func (k *Rotator) init(s store, namespace string, elapsed, date func() time.Time) {
	k.store, k.elapsed, k.date, k.wake = s, elapsed, date, make(chan struct{}, 1)
	k.names = slices.Clone(k.Hosts)
	for _, s := range k.Services {
		k.names = append(k.names, s+"."+namespace+".svc", s+"."+namespace+".svc.cluster.local")
	}
}

// NeedLeaderElection returns false: every replica serves, and any may start
// first.
func (k *Rotator) NeedLeaderElection() bool { return false }

// GetCertificate returns the current certificate, for a tls.Config.
func (k *Rotator) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if s := k.current.Load(); s != nil {
		return s.serving, nil
	}
	return nil, errors.New("there is no certificate yet")
}

// Ready is a readiness check. It returns an error until the certificate exists
// and, unless the keeper is read-only, its CA is in the webhook configurations.
func (k *Rotator) Ready(*http.Request) error {
	if k.current.Load() == nil {
		return errors.New("there is no certificate yet")
	}
	if !k.ReadOnly && !k.placed.Load() {
		return errors.New("the CA is not in the webhook configurations yet")
	}
	return nil
}

// Expiries returns the expiry times of the serving certificate and of its CA. It
// omits a certificate that does not exist or is not known.
func (k *Rotator) Expiries() map[string]time.Time {
	ends := map[string]time.Time{}
	if s := k.current.Load(); s != nil {
		ends["serving"] = s.serving.Leaf.NotAfter
		if !s.caEnds.IsZero() {
			ends["ca"] = s.caEnds
		}
	}
	return ends
}

// Start manages the certificate until the context ends.
func (k *Rotator) Start(ctx context.Context) error {
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithName("certificates").WithValues("secret", k.Secret))
	failed := make(chan error, 1)
	if c, ok := k.store.(*cluster); ok {
		if err := c.watch(ctx, failed, k.take, k.look); err != nil {
			return err
		}
	}
	if k.ReadOnly {
		select {
		case err := <-failed:
			return err
		case <-ctx.Done():
			return nil
		}
	}
	for {
		again := time.NewTimer(k.pass(ctx))
		select {
		case <-ctx.Done():
			again.Stop()
			return nil
		case err := <-failed:
			again.Stop()
			return err
		case <-k.wake:
			again.Stop()
		case <-again.C:
		}
	}
}

// look wakes up the loop.
func (k *Rotator) look() {
	select {
	case k.wake <- struct{}{}:
	default: // it is about to run
	}
}

// take serves the certificate in the Secret from now on, if it is valid.
func (k *Rotator) take(ctx context.Context, data map[string][]byte) {
	m := read(data, k.date())
	if m.serving == nil && k.ReadOnly && len(data[corev1.TLSCertKey]) > 0 {
		// The Secret may lack the CA, which the API server may trust
		// nevertheless.
		pair, err := tls.X509KeyPair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
		if err != nil {
			log.FromContext(ctx).Error(err, "The Secret has no certificate that can be used; the one before is served on")
			return
		}
		m.serving = &pair
	}
	if m.serving == nil {
		return // it is empty when it is installed
	}
	now := &shown{serving: m.serving}
	if len(m.bundle) > 0 {
		now.caEnds = m.bundle[0].NotAfter
	}
	old := k.current.Swap(now)
	if old == nil || !old.serving.Leaf.Equal(now.serving.Leaf) {
		log.FromContext(ctx).Info("Serving another certificate", "ends", now.serving.Leaf.NotAfter)
	}
}

// pass takes the next step, and returns when to check again.
func (k *Rotator) pass(ctx context.Context) time.Duration {
	again, err := k.keep(ctx)
	switch {
	case err == nil:
		k.refused = 0
		return again
	case ctx.Err() != nil:
		return 0
	case apierrors.IsConflict(err):
		// Another replica was faster. The random delay prevents repeated
		// conflicts.
		return time.Duration(1+rand.IntN(50)) * time.Millisecond //nolint:gosec // it must only differ between replicas
	default:
		k.refused++
		log.FromContext(ctx).Error(err, "Failed to keep the certificate")
		return min(time.Second<<min(k.refused-1, 5), 30*time.Second)
	}
}

// keep takes at most one step. If there is none to take, it injects the bundle
// into the configurations that lack it.
func (k *Rotator) keep(ctx context.Context) (time.Duration, error) {
	// The configurations are read first. If the Secret changes after it was
	// read, the new bundle is injected either before the write below, which
	// then is a conflict, or after it, which corrects the configurations.
	configurations, unread := k.store.readConfigurations(ctx)
	k.logMissing(ctx, configurations)
	// A configuration that cannot be read delays the steps that need its CA
	// bundle. It must not delay a renewal, or the certificate would expire for
	// the other configurations.
	secret, err := k.store.readSecret(ctx)
	if err != nil {
		return 0, err
	}
	found := secret.data
	elapsed, now := k.elapsed(), k.date()
	k.logClock(ctx, elapsed, now)
	placed := unread == nil && len(found[bundleKey]) > 0 && !slices.ContainsFunc(configurations, func(c configuration) bool { return !c.trusts(found[bundleKey]) })
	if is := trustOf(found, now); !placed || is != k.stands {
		k.stands, k.since = is, elapsed
	}
	if placed {
		k.placed.Store(true)
	}
	settled := placed && elapsed.Sub(k.since) >= k.Lifetimes.Overlap

	mended := mend(found, k.before, now)
	data, why, err := step(mended, k.Lifetimes, k.names, now, settled)
	if err != nil {
		return 0, err
	}
	if why == "" && !maps.EqualFunc(mended, found, bytes.Equal) {
		why = "put the certificate back"
	}
	marks := secret.release
	for _, c := range configurations {
		marks = marks.fillFrom(c.release)
	}
	if why == "" && !maps.Equal(marks, secret.release) {
		why = "made it a part of the Helm release"
	}
	wait := time.Duration(0)
	if why != "" {
		wait = k.pause(elapsed)
	}
	if often := wait > 0 && len(k.written) == manyWrites; often != k.often {
		k.often = often
		if often {
			log.FromContext(ctx).Info("The Secret was changed too often and is changed again after a pause. Find out what else writes it, or which clock is wrong.", "change", why, "after", wait.String())
		}
	}
	if wait > 0 {
		data = found
		if read(data, now).serving == nil {
			return wait, unread // unusable in a configuration
		}
	} else if why != "" {
		if err := k.store.writeSecret(ctx, stored{data: data, version: secret.version, release: marks}); err != nil {
			return 0, err
		}
		k.written = append(k.written, elapsed)
		log.FromContext(ctx).Info("Changed the Secret", "reason", why)
		return 0, unread // the next iteration injects the written bundle
	}
	k.before = data
	if k.current.Load() == nil {
		k.take(ctx, data) // later ones arrive by the watch, which is never older than a read
	}
	errs := []error{unread}
	for _, c := range configurations {
		if !c.trusts(data[bundleKey]) {
			if err := k.store.inject(ctx, c, data[bundleKey]); err != nil {
				errs = append(errs, err)
				continue
			}
			log.FromContext(ctx).Info("Put the CA into the webhook configuration", "kind", c.kind)
		}
	}
	if err := errors.Join(errs...); err != nil || !placed {
		return 0, err // check whether it remains in place
	}
	if wait > 0 {
		return wait, nil
	}
	return k.next(read(data, now), now, elapsed), nil
}

// manyWrites is how often a replica may write the Secret within one overlap.
// Each step of a rotation and each renewal is one write; more are needed only
// if the Secret is damaged repeatedly. Two replicas whose clocks differ by more
// than any certificate can span replace each other's certificate: without a
// limit they would do so at every change.
const manyWrites = 6

// pause returns how long the Secret must not be written yet. Every write is
// followed by a short pause. If there are manyWrites, the oldest of them must
// be an overlap ago.
func (k *Rotator) pause(elapsed time.Time) time.Duration {
	k.written = k.written[max(0, len(k.written)-manyWrites):]
	if len(k.written) == 0 {
		return 0
	}
	until := k.written[len(k.written)-1].Add(k.Lifetimes.Overlap / 720) // 5 s if the overlap is one hour
	if len(k.written) == manyWrites {
		if u := k.written[0].Add(k.Lifetimes.Overlap); u.After(until) {
			until = u
		}
	}
	return max(0, until.Sub(elapsed))
}

// logClock logs that the local clock is wrong, once until that changes.
func (k *Rotator) logClock(ctx context.Context, local, now time.Time) {
	off := now.Sub(local)
	if adrift := off.Abs() > tolerance; adrift != k.adrift {
		k.adrift = adrift
		if adrift {
			log.FromContext(ctx).Info("The clock of this node differs from the API server's, which is used for certificates. Correct the node's clock.", "behind", off.String())
		}
	}
}

// logMissing logs which configurations do not exist, once until that changes.
func (k *Rotator) logMissing(ctx context.Context, configurations []configuration) {
	missing := map[string]bool{}
	for _, c := range configurations {
		if c.missing {
			missing[c.kind] = true
			if !k.missing[c.kind] {
				log.FromContext(ctx).Info("The webhook configuration does not exist, so its webhooks are not called. The certificate is kept without it.", "kind", c.kind, "name", k.Configuration)
			}
		}
	}
	k.missing = missing
}

// next returns when the next step is due if no object changes.
func (k *Rotator) next(m material, now, elapsed time.Time) time.Duration {
	soonest := m.due(k.Lifetimes, k.names)
	if ca := m.bundle[0].NotAfter.Add(-k.Lifetimes.CARenewBefore); ca.Before(soonest) {
		soonest = ca
	}
	wait := soonest.Sub(now)
	if len(m.bundle) > 1 {
		wait = k.since.Add(k.Lifetimes.Overlap).Sub(elapsed)
	}
	// A clock can be set, and timers stop while a machine is suspended.
	return min(max(wait, time.Millisecond), time.Hour)
}
