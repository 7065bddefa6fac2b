// Package certificates manages the serving certificate of the webhooks and the
// metrics. It issues the certificate, renews it, writes its CA into the webhook
// configurations, and replaces the CA without a failed request.
//
// The Secret is the source of truth. Every replica may write it: each write has
// the resource version that was read, so that one of two replicas wins, and the
// other one reads again.
package certificates

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Rotator manages the certificate of one operator. Its fields must be set before
// it is added to a manager.
type Rotator struct {
	// Secret is the name of the Secret with the certificate, in the namespace
	// of the operator.
	Secret string
	// Configuration is the name of both webhook configurations. It may be empty if ReadOnly:
	// the Operator Lifecycle Manager chooses the names.
	Configuration string
	// Services are the names of the operator's Services that use the
	// certificate.
	Services []string
	// Hosts are additional DNS names for the certificate.
	Hosts []string
	// ReadOnly means that cert-manager or another controller manages the Secret
	// and the CA bundles. The certificate in the Secret is only served, once the
	// webhook configurations trust it.
	ReadOnly bool
	// Lifetimes defaults to DefaultLifetimes if it is zero.
	Lifetimes Lifetimes

	client client.Client
	key    types.NamespacedName
	names  []string
	now    func() time.Time
	writes *rate.Limiter

	serving atomic.Pointer[served]
	trusted atomic.Pointer[trust]
}

// served is the certificate that is served, and its CA, or nil if it is not known.
type served struct {
	*tls.Certificate
	ca *x509.Certificate
}

// trust is the newest CA that all webhook configurations were observed to trust,
// and since when without interruption. If it is lost, the next step of a rotation
// is delayed.
type trust struct {
	ca    *x509.Certificate
	since time.Time
}

// covers reports whether the CA is that of the Secret.
func (t *trust) covers(data map[string][]byte, now time.Time) bool {
	m := read(data, now)
	return t != nil && m.ca != nil && t.ca.Equal(m.ca.Leaf)
}

// init sets what depends on the namespace and on the other fields.
func (r *Rotator) init(c client.Client, namespace string, now func() time.Time) error {
	if r.Lifetimes == (Lifetimes{}) {
		r.Lifetimes = DefaultLifetimes()
	}
	if err := r.Lifetimes.Validate(); err != nil {
		return fmt.Errorf("lifetimes of certificates: %w", err)
	}
	if r.Configuration == "" && !r.ReadOnly {
		return errors.New("the webhook configurations have no name, and their CA bundle must be written: set --webhook-configuration, or --manage-certificates=false")
	}
	r.client, r.now, r.key = c, now, types.NamespacedName{Namespace: namespace, Name: r.Secret}
	r.names = slices.Clone(r.Hosts)
	for _, s := range r.Services {
		r.names = append(r.names, s+"."+namespace+".svc", s+"."+namespace+".svc.cluster.local")
	}
	// Issuing a CA takes three writes. More than ten are needed only if another
	// client undoes them, such as a tool that restores what it has applied; then
	// there is one write in 30 seconds.
	r.writes = rate.NewLimiter(rate.Every(r.Lifetimes.Overlap/120), 10)
	return nil
}

// GetCertificate returns the current certificate, for a tls.Config.
func (r *Rotator) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if s := r.serving.Load(); s != nil {
		return s.Certificate, nil
	}
	return nil, errors.New("there is no certificate yet")
}

// Ready is a readiness check. It returns an error until the certificate exists
// and, unless ReadOnly is set, its CA is in the webhook configurations.
func (r *Rotator) Ready(*http.Request) error {
	if r.serving.Load() == nil {
		return errors.New("there is no certificate yet")
	}
	if !r.ReadOnly && r.trusted.Load() == nil {
		return errors.New("the CA is not in the webhook configurations yet")
	}
	return nil
}

// Certificates returns the certificate that is served and its CA, by the names serving and
// ca. They are missing until they are known.
func (r *Rotator) Certificates() map[string]*x509.Certificate {
	all := map[string]*x509.Certificate{}
	if s := r.serving.Load(); s != nil {
		all["serving"] = s.Leaf
		if s.ca != nil {
			all["ca"] = s.ca
		}
	}
	return all
}

