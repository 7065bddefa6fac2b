package certificates

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// short are lifetimes with many renewals and rotations in a simulated day.
var short = Lifetimes{Validity: 9 * time.Hour, RenewBefore: 3 * time.Hour, CAValidity: 15 * time.Hour, Overlap: time.Hour}

var errRefused = errors.New("refused")

// world is a cluster with a simulated clock: the Secret as the chart creates it,
// and two webhook configurations. It is much faster than the fake client of
// controller-runtime.
type world struct {
	*testing.T
	client.Client // nil: other methods are not called
	now           time.Time
	secret        *corev1.Secret
	validating    *admissionregistrationv1.ValidatingWebhookConfiguration
	mutating      *admissionregistrationv1.MutatingWebhookConfiguration
	version       int
	writes        int
	// refuse returns the error of a request, or nil.
	refuse func(verb string, o client.Object) error
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{
		T: t, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), secret: &corev1.Secret{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "1"}},
		validating: &admissionregistrationv1.ValidatingWebhookConfiguration{Webhooks: make([]admissionregistrationv1.ValidatingWebhook, 2)},
		mutating:   &admissionregistrationv1.MutatingWebhookConfiguration{Webhooks: make([]admissionregistrationv1.MutatingWebhook, 1)},
		refuse:     func(string, client.Object) error { return nil },
	}
}

// Get returns an object that exists.
func (w *world) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	if err := w.refuse("read", o); err != nil {
		return err
	}
	missing := apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	switch o := o.(type) {
	case *corev1.Secret:
		if w.secret == nil {
			return missing
		}
		w.secret.DeepCopyInto(o)
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		w.validating.DeepCopyInto(o)
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		if w.mutating == nil {
			return missing
		}
		w.mutating.DeepCopyInto(o)
	}
	return nil
}

// Patch writes a webhook configuration.
func (w *world) Patch(_ context.Context, o client.Object, _ client.Patch, _ ...client.PatchOption) error {
	return w.write(o, o.GetResourceVersion(), func(version string) {
		switch o := o.(type) {
		case *admissionregistrationv1.ValidatingWebhookConfiguration:
			w.validating = o.DeepCopy()
			w.validating.ResourceVersion = version
		case *admissionregistrationv1.MutatingWebhookConfiguration:
			w.mutating = o.DeepCopy()
			w.mutating.ResourceVersion = version
		}
	})
}

// Apply writes the Secret.
func (w *world) Apply(_ context.Context, o runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
	s := o.(*corev1ac.SecretApplyConfiguration)
	return w.write(&corev1.Secret{}, *s.ResourceVersion, func(version string) {
		w.secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{ResourceVersion: version}, Data: maps.Clone(s.Data)}
	})
}

func (w *world) write(o client.Object, version string, do func(version string)) error {
	if err := w.refuse("write", o); err != nil {
		return err
	}
	var live client.Object
	switch o.(type) {
	case *corev1.Secret:
		live = w.secret
		if w.secret == nil {
			live = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "1"}}
		}
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		live = w.validating
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		live = w.mutating
	}
	if live.GetResourceVersion() != version {
		return apierrors.NewConflict(schema.GroupResource{}, "", errRefused)
	}
	w.writes++
	w.version++
	do(fmt.Sprintf("%d-", w.version))
	return nil
}

// replica returns a replica that has just started. Its clock is wrong by skew.
func (w *world) replica(l Lifetimes, skew time.Duration) *Rotator {
	w.Helper()
	r := &Rotator{Secret: "cert", Configuration: "op", Services: []string{"hook", "metrics"}, Lifetimes: l}
	if err := r.init(w, "ns", func() time.Time { return w.now.Add(skew) }); err != nil {
		w.Fatal(err)
	}
	return r
}

// settle reconciles until no replica writes any more.
func (w *world) settle(replicas ...*Rotator) {
	w.Helper()
	for range 20 {
		before := w.writes
		for _, r := range replicas {
			if _, err := r.Reconcile(w.Context(), reconcile.Request{}); err != nil {
				w.Fatal(err)
			}
		}
		if w.writes == before {
			return
		}
	}
	w.Fatal("the replicas keep writing")
}

