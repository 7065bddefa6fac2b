// Package operator makes the manager that all kinds run in: its caches, its
// client, its lease, its webhooks' certificates. It knows no kind.
package operator

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/certificates"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

// Options says how the manager runs.
type Options struct {
	// Namespace is the operator's own: its lease and its Secret are there.
	Namespace string
	// Watch are the namespaces whose objects are handled; empty means all.
	Watch []string
	// ReadYourWrites lets reads from the caches wait for the operator's own
	// writes, where that is correct.
	ReadYourWrites bool
	// Children are empty objects of every type that some kind makes. A type
	// may be named more than once.
	Children []client.Object

	// Without are API groups that the operator has no right to, and treats as if
	// the cluster did not know them.
	Without []string

	// MetricsAddress and ProbeAddress are where metrics and health are served;
	// "0" serves none.
	MetricsAddress, ProbeAddress string
	// MetricsCertificate is what metrics are served with. Nil makes one that
	// nobody has signed.
	MetricsCertificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// LeaderElection makes several replicas safe: one works, the others wait.
	LeaderElection bool
	// Admission keeps the certificate of admission, which is served at
	// WebhookPort. Nil serves none.
	Admission   *certificates.Keeper
	WebhookPort int
	// SkipNameValidation allows several managers in one process, for tests.
	SkipNameValidation bool
}

// shutdown is how long running passes and requests may take to end after
// SIGTERM. The lease is released when they have: the pod's grace period must
// be longer.
const shutdown = 20 * time.Second

// New makes the manager.
func New(cfg *rest.Config, scheme *runtime.Scheme, o Options) (manager.Manager, error) {
	// Kubernetes' priority and fairness protects the API server; a limit of
	// our own would only make a burst slower.
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1
	cfg.UserAgent = naming.ManagedBy

	grace := shutdown
	// Reads wait for our own writes: without it a third of the passes after a
	// write saw the state before it and wrote again. It is not correct with
	// several namespaces; there the memo of pkg/apply and the resource version
	// in status patches do the same at the price of a request now and then.
	ownWrites := o.ReadYourWrites && len(o.Watch) <= 1
	server := webhook.Options{Port: o.WebhookPort, TLSOpts: []func(*tls.Config){secure, func(c *tls.Config) {
		if o.Admission != nil {
			c.GetCertificate = o.Admission.GetCertificate
		}
	}}}
	mgr, err := manager.New(cfg, manager.Options{
		Scheme: scheme,
		Logger: expectRefusedEvents(log.Log),
		MapperProvider: func(cfg *rest.Config, c *http.Client) (meta.RESTMapper, error) {
			all, err := apiutil.NewDynamicRESTMapper(cfg, c)
			return mapper{all, o.Without}, err
		},
		Cache:    cacheOptions(scheme, o),
		NewCache: newCaches,
		Client: client.Options{
			FieldOwner: naming.FieldManager,
			Cache:      &client.CacheOptions{EnableReadYourWritesConsistency: &ownWrites},
		},
		Metrics:                       metricsOptions(o),
		HealthProbeBindAddress:        o.ProbeAddress,
		LeaderElection:                o.LeaderElection,
		LeaderElectionID:              naming.ManagedBy,
		LeaderElectionNamespace:       o.Namespace,
		LeaderElectionReleaseOnCancel: true,
		GracefulShutdownTimeout:       &grace,
		Controller:                    config.Controller{SkipNameValidation: &o.SkipNameValidation},
		WebhookServer:                 webhook.NewServer(server),
	})
	if err != nil {
		return nil, fmt.Errorf("making the manager: %w", err)
	}
	if err := errors.Join(indexOwners(mgr, o.Children), indexForeign(mgr, o.Children)); err != nil {
		return nil, err
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, fmt.Errorf("adding the health check: %w", err)
	}
	if err := mgr.AddReadyzCheck("ping", healthz.Ping); err != nil {
		return nil, fmt.Errorf("adding the readiness check: %w", err)
	}
	if o.Admission == nil {
		return mgr, nil
	}
	if err := o.Admission.AddTo(mgr, o.Namespace); err != nil {
		return nil, err
	}
	// A replica is ready when it can answer admission.
	err = errors.Join(
		mgr.AddReadyzCheck("certificate", o.Admission.Ready),
		mgr.AddReadyzCheck("admission", mgr.GetWebhookServer().StartedChecker()),
	)
	if err != nil {
		return nil, fmt.Errorf("adding the readiness checks: %w", err)
	}
	return mgr, nil
}