// Reconcile repairs or renews the Secret, writes its CA bundle into the webhook
// configurations, and serves its certificate once they trust it.
func (r *Rotator) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	var secret corev1.Secret
	if err := r.client.Get(ctx, r.key, &secret); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("reading the certificate's Secret: %w", err)
	}
	// A configuration that cannot be read delays the steps of a rotation. It must
	// not delay a renewal, or the certificate would expire for the other one.
	configurations, unread := r.configurations(ctx)
	other := r.otherWriter(configurations)
	if r.ReadOnly || other != nil {
		wait, err := r.serveAny(ctx, secret.Data, configurations)
		if !r.ReadOnly {
			err = errors.Join(other, err)
		}
		return reconcile.Result{RequeueAfter: wait}, errors.Join(unread, err)
	}
	var bundles []byte
	for _, c := range configurations {
		for _, w := range clientConfigs(c) {
			bundles = slices.Concat(bundles, w.CABundle, []byte("\n"))
		}
	}
	now, t := r.now(), r.trusted.Load()
	settled := unread == nil && t.covers(secret.Data, now) && !now.Before(t.since.Add(r.Lifetimes.Overlap))
	data, reason, err := next(secret.Data, bundles, r.Lifetimes, r.names, now, settled)
	if err == nil && reason != "" {
		if read(secret.Data, now).serving == nil {
			// Replicas that only read the Secret use the certificate as soon as it is trusted, or
			// if nothing else is.
			// The errors are those of the same call below.
			_, _ = r.inject(ctx, configurations, data[bundleKey], now)
		}
		err = r.write(ctx, now, &secret, reason, func() error { return r.writeSecret(ctx, secret.ResourceVersion, data) })
	}
	if err != nil {
		return again(err)
	}
	changed, err := r.inject(ctx, configurations, data[bundleKey], now)
	if err = errors.Join(unread, err); err == nil && (changed || !t.covers(data, now)) {
		t = &trust{ca: read(data, now).ca.Leaf, since: now}
		r.trusted.Store(t)
	}

	// The replica serves the certificate that it has in memory, as long as the
	// bundle has its CA, until every API server trusts the next one.
	m, wait := read(data, now), r.Lifetimes.Overlap/6
	if old := r.serving.Load(); old == nil || !trusts(m.bundle, old.Leaf, now) || t.covers(data, now) && !now.Before(t.since.Add(wait)) {
		r.serve(ctx, m.serving, m.bundle)
		wait = r.Lifetimes.Overlap
	}
	for _, due := range []time.Time{m.renewal(r.Lifetimes, r.names), m.rotation(r.Lifetimes)} {
		wait = max(min(wait, due.Sub(now)), time.Millisecond)
	}
	if err != nil {
		return again(err)
	}
	return reconcile.Result{RequeueAfter: wait}, nil
}

// again returns when to retry after an error.
func again(err error) (reconcile.Result, error) {
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: 10 * time.Millisecond}, nil // another replica was faster
	}
	return reconcile.Result{}, err
}

// inject writes the bundle into the configurations that lack it, and reports
// whether there were any.
func (r *Rotator) inject(ctx context.Context, configurations []client.Object, bundle []byte, now time.Time) (changed bool, err error) {
	var errs []error
	for i, c := range configurations {
		after, lacking := c.DeepCopyObject().(client.Object), false //nolint:forcetypeassert // a copy
		for _, w := range clientConfigs(after) {
			lacking = lacking || !bytes.Equal(w.CABundle, bundle)
			w.CABundle = bundle
		}
		if !lacking {
			continue
		}
		changed = true
		// The patch contains only the bundles, and applies only to the version
		// that was read.
		patch := client.StrategicMergeFrom(c, client.MergeFromWithOptimisticLock{})
		err := r.write(ctx, now, c, "Wrote the CA into the "+name(c), func() error { return r.client.Patch(ctx, after, patch, fieldOwner) })
		if err == nil {
			configurations[i] = after
		}
		errs = append(errs, err)
	}
	return changed, errors.Join(errs...)
}

