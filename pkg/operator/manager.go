// Package operator creates the manager in which all kinds run: its caches,
// client, Lease and the certificates of its webhooks. It does not depend on any
// kind.
package operator

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/platform-operator/platform-operator/pkg/caches"
	"github.com/platform-operator/platform-operator/pkg/certificates"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/telemetry"
	"github.com/platform-operator/platform-operator/pkg/webhookserver"
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

	serversOnly bool // see Servers
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
	admission := secure(nil)
	if o.Admission != nil {
		admission.GetCertificate = o.Admission.GetCertificate
	}
	var lock resourcelock.Interface
	recorder := &lateRecorder{}
	if o.LeaderElection {
		var err error
		if lock, err = newLock(cfg, o.Namespace, recorder); err != nil {
			return nil, err
		}
	}
	newClient := client.New
	if ownWrites {
		newClient = newBoundedClient
	}
	options := manager.Options{
		Scheme: scheme,
		Logger: expectRefusedEvents(log.Log),
		MapperProvider: func(cfg *rest.Config, c *http.Client) (meta.RESTMapper, error) {
			all, err := apiutil.NewDynamicRESTMapper(cfg, c)
			return mapper{all, o.Without}, err
		},
		NewClient: newClient,
		Client: client.Options{
			FieldOwner: naming.FieldManager,
			Cache:      &client.CacheOptions{EnableReadYourWritesConsistency: &ownWrites},
		},
		Metrics:                             metricsserver.Options{BindAddress: disabled}, // see serveMetrics
		PprofBindAddress:                    o.ProfileAddress,
		LeaderElection:                      o.LeaderElection,
		LeaderElectionResourceLockInterface: lock,
		// The metric leader_election_master_status has it as the label name.
		LeaderElectionID:              naming.ManagedBy,
		LeaderElectionReleaseOnCancel: true,
		GracefulShutdownTimeout:       &grace,
		Controller:                    config.Controller{SkipNameValidation: &o.SkipNameValidation},
		WebhookServer:                 webhookserver.New(net.JoinHostPort("", strconv.Itoa(o.WebhookPort)), admission),
	}
	if o.serversOnly {
		options.Controller.CacheSyncTimeout = forever
	} else {
		options.Cache, options.NewCache = caches.Options(scheme, o.Kinds, o.Watch), caches.New
	}
	mgr, err := manager.New(cfg, options)
	if err != nil {
		return nil, fmt.Errorf("making the manager: %w", err)
	}
	recorder.EventRecorder = mgr.GetEventRecorderFor(naming.ManagedBy) //nolint:staticcheck // of the elector, which uses the core/v1 API
	if err := caches.AddIndexes(context.Background(), mgr.GetFieldIndexer(), o.Children); err != nil {
		return nil, err
	}
	ready := map[string]healthz.Checker{"ping": healthz.Ping}
	if o.Admission != nil {
		if err := o.Admission.AddTo(mgr, o.Namespace); err != nil {
			return nil, err
		}
		// A replica is ready when it can respond to admission requests.
		ready["certificate"], ready["admission"] = o.Admission.Ready, mgr.GetWebhookServer().StartedChecker()
	}
	if err := errors.Join(serveHealth(mgr, o.ProbeAddress, ready), serveMetrics(mgr, o)); err != nil {
		return nil, err
	}
	return mgr, nil
}
