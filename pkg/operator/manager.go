// Package operator creates the manager in which all kinds run: its caches,
// client, Lease and the certificates of its webhooks. It does not depend on any
// kind.
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
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/platform-operator/platform-operator/pkg/certificates"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/telemetry"
)

// Options configures the manager.
type Options struct {
	// Namespace is the namespace of the operator, which contains its Lease and
	// Secret.
	Namespace string
	// Watch lists the namespaces whose objects are reconciled. If it is empty,
	// all are.
	Watch []string
	// ReadYourWrites makes reads from the caches wait for the operator's own
	// writes, if that is correct.
	ReadYourWrites bool
	// Kinds are empty objects of the kinds that are reconciled. If it is empty,
	// these are all kinds in the scheme.
	Kinds []telemetry.Object
	// Children are empty objects of every type that a kind creates. A type may
	// be listed more than once.
	Children []client.Object

	// Without lists the API groups for which the operator has no permissions.
	// They are treated as if the cluster did not serve them.
	Without []string

	// MetricsAddress and ProbeAddress are the addresses of the metrics and
	// health endpoints. "0" disables an endpoint.
	MetricsAddress, ProbeAddress string
	// ProfileAddress is the address of net/http/pprof, without authentication.
	// If it is empty, there is none.
	ProfileAddress string
	// MetricsCertificate returns the certificate of the metrics endpoint. If it
	// is nil, the endpoint uses a self-signed certificate.
	MetricsCertificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// LeaderElection allows several replicas, of which only the leader
	// reconciles.
	LeaderElection bool
	// Admission manages the certificate of the admission webhooks, which listen
	// on WebhookPort. If it is nil, there are no webhooks.
	Admission   *certificates.Rotator
	WebhookPort int
	// SkipNameValidation allows several managers in one process, for tests.
	SkipNameValidation bool
}

// shutdown is how long running reconciles and requests may take to end after
// SIGTERM. The Lease is released afterwards, so the grace period of the pod
// must be longer.
const shutdown = 20 * time.Second

// New returns the manager.
func New(cfg *rest.Config, scheme *runtime.Scheme, o Options) (manager.Manager, error) {
	// API Priority and Fairness protects the API server; a client-side limit
	// would only make bursts slower.
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1
	cfg.UserAgent = naming.ManagedBy

	grace := shutdown
	// Reads wait for the operator's own writes: without this, a third of the
	// reconciles after a write observed the state before it and wrote again. It
	// is not correct with several namespaces. There, the memo of pkg/apply and
	// the resource version in status patches have the same effect, at the cost
	// of an occasional request.
	ownWrites := o.ReadYourWrites && len(o.Watch) <= 1
	server := webhook.Options{Port: o.WebhookPort, TLSOpts: []func(*tls.Config){secure, func(c *tls.Config) {
		if o.Admission != nil {
			c.GetCertificate = o.Admission.GetCertificate
		}
	}}}
	var lock resourcelock.Interface
	recorder := &lateRecorder{}
	if o.LeaderElection {
		var err error
		if lock, err = newLock(cfg, o.Namespace, recorder); err != nil {
			return nil, err
		}
	}
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
		Metrics:                             metricsOptions(o),
		HealthProbeBindAddress:              o.ProbeAddress,
		PprofBindAddress:                    o.ProfileAddress,
		LeaderElection:                      o.LeaderElection,
		LeaderElectionResourceLockInterface: lock,
		// The metric leader_election_master_status has it as the label name.
		LeaderElectionID:              naming.ManagedBy,
		LeaderElectionReleaseOnCancel: true,
		GracefulShutdownTimeout:       &grace,
		Controller:                    config.Controller{SkipNameValidation: &o.SkipNameValidation},
		WebhookServer:                 newWebhookServer(server),
	})
	if err != nil {
		return nil, fmt.Errorf("making the manager: %w", err)
	}
	recorder.EventRecorder = mgr.GetEventRecorderFor(naming.ManagedBy) //nolint:staticcheck // of the elector, which uses the core/v1 API
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
	// A replica is ready when it can respond to admission requests.
	err = errors.Join(
		mgr.AddReadyzCheck("certificate", o.Admission.Ready),
		mgr.AddReadyzCheck("admission", mgr.GetWebhookServer().StartedChecker()),
	)
	if err != nil {
		return nil, fmt.Errorf("adding the readiness checks: %w", err)
	}
	return mgr, nil
}

// cacheOptions limits the memory of the caches: of child types they contain
// only objects with the label of children, and of each object only what is
// compared or reported.
func cacheOptions(scheme *runtime.Scheme, o Options) cache.Options {
	byObject := map[client.Object]cache.ByObject{}
	kinds := o.Kinds
	if len(kinds) == 0 {
		kinds = ownKinds(scheme)
	}
	for _, k := range kinds {
		byObject[k] = cache.ByObject{Label: labels.Everything()}
	}
	for _, p := range packedTypes() {
		// A packed object is decoded for each reader, so that no copy is needed.
		options := cache.ByObject{UnsafeDisableDeepCopy: new(!contentIsRead(reflect.TypeOf(p)))}
		if slices.ContainsFunc(unownedTypes(), func(u client.Object) bool { return reflect.TypeOf(u) == reflect.TypeOf(p) }) {
			options.Label = labels.Everything()
		}
		byObject[p] = options
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
		DefaultTransform:     new(trimmer).trim,
		// A read of a kind without an informer is a bug, and would start a
		// watch of the whole cluster.
		ReaderFailOnMissingInformer: true,
	}
}

// ownKinds returns empty objects of the operator's own kinds. The caches
// contain all objects of these, and otherwise only those with the label of
// children. A selector for each child type is not possible, because a cluster
// may not serve all of them.
func ownKinds(scheme *runtime.Scheme) []telemetry.Object {
	var all []telemetry.Object
	for gvk := range scheme.AllKnownTypes() {
		empty, err := scheme.New(gvk)
		if err != nil {
			continue
		}
		if k, ok := empty.(telemetry.Object); ok {
			all = append(all, k)
		}
	}
	return all
}

// indexOwners indexes ControllerRevisions and ConfigMaps by owner UID.
func indexOwners(mgr manager.Manager, children []client.Object) error {
	return index(mgr, children, []client.Object{&appsv1.ControllerRevision{}, &corev1.ConfigMap{}}, naming.IndexOwner, func(o client.Object) []string {
		if uid := naming.OwnerUID(o); uid != "" {
			return []string{string(uid)}
		}
		return nil
	})
}

// index adds an index for those of the types that are children of a kind.
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