// write writes an object, unless there were too many writes.
func (r *Rotator) write(ctx context.Context, now time.Time, o client.Object, reason string, write func() error) error {
	if !r.writes.AllowN(now, 1) {
		return fmt.Errorf("too many writes of %s: %s changes it again; only one client may write the certificate and the CA bundles, so stop that one, or let cert-manager manage both", name(o), writers(o))
	}
	err := write()
	if err == nil {
		log.FromContext(ctx).Info(reason)
	}
	return err
}

// name returns kind and name of a configuration or of the Secret.
func name(o client.Object) string {
	return strings.TrimPrefix(fmt.Sprintf("%T", o), "*v1.") + " " + o.GetName()
}

// written matches the managed fields of a client that writes the certificate or a CA.
var written = regexp.MustCompile(`"f:(caBundle|ca\.crt|tls\.crt)"`)

// writers returns the other clients that have written the certificate or the CA
// bundles of an object.
func writers(o client.Object) string {
	var names []string
	for _, e := range o.GetManagedFields() {
		if e.FieldsV1 != nil && e.Manager != string(fieldOwner) && written.MatchString(e.FieldsV1.GetRawString()) {
			names = append(names, strconv.Quote(e.Manager))
		}
	}
	return cmp.Or(strings.Join(names, " and "), "another client")
}

// injectAnnotation makes cert-manager write the CA bundle of a configuration.
const injectAnnotation = "cert-manager.io/inject-ca-from"

// otherWriter returns an error that names who writes the CA bundles instead of this
// operator, or nil. Replicas of the version before see it while the mode changes to
// cert-manager, and continue to serve.
func (r *Rotator) otherWriter(configurations []client.Object) error {
	for _, c := range configurations {
		if from := c.GetAnnotations()[injectAnnotation]; from != "" {
			return fmt.Errorf("%s has the annotation %s=%s, so that cert-manager writes its CA bundle: remove it, or set --manage-certificates=false (in the chart webhooks.certManager.enabled)", name(c), injectAnnotation, from)
		}
		for _, w := range clientConfigs(c) {
			if s := w.Service; s != nil && (s.Namespace != r.key.Namespace || !slices.Contains(r.Services, s.Name)) {
				return fmt.Errorf("%s belongs to another installation, because it calls Service %s/%s; its CA bundle is not written: uninstall one of the two", name(c), s.Namespace, s.Name)
			}
		}
	}
	return nil
}

// serve uses a certificate from now on.
func (r *Rotator) serve(ctx context.Context, certificate *tls.Certificate, bundle []*x509.Certificate) {
	now := &served{Certificate: certificate}
	if len(bundle) > 0 {
		now.ca = bundle[0]
	}
	if old := r.serving.Swap(now); old == nil || !old.Leaf.Equal(now.Leaf) {
		log.FromContext(ctx).Info("Serving another certificate", "ends", now.Leaf.NotAfter)
	}
}

// serveAny serves the certificate of another issuer, who may omit the CA. The
// Secret is empty or missing until it is issued. The previous one is served as long
// as only that is trusted by all webhooks; the result is when to look again.
func (r *Rotator) serveAny(ctx context.Context, data map[string][]byte, configurations []client.Object) (time.Duration, error) {
	if len(data[corev1.TLSCertKey]) == 0 {
		return 0, nil
	}
	pair, err := tls.X509KeyPair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return 0, fmt.Errorf("the Secret has no usable certificate; the previous one is still served: %w", err)
	}
	now := r.now()
	trusted := func(leaf *x509.Certificate) bool {
		return !slices.ContainsFunc(configurations, func(c client.Object) bool {
			return slices.ContainsFunc(clientConfigs(c), func(w *admissionregistrationv1.WebhookClientConfig) bool {
				return !trusts(parse(now, w.CABundle), leaf, now)
			})
		})
	}
	if old := r.serving.Load(); old != nil && trusted(old.Leaf) && !trusted(pair.Leaf) {
		return r.Lifetimes.Overlap / 6, nil
	}
	r.serve(ctx, &pair, parse(now, data[bundleKey]))
	return 0, nil
}

// fieldOwner is the field manager of the writes of this package.
const fieldOwner = client.FieldOwner("platform-operator-certificates")

