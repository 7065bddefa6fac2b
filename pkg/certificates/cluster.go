package certificates

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// fieldOwner is the field manager of the writes of this package.
const fieldOwner = client.FieldOwner("platform-operator-certificates")

// cluster is the store that uses the API server. Every request is for one named
// object, and lists and watches use a field selector, so that RBAC can limit
// all of them to these names.
type cluster struct {
	client        client.Client
	clock         *clock
	secret        types.NamespacedName
	configuration string
	newCache      func(cache.Options) (cache.Cache, error)
	readOnly      bool
}

// Labels and annotations by which Helm recognizes the objects of a release.
// Others differ between versions of the chart: if they were applied here, the
// next apply of Helm would be a conflict.
const (
	helmManagedBy        = "app.kubernetes.io/managed-by" // a label
	helmReleaseName      = "meta.helm.sh/release-name"
	helmReleaseNamespace = "meta.helm.sh/release-namespace"
)

// release contains these labels and annotations of an object. A Secret that is
// created again after it was deleted needs them, or Helm refuses to install a
// release with that name. They are never removed, and a different value is kept
// because it belongs to another client.
type release map[string]string

// releaseOf returns the labels and annotations of an object.
func releaseOf(o client.Object) release {
	r := release{}
	for _, key := range []string{helmManagedBy, helmReleaseName, helmReleaseNamespace} {
		from := o.GetAnnotations()
		if key == helmManagedBy {
			from = o.GetLabels()
		}
		if v, ok := from[key]; ok {
			r[key] = v
		}
	}
	return r
}

// fillFrom returns the release with missing values copied from another one. An
// object without a release name does not belong to Helm, regardless of its
// labels.
func (r release) fillFrom(other release) release {
	if other[helmReleaseName] == "" {
		return r
	}
	filled := maps.Clone(other)
	maps.Copy(filled, r)
	return filled
}

// split returns the labels and the annotations.
func (r release) split() (labels, annotations map[string]string) {
	labels, annotations = map[string]string{}, maps.Clone(r)
	if v, ok := r[helmManagedBy]; ok {
		labels[helmManagedBy] = v
	}
	delete(annotations, helmManagedBy)
	return labels, annotations
}

func newCluster(mgr manager.Manager, k *Rotator, namespace string) (*cluster, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), admissionregistrationv1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("making the certificates' scheme: %w", err)
	}
	times := &clock{local: time.Now}
	httpClient := times.wrap(mgr.GetHTTPClient())
	// The manager's client would start a watch of all Secrets.
	direct, err := client.New(mgr.GetConfig(), client.Options{Scheme: scheme, Mapper: mgr.GetRESTMapper(), HTTPClient: httpClient})
	if err != nil {
		return nil, fmt.Errorf("making the certificates' client: %w", err)
	}
	return &cluster{
		clock:  times,
		client: direct, secret: types.NamespacedName{Namespace: namespace, Name: k.Secret},
		configuration: k.Configuration, readOnly: k.ReadOnly,
		newCache: func(o cache.Options) (cache.Cache, error) {
			o.Scheme, o.Mapper, o.HTTPClient = scheme, mgr.GetRESTMapper(), httpClient
			return cache.New(mgr.GetConfig(), o)
		},
	}, nil
}

// watched returns the objects that are watched.
func (c *cluster) watched() map[client.Object]cache.ByObject {
	named := func(name string) fields.Selector { return fields.OneTermEqualSelector("metadata.name", name) }
	all := map[client.Object]cache.ByObject{&corev1.Secret{}: {
		Namespaces: map[string]cache.Config{c.secret.Namespace: {FieldSelector: named(c.secret.Name)}},
	}}
	if !c.readOnly && c.configuration != "" {
		all[&admissionregistrationv1.ValidatingWebhookConfiguration{}] = cache.ByObject{Field: named(c.configuration)}
		all[&admissionregistrationv1.MutatingWebhookConfiguration{}] = cache.ByObject{Field: named(c.configuration)}
	}
	return all
}