// pass lets time pass in steps of ten minutes, and checks after each that the API
// servers trust all replicas.
func (w *world) pass(d time.Duration, replicas ...*Rotator) {
	w.Helper()
	for end := w.now.Add(d); w.now.Before(end); w.now = w.now.Add(10 * time.Minute) {
		w.settle(replicas...)
		w.accepts(replicas...)
	}
}

// setData changes the Secret as another client.
func (w *world) setData(data map[string][]byte) {
	w.version++
	w.secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{ResourceVersion: fmt.Sprintf("%d-", w.version)}, Data: data}
}

// bundles returns the bundle of every webhook.
func (w *world) bundles() [][]byte {
	var all [][]byte
	for _, h := range slices.Concat(clientConfigs(w.validating), clientConfigs(w.mutating)) {
		all = append(all, h.CABundle)
	}
	return all
}

// setBundles writes a bundle into every webhook, as another client.
func (w *world) setBundles(bundle []byte) {
	w.version++
	version := fmt.Sprintf("%d-", w.version)
	w.validating.ResourceVersion, w.mutating.ResourceVersion = version, version
	for _, h := range slices.Concat(clientConfigs(w.validating), clientConfigs(w.mutating)) {
		h.CABundle = bundle
	}
}

// refused returns why an API server would reject the certificate of a replica.
func (w *world) refused(r *Rotator, bundles ...[]byte) error {
	c, err := r.GetCertificate(nil)
	if err != nil {
		return err
	}
	for i, b := range bundles {
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(b)
		if _, err := c.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "hook.ns.svc", CurrentTime: w.now}); err != nil {
			return fmt.Errorf("webhook %d at %s: %w", i, w.now.Format(time.DateTime), err)
		}
	}
	return nil
}

func (w *world) accepts(replicas ...*Rotator) {
	w.Helper()
	for i, r := range replicas {
		if err := w.refused(r, w.bundles()...); err != nil {
			w.Errorf("replica %d: %v", i, err)
		}
	}
}

// TestRotator_NoHandshakeFails simulates two replicas with different clocks, which
// reconcile at any time and crash at any write, and an API server that observes
// the webhook configurations late.
func TestRotator_NoHandshakeFails(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for seed := range uint64(2) {
		random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a reproducible simulation
		w := newWorld(t)
		l, skews := short, []time.Duration{0, time.Minute}
		if seed%2 == 1 { // the clocks differ by almost a day
			l = Lifetimes{Validity: 60 * time.Hour, RenewBefore: 40 * time.Hour, CAValidity: 100 * time.Hour, Overlap: 6 * time.Hour}
			skews = []time.Duration{-11 * time.Hour, 11 * time.Hour}
		}
		replicas := []*Rotator{w.replica(l, skews[0]), w.replica(l, skews[1])}
		w.settle(replicas...)
		late := w.bundles()
		for range 200 {
			w.now = w.now.Add(time.Duration(1+random.IntN(8)) * l.Overlap / 50)
			for i := range replicas {
				crashed := false
				w.refuse = func(verb string, _ client.Object) error {
					if verb == "write" && random.IntN(8) == 0 {
						crashed = true
						return errRefused
					}
					return nil
				}
				_, err := replicas[i].Reconcile(t.Context(), reconcile.Request{})
				w.refuse = func(string, client.Object) error { return nil }
				if err != nil && !crashed && !strings.Contains(err.Error(), "too many writes") {
					t.Fatalf("seed %d: %v", seed, err)
				}
				if crashed && random.IntN(2) == 0 {
					replicas[i] = w.replica(l, skews[i])
					w.settle(replicas[i])
					late = w.bundles() // it is ready only when they have the CA
				}
			}
			for _, r := range replicas {
				if err := errors.Join(w.refused(r, late...), w.refused(r, w.bundles()...)); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
			late = w.bundles()
			for _, c := range parse(w.now, w.secret.Data[bundleKey]) {
				seen[string(c.Raw)] = true
			}
		}
	}
	if len(seen) < 6 {
		t.Errorf("%d CAs: the simulation shows nothing", len(seen))
	}
}

func TestRotator_WaitsUntilTheNewCAIsTrusted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.replica(short, 0)
	w.settle(r)
	first, before := w.bundles()[0], w.secret.Data
	w.setData(map[string][]byte{})
	w.settle(r)
	if n := len(parse(w.now, w.bundles()[0])); n != 2 {
		t.Errorf("the webhooks trust %d CAs, want the new one and the previous one", n)
	}
	if err := w.refused(r, first); err != nil {
		t.Errorf("an API server that has not observed the new bundle: %v", err)
	}
	w.now = w.now.Add(short.Overlap / 6)
	w.settle(r)
	if err := w.refused(r, first); err == nil {
		t.Error("the previous certificate is still served")
	}
	w.accepts(r)
	w.now = w.now.Add(short.Overlap)
	w.settle(r)
	if n := len(parse(w.now, w.bundles()[0])); n != 1 {
		t.Errorf("the webhooks trust %d CAs after the overlap", n)
	}
	w.accepts(r)
	if bytes.Equal(before[caKeyKey], w.secret.Data[caKeyKey]) {
		t.Error("deleting the Secret does not revoke the key of the CA")
	}
}