// cacheOptions keeps in memory only what is needed: of children only our own,
// and of managed fields only who wrote.
func cacheOptions(scheme *runtime.Scheme, o Options) cache.Options {
	byObject := map[client.Object]cache.ByObject{}
	for _, k := range ownKinds(scheme) {
		byObject[k] = cache.ByObject{Label: labels.Everything()}
	}
	for _, f := range foreign() {
		byObject[f] = cache.ByObject{Label: labels.Everything()}
	}
	var namespaces map[string]cache.Config
	if len(o.Watch) > 0 {
		namespaces = map[string]cache.Config{}
		for _, n := range o.Watch {
			namespaces[n] = cache.Config{}
		}
	}
	return cache.Options{
		ByObject:             byObject,
		DefaultLabelSelector: labels.SelectorFromSet(labels.Set{naming.LabelManagedBy: naming.ManagedBy}),
		DefaultNamespaces:    namespaces,
		DefaultTransform:     stripManagedFields,
		// A read of a kind that nobody watches is a mistake of ours, and
		// would start a watch of the whole cluster.
		ReaderFailOnMissingInformer: true,
	}
}

// ownKinds are empty objects of our own kinds: of these the caches hold all, and
// of everything else what carries our label. A selector for each type of the
// children would have to name types that a cluster may not know.
func ownKinds(scheme *runtime.Scheme) []client.Object {
	var all []client.Object
	for gvk := range scheme.AllKnownTypes() {
		empty, err := scheme.New(gvk)
		if err != nil {
			continue
		}
		if k, ok := empty.(interface {
			client.Object
			GetStatus() *common.Status
		}); ok {
			all = append(all, k)
		}
	}
	return all
}

// indexOwners makes an object's revisions and ConfigMaps be found without a look
// at all those of its namespace.
func indexOwners(mgr manager.Manager, children []client.Object) error {
	return index(mgr, children, []client.Object{&appsv1.ControllerRevision{}, &corev1.ConfigMap{}}, naming.IndexOwner, func(o client.Object) []string {
		if uid := naming.OwnerUID(o); uid != "" {
			return []string{string(uid)}
		}
		return nil
	})
}

// index adds an index over those of the types that are children of some kind.
func index(mgr manager.Manager, children, types []client.Object, name string, values client.IndexerFunc) error {
	for _, indexed := range types {
		t := reflect.TypeOf(indexed)
		if !slices.ContainsFunc(children, func(c client.Object) bool { return reflect.TypeOf(c) == t }) {
			continue
		}
		if err := mgr.GetFieldIndexer().IndexField(context.Background(), indexed, name, values); err != nil {
			return fmt.Errorf("indexing %T: %w", indexed, err)
		}
	}
	return nil
}

// stripManagedFields leaves of the managed fields who wrote and how, which
// tells that a child was made by somebody else. The fields themselves are most
// of an object's size.
func stripManagedFields(in any) (any, error) {
	o, ok := in.(metav1.Object)
	if !ok {
		return in, nil
	}
	entries := o.GetManagedFields()
	for i, e := range entries {
		entries[i] = metav1.ManagedFieldsEntry{Manager: e.Manager, Operation: e.Operation, Subresource: e.Subresource}
	}
	o.SetManagedFields(entries)
	return in, nil
}