// AddTo adds the rotator to a manager. It runs in every replica, because every
// replica serves. namespace is that of the Secret.
//
// The Secret is watched, not mounted: a mounted Secret changes up to a minute
// later. Every request is for one named object, and watches use a field selector,
// so that RBAC can limit all of them to these names.
func (r *Rotator) AddTo(mgr manager.Manager, namespace string) error {
	// The manager's client would start a watch of all Secrets.
	direct, err := client.New(mgr.GetConfig(), client.Options{Scheme: scheme.Scheme, Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient()})
	if err != nil {
		return fmt.Errorf("creating the client for the certificate: %w", err)
	}
	if err := r.init(direct, namespace, time.Now); err != nil {
		return err
	}
	named := func(name string) fields.Selector { return fields.OneTermEqualSelector("metadata.name", name) }
	watched := map[client.Object]cache.ByObject{
		&corev1.Secret{}: {Namespaces: map[string]cache.Config{namespace: {FieldSelector: named(r.Secret)}}},
	}
	if r.Configuration != "" {
		watched[&admissionregistrationv1.ValidatingWebhookConfiguration{}] = cache.ByObject{Field: named(r.Configuration)}
		watched[&admissionregistrationv1.MutatingWebhookConfiguration{}] = cache.ByObject{Field: named(r.Configuration)}
	}
	objects, err := cache.New(mgr.GetConfig(), cache.Options{Scheme: scheme.Scheme, Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient(), ByObject: watched})
	if err != nil {
		return fmt.Errorf("creating the cache for the certificate: %w", err)
	}
	c, err := controller.New("certificate", mgr, controller.Options{
		Reconciler: r, NeedLeaderElection: new(false),
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](50*time.Millisecond, 30*time.Second),
	})
	if err != nil {
		return fmt.Errorf("creating the controller of the certificate: %w", err)
	}
	errs := []error{mgr.Add(inEveryReplica{objects})}
	for o := range watched {
		errs = append(errs, c.Watch(source.Kind(objects, o, handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
			return []reconcile.Request{{NamespacedName: r.key}}
		}))))
	}
	return errors.Join(errs...)
}

// inEveryReplica starts a cache in every replica: a manager starts one that is restricted to
// objects only in the leader.
type inEveryReplica struct{ cache.Cache }

// NeedLeaderElection returns false.
func (inEveryReplica) NeedLeaderElection() bool { return false }

// configurations returns the webhook configurations that exist and can be read.
// The error is that of those that cannot.
func (r *Rotator) configurations(ctx context.Context) ([]client.Object, error) {
	if r.Configuration == "" {
		return nil, nil
	}
	var found []client.Object
	var errs []error
	for _, o := range []client.Object{&admissionregistrationv1.ValidatingWebhookConfiguration{}, &admissionregistrationv1.MutatingWebhookConfiguration{}} {
		switch err := r.client.Get(ctx, types.NamespacedName{Name: r.Configuration}, o); {
		case apierrors.IsNotFound(err):
			log.FromContext(ctx).Info("The webhook configuration does not exist", "type", fmt.Sprintf("%T", o), "name", r.Configuration)
		case err != nil:
			errs = append(errs, fmt.Errorf("reading %T: %w", o, err))
		default:
			found = append(found, o)
		}
	}
	return found, errors.Join(errs...)
}

// clientConfigs returns the part of each webhook that contains the CA bundle.
func clientConfigs(configuration client.Object) []*admissionregistrationv1.WebhookClientConfig {
	var all []*admissionregistrationv1.WebhookClientConfig
	switch c := configuration.(type) {
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		for i := range c.Webhooks {
			all = append(all, &c.Webhooks[i].ClientConfig)
		}
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		for i := range c.Webhooks {
			all = append(all, &c.Webhooks[i].ClientConfig)
		}
	}
	return all
}

// writeSecret writes the data if the Secret still has the given version.
func (r *Rotator) writeSecret(ctx context.Context, version string, data map[string][]byte) error {
	if version == "" {
		version = "1" // creates the Secret, or fails if it exists
	}
	// An apply that creates an object is authorized with the name of the object,
	// so that RBAC can limit it to that name. For a create request it cannot.
	s := corev1ac.Secret(r.key.Name, r.key.Namespace).WithResourceVersion(version).WithData(data)
	if err := r.client.Apply(ctx, s, client.ForceOwnership, fieldOwner); err != nil {
		return fmt.Errorf("writing the certificate's Secret: %w", err)
	}
	return nil
}