func TestRotator_RepairsTheSecret(t *testing.T) {
	t.Parallel()
	all := []string{bundleKey, caKeyKey, corev1.TLSCertKey, corev1.TLSPrivateKeyKey}
	foreign, _, err := next(nil, nil, short, []string{"hook.ns.svc"}, newWorld(t).now, false)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		keys   []string
		from   map[string][]byte
		keepCA bool
	}{
		"all gone":                           {keys: all},
		"CA gone":                            {keys: all[:1]},
		"CA's key gone":                      {keys: all[1:2]},
		"CA of another":                      {keys: all[:1], from: foreign},
		"CA of another with its key":         {keys: all[:2], from: foreign},
		"CA is garbage":                      {keys: all[:1], from: map[string][]byte{bundleKey: []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")}},
		"certificate gone":                   {keys: all[2:], keepCA: true},
		"certificate of another":             {keys: all[2:], from: foreign, keepCA: true},
		"certificate's key of another":       {keys: all[3:], from: foreign, keepCA: true},
		"everything of another installation": {keys: all, from: foreign},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			first, second := w.replica(short, 0), w.replica(short, 0)
			w.pass(time.Hour, first, second)
			before := w.secret.Data
			data := maps.Clone(before)
			for _, k := range tc.keys {
				data[k] = tc.from[k]
			}
			w.setData(data)
			w.pass(3*time.Hour, first, second)
			after := read(w.secret.Data, w.now)
			if after.ca == nil || after.serving == nil || len(after.bundle) != 1 {
				t.Fatalf("not repaired: %+v", after)
			}
			if keep := bytes.Equal(before[bundleKey], w.secret.Data[bundleKey]); keep != tc.keepCA {
				t.Errorf("the CA was kept: %t, want %t", keep, tc.keepCA)
			}
		})
	}
}

func TestRotator_CreatesADeletedSecret(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.replica(short, 0)
	w.settle(r)
	w.secret = nil
	w.pass(2*time.Hour, r)
	if read(w.secret.Data, w.now).serving == nil {
		t.Error("there is no certificate")
	}
}

func TestRotator_RestoresBundles(t *testing.T) {
	t.Parallel()
	for name, bundle := range map[string][]byte{"empty": nil, "of another": []byte("other")} {
		w := newWorld(t)
		r := w.replica(short, 0)
		w.settle(r)
		w.setBundles(bundle)
		if _, err := r.Reconcile(t.Context(), reconcile.Request{}); err != nil {
			t.Fatal(err)
		}
		for _, b := range w.bundles() {
			if !bytes.Equal(b, w.secret.Data[bundleKey]) {
				t.Errorf("%s: one reconcile does not restore the bundle", name)
			}
		}
	}
}