// watch calls take with the data of the Secret when it changes, and look when
// any watched object changes. If the Secret were mounted, a change would arrive
// a minute later, and the key would be in a file.
func (c *cluster) watch(ctx context.Context, failed chan<- error, take func(context.Context, map[string][]byte), look func()) error {
	watched := c.watched()
	own, err := c.newCache(cache.Options{ByObject: watched})
	if err != nil {
		return fmt.Errorf("making the cache for the certificate: %w", err)
	}
	changed := func(o any) {
		if s, ok := o.(*corev1.Secret); ok {
			take(ctx, s.Data)
		}
		look()
	}
	for o := range watched {
		informer, err := own.GetInformer(ctx, o, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watching %T: %w", o, err)
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    changed,
			UpdateFunc: func(_, o any) { changed(o) },
			DeleteFunc: func(any) { look() },
		}); err != nil {
			return fmt.Errorf("watching %T: %w", o, err)
		}
	}
	go func() {
		if err := own.Start(ctx); err != nil {
			failed <- fmt.Errorf("watching the certificate: %w", err)
		}
	}()
	return nil
}

func (c *cluster) readSecret(ctx context.Context) (stored, error) {
	var s corev1.Secret
	err := c.client.Get(ctx, c.secret, &s)
	if apierrors.IsNotFound(err) {
		// An apply with this version creates the Secret, or fails if it exists.
		return stored{version: "1"}, nil
	}
	if err != nil {
		return stored{}, fmt.Errorf("reading the certificate's Secret: %w", err)
	}
	return stored{data: s.Data, version: s.ResourceVersion, release: releaseOf(&s)}, nil
}

func (c *cluster) writeSecret(ctx context.Context, secret stored) error {
	labels, annotations := secret.release.split()
	// An apply that creates an object is authorized with the name of the
	// object, so RBAC can restrict it to that name. For a create request it
	// cannot.
	s := corev1ac.Secret(c.secret.Name, c.secret.Namespace).WithResourceVersion(secret.version).WithData(secret.data).
		WithLabels(labels).WithAnnotations(annotations)
	if err := c.client.Apply(ctx, s, client.ForceOwnership, fieldOwner); err != nil {
		return fmt.Errorf("writing the certificate's Secret: %w", err)
	}
	return nil
}

func (c *cluster) readConfigurations(ctx context.Context) ([]configuration, error) {
	if c.configuration == "" {
		return nil, nil
	}
	var validating admissionregistrationv1.ValidatingWebhookConfiguration
	var mutating admissionregistrationv1.MutatingWebhookConfiguration
	var all []configuration
	var errs []error
	for _, one := range []struct {
		kind    string
		object  client.Object
		bundles func() [][]byte
	}{
		{"ValidatingWebhookConfiguration", &validating, func() (all [][]byte) {
			for _, w := range validating.Webhooks {
				all = append(all, w.ClientConfig.CABundle)
			}
			return all
		}},
		{"MutatingWebhookConfiguration", &mutating, func() (all [][]byte) {
			for _, w := range mutating.Webhooks {
				all = append(all, w.ClientConfig.CABundle)
			}
			return all
		}},
	} {
		err := c.client.Get(ctx, types.NamespacedName{Name: c.configuration}, one.object)
		switch {
		case apierrors.IsNotFound(err):
			all = append(all, configuration{kind: one.kind, missing: true})
			continue
		case err != nil:
			errs = append(errs, fmt.Errorf("reading the %s: %w", one.kind, err))
			continue
		}
		all = append(all, configuration{kind: one.kind, version: one.object.GetResourceVersion(), bundles: one.bundles(), release: releaseOf(one.object)})
	}
	return all, errors.Join(errs...)
}

func (c *cluster) inject(ctx context.Context, in configuration, bundle []byte) error {
	var o client.Object = &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if in.kind == "MutatingWebhookConfiguration" {
		o = &admissionregistrationv1.MutatingWebhookConfiguration{}
	}
	o.SetName(c.configuration)
	// The indexes of the webhooks are valid only for the version that was read.
	ops := []map[string]any{{"op": "replace", "path": "/metadata/resourceVersion", "value": in.version}}
	for i := range in.bundles {
		ops = append(ops, map[string]any{"op": "add", "path": fmt.Sprintf("/webhooks/%d/clientConfig/caBundle", i), "value": bundle})
	}
	patch, err := json.Marshal(ops)
	if err != nil {
		return fmt.Errorf("making the patch of the webhook configuration: %w", err)
	}
	if err := c.client.Patch(ctx, o, client.RawPatch(types.JSONPatchType, patch), fieldOwner); err != nil {
		return fmt.Errorf("writing the webhook configuration: %w", err)
	}
	return nil
}