// Another client, such as a second operator with the same configurations, undoes
// each write immediately.
func TestRotator_LimitsWritesInAFight(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, second := w.replica(DefaultLifetimes(), 0), w.replica(DefaultLifetimes(), 0)
	w.settle(first, second)
	before := w.writes
	for range 360 {
		w.now = w.now.Add(10 * time.Second)
		w.setBundles([]byte("other"))
		for _, r := range []*Rotator{first, second} {
			_, _ = r.Reconcile(t.Context(), reconcile.Request{})
		}
	}
	if n := w.writes - before; n > 2*(10+120) || n < 100 {
		t.Errorf("%d writes in an hour", n)
	}
	if err := first.Ready(nil); err != nil {
		t.Errorf("a fight makes the replica unready: %v", err)
	}
	w.now = w.now.Add(time.Minute)
	w.settle(first, second)
	w.accepts(first, second)
}

// The error names the client that writes the CA bundles, and the remedy. Where they
// belong to another writer, nothing is written at all.
func TestRotator_NamesTheOtherWriter(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		with   func(*world)
		want   []string
		writes int
	}{
		"another operator": {
			func(w *world) {
				w.mutating.Webhooks[0].ClientConfig.Service = &admissionregistrationv1.ServiceReference{Namespace: "ns2", Name: "hook"}
			},
			[]string{"MutatingWebhookConfiguration op belongs to another installation", "Service ns2/hook", "uninstall one of the two"},
			0,
		},
		"annotation of cert-manager": {
			func(w *world) { w.validating.Annotations = map[string]string{injectAnnotation: "ns/old"} },
			[]string{"ValidatingWebhookConfiguration op has the annotation", "ns/old", "remove it, or set --manage-certificates=false"},
			0,
		},
		"a tool that restores what it applied": {
			func(w *world) {
				w.mutating.ManagedFields = []metav1.ManagedFieldsEntry{
					{Manager: string(fieldOwner), FieldsV1: metav1.NewFieldsV1(`{"f:webhooks":{"f:caBundle":{}}}`)},
					{Manager: "argocd", FieldsV1: metav1.NewFieldsV1(`{"f:webhooks":{"f:clientConfig":{"f:caBundle":{}}}}`)},
					{Manager: "kubectl", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{}}}`)},
				}
				w.validating.ManagedFields = w.mutating.ManagedFields
			},
			[]string{`WebhookConfiguration op: "argocd" changes it again`, "stop that one"},
			10,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.validating.Name, w.mutating.Name = "op", "op"
			tc.with(w)
			r := w.replica(DefaultLifetimes(), 0)
			var err error
			for range 20 {
				w.setBundles([]byte("other"))
				if _, err = r.Reconcile(t.Context(), reconcile.Request{}); err != nil {
					break
				}
			}
			if err == nil {
				t.Fatal("no error")
			}
			for _, part := range tc.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not contain %q", err, part)
				}
			}
			if w.writes != tc.writes {
				t.Errorf("%d writes, want %d", w.writes, tc.writes)
			}
		})
	}
}

// The mode changes to cert-manager and back. Replicas of the version before remain,
// as with an image that cannot be pulled, and may not write any more.
func TestRotator_ServesWhileTheModeChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := w.replica(DefaultLifetimes(), 0)
	w.pass(time.Hour, before)
	reconciled := func(replicas ...*Rotator) {
		t.Helper()
		for _, r := range replicas {
			_, _ = r.Reconcile(t.Context(), reconcile.Request{})
		}
		w.accepts(replicas...)
	}
	w.refuse = func(verb string, _ client.Object) error {
		if verb == "write" {
			return errRefused
		}
		return nil
	}
	annotate := func(by map[string]string) { w.validating.Annotations, w.mutating.Annotations = by, by }

	annotate(map[string]string{injectAnnotation: "ns/op"})
	reconciled(before)
	own := w.secret.Data
	issued, _, err := next(nil, nil, DefaultLifetimes(), []string{"hook.ns.svc"}, w.now, false)
	if err != nil {
		t.Fatal(err)
	}
	issued[caKeyKey] = own[caKeyKey] // which no write of cert-manager removes
	w.setData(issued)
	reconciled(before)
	w.setBundles(issued[bundleKey])
	after := w.replica(DefaultLifetimes(), 0)
	after.ReadOnly = true
	reconciled(before, after)
	w.secret = nil // by Helm, which no longer contains it
	reconciled(before, after)
	w.setData(issued)
	reconciled(before, after)

	annotate(nil)
	reconciled(after)
	w.refuse = func(string, client.Object) error { return nil }
	w.pass(2*time.Hour, w.replica(DefaultLifetimes(), 0), after)
	if n := len(parse(w.now, w.bundles()[0])); n != 1 {
		t.Errorf("the webhooks trust %d CAs after the change", n)
	}
}

// The Secrets of version 0.1: with a CA in the middle of a rotation, by Helm, and
// after Helm has removed the data that it had issued.
func TestRotator_AdoptsExistingInstallations(t *testing.T) {
	t.Parallel()
	l, names := DefaultLifetimes(), []string{"hook.ns.svc", "hook.ns.svc.cluster.local", "metrics.ns.svc", "metrics.ns.svc.cluster.local"}
	w := newWorld(t)
	issued, _, err := next(nil, nil, l, names, w.now, false)
	if err != nil {
		t.Fatal(err)
	}
	// A CA of version 0.1 has no other properties.
	newer, newerKey, err := issue(x509.Certificate{
		Subject: pkix.Name{CommonName: "platform-operator-ca"}, NotAfter: w.now.Add(l.CAValidity), KeyUsage: x509.KeyUsageCertSign, IsCA: true,
	}, nil, w.now)
	if err != nil {
		t.Fatal(err)
	}
	rotating := maps.Clone(issued)
	rotating[bundleKey], rotating[caKeyKey] = slices.Concat(newer, issued[bundleKey]), newerKey
	byHelm := maps.Clone(issued)
	byHelm[caKeyKey] = nil
	for name, tc := range map[string]struct {
		data   map[string][]byte
		bundle []byte
		keepCA bool
	}{
		"issued by the operator":          {data: issued, bundle: issued[bundleKey], keepCA: true},
		"in a rotation":                   {data: rotating, bundle: rotating[bundleKey], keepCA: true},
		"issued by Helm":                  {data: byHelm, bundle: byHelm[bundleKey]},
		"issued by Helm, and removed":     {data: nil, bundle: byHelm[bundleKey]},
		"issued by Helm, and all removed": {data: nil, bundle: nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.setData(tc.data)
			w.setBundles(tc.bundle)
			// A replica of the version before serves the certificate from memory.
			pair, err := tls.X509KeyPair(issued[corev1.TLSCertKey], issued[corev1.TLSPrivateKeyKey])
			if err != nil {
				t.Fatal(err)
			}
			before := &Rotator{}
			before.serve(t.Context(), &pair, nil)
			r := w.replica(l, 0)
			w.settle(r)
			w.accepts(r)
			if tc.bundle != nil {
				w.accepts(before)
			}
			if newest := parse(w.now, w.bundles()[0])[0]; newest.Equal(parse(w.now, slices.Concat(tc.bundle, newer))[0]) != tc.keepCA {
				t.Errorf("the CA was kept: %t, want %t", !tc.keepCA, tc.keepCA)
			}
			w.pass(2*time.Hour, r)
			if err := r.Ready(nil); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestRotator_RenewsWithoutAConfiguration(t *testing.T) {
	t.Parallel()
	isMutating := func(o client.Object) bool {
		_, ok := o.(*admissionregistrationv1.MutatingWebhookConfiguration)
		return ok
	}
	for name, tc := range map[string]struct {
		lose  func(*world)
		ready bool
	}{
		"one does not exist": {func(w *world) { w.mutating = nil }, true},
		"one cannot be read": {func(w *world) {
			w.refuse = func(verb string, o client.Object) error {
				if verb == "read" && isMutating(o) {
					return errRefused
				}
				return nil
			}
		}, false},
	} {
		w := newWorld(t)
		l := DefaultLifetimes()
		r := w.replica(l, 0)
		w.settle(r)
		before, _ := r.GetCertificate(nil)
		tc.lose(w)
		w.now = w.now.Add(l.Validity - l.RenewBefore)
		_, _ = r.Reconcile(t.Context(), reconcile.Request{})
		if after, _ := r.GetCertificate(nil); after.Leaf.Equal(before.Leaf) {
			t.Errorf("%s: the certificate was not renewed", name)
		}
		started := w.replica(l, 0)
		_, _ = started.Reconcile(t.Context(), reconcile.Request{})
		if ready := started.Ready(nil) == nil; ready != tc.ready {
			t.Errorf("%s: a replica that starts is ready: %t, want %t", name, ready, tc.ready)
		}
	}
}

func TestRotator_ReadyWithACertificateThatIsTrusted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.replica(short, 0)
	if _, err := r.GetCertificate(nil); err == nil || r.Ready(nil) == nil || len(r.Certificates()) != 0 {
		t.Error("there is a certificate before there is one")
	}
	w.refuse = func(verb string, o client.Object) error {
		if _, secret := o.(*corev1.Secret); verb == "write" && !secret {
			return errRefused
		}
		return nil
	}
	if _, err := r.Reconcile(t.Context(), reconcile.Request{}); !errors.Is(err, errRefused) {
		t.Errorf("got %v", err)
	}
	if r.Ready(nil) == nil {
		t.Error("ready although the webhooks do not trust the CA")
	}
	w.refuse = func(string, client.Object) error { return nil }
	w.settle(r)
	if err := r.Ready(nil); err != nil {
		t.Error(err)
	}
	want := map[string]time.Time{"serving": w.now.Add(short.Validity), "ca": w.now.Add(short.CAValidity)}
	got := map[string]time.Time{}
	for name, used := range r.Certificates() {
		got[name] = used.NotAfter
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("expiries (-want +got):\n%s", diff)
	}
}

// The certificate of another issuer is served unchanged; a broken one is not
// served, and nothing is written.
func TestRotator_ReadOnlyServesTheExistingCertificate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.replica(short, 0)
	r.ReadOnly = true
	data, _, err := next(nil, nil, short, []string{"hook.ns.svc"}, w.now, false)
	if err != nil {
		t.Fatal(err)
	}
	w.settle(r)
	if r.Ready(nil) == nil {
		t.Error("ready with an empty Secret")
	}
	delete(data, bundleKey) // public issuers may omit it
	w.setData(data)
	w.settle(r)
	if err := r.Ready(nil); err != nil {
		t.Error(err)
	}
	served, _ := r.GetCertificate(nil)
	data[corev1.TLSPrivateKeyKey] = []byte("nonsense")
	w.setData(data)
	if _, err := r.Reconcile(t.Context(), reconcile.Request{}); err == nil {
		t.Error("the broken Secret is not reported")
	}
	if still, _ := r.GetCertificate(nil); still != served {
		t.Error("a broken Secret took the certificate away")
	}
	if w.writes > 0 {
		t.Error("it wrote")
	}
}

func TestLifetimes(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Lifetimes){
		"renew-before 1m0s must be at least 1h0m0s":                           func(l *Lifetimes) { l.RenewBefore = time.Minute },
		"validity 720h0m0s must be longer than renew-before 720h0m0s":         func(l *Lifetimes) { l.Validity = 720 * time.Hour },
		"validity 87600h0m0s must be shorter than that of the CA, 87600h0m0s": func(l *Lifetimes) { l.Validity = l.CAValidity },
	} {
		l := DefaultLifetimes()
		if err := l.Validate(); err != nil {
			t.Fatal(err)
		}
		change(&l)
		if err := l.Validate(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// The Operator Lifecycle Manager names the webhook configurations, which the operator then
// may not read.
func TestRotator_ReadOnlyWithoutAConfiguration(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if err := (&Rotator{Secret: "cert"}).init(w, "ns", time.Now); err == nil {
		t.Error("a CA bundle is to be written nowhere")
	}
	r := w.replica(short, 0)
	r.ReadOnly, r.Configuration = true, ""
	w.refuse = func(_ string, o client.Object) error {
		if _, ok := o.(*corev1.Secret); !ok {
			return errRefused
		}
		return nil
	}
	data, _, err := next(nil, nil, short, []string{"hook.ns.svc"}, w.now, false)
	if err != nil {
		t.Fatal(err)
	}
	w.setData(data)
	w.settle(r)
	if err := r.Ready(nil); err != nil {
		t.Error(err)
	}
}
