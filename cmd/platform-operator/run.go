package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap/zapcore"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	crzap "sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/platform-operator/platform-operator/controllers"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/certificates"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/operator"
	"github.com/platform-operator/platform-operator/pkg/telemetry"
	"github.com/platform-operator/platform-operator/pkg/version"
	"github.com/platform-operator/platform-operator/webhooks"
)

type runFlags struct {
	operator.Options
	admission certificates.Rotator
	webhooks  bool
	certs     bool
	config    string
	logLevel  string
	logFormat string
}

func runCommand() *cobra.Command {
	f := runFlags{admission: certificates.Rotator{Lifetimes: certificates.DefaultLifetimes()}}
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the operator (the default)",
		Long: `Run the operator until it receives SIGTERM or SIGINT.

Environment:
  POD_NAMESPACE    namespace of the operator, for its Lease and its certificate
  WATCH_NAMESPACE  namespaces to watch instead of those of the platform configuration, with commas between them,
                   as the Operator Lifecycle Manager names them; empty or not set means those of the configuration
  PLATFORM_CONFIG  the default of --config`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return run(c, &f) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.config, "config", os.Getenv("PLATFORM_CONFIG"), "file with the platform configuration; empty means the defaults")
	fl.StringVar(&f.MetricsAddress, "metrics-bind-address", ":8443", "address of /metrics, which is served over TLS to authorized clients; 0 disables it")
	fl.StringVar(&f.ProbeAddress, "health-probe-bind-address", ":8081", "address of /healthz and /readyz; 0 disables them")
	fl.StringVar(&f.ProfileAddress, "pprof-bind-address", "", "address of /debug/pprof, such as 127.0.0.1:6060; it has no authentication; empty disables it")
	fl.BoolVar(&f.LeaderElection, "leader-elect", true, "use a Lease for leader election, so that several replicas can run")
	fl.BoolVar(&f.webhooks, "webhooks", true, "serve the admission webhooks; requires the Service, the Secret and the webhook configurations named below")
	fl.IntVar(&f.WebhookPort, "webhook-port", 9443, "port of the admission webhooks")
	fl.StringVar(&f.admission.Secret, "webhook-secret", "platform-operator-webhook-cert", "name of the Secret with the certificate of the webhooks and the metrics")
	fl.StringVar(&f.admission.Configuration, "webhook-configuration", "platform-operator", "name of the validating and the mutating webhook configuration; may be empty without --manage-certificates")
	fl.StringSliceVar(&f.admission.Services, "certificate-services", []string{"platform-operator-webhook", "platform-operator-metrics"}, "names of the Services that the certificate is valid for")
	fl.BoolVar(&f.certs, "manage-certificates", true, "issue and renew the certificate, and write its CA into the webhook configurations; false only reads the Secret, for certificates that are managed elsewhere, such as by cert-manager")
	fl.DurationVar(&f.admission.Lifetimes.Validity, "certificate-validity", f.admission.Lifetimes.Validity, "validity of a certificate")
	fl.DurationVar(&f.admission.Lifetimes.RenewBefore, "certificate-renew-before", f.admission.Lifetimes.RenewBefore, "how long before its expiry a certificate is renewed")
	fl.StringVar(&f.logLevel, "log-level", "info", "debug, info or error")
	fl.StringVar(&f.logFormat, "log-format", "json", "json or console")
	return cmd
}

// platformOf returns the platform configuration for the namespaces that the Operator
// Lifecycle Manager names.
func platformOf(file string) (config.Platform, error) {
	platform, err := loadPlatform(file)
	if names := os.Getenv("WATCH_NAMESPACE"); err == nil && names != "" {
		platform.WatchNamespaces = strings.Split(names, ",")
		if err = platform.Validate(); err != nil {
			err = fmt.Errorf("WATCH_NAMESPACE: %w", err)
		}
	}
	return platform, err
}

func run(cmd *cobra.Command, f *runFlags) error {
	level, err := zapcore.ParseLevel(f.logLevel)
	if err != nil || !slices.Contains([]zapcore.Level{zapcore.DebugLevel, zapcore.InfoLevel, zapcore.ErrorLevel}, level) {
		return fmt.Errorf("--log-level %q must be debug, info or error", f.logLevel)
	}
	var format crzap.Opts
	switch f.logFormat {
	case "json":
		format = crzap.JSONEncoder()
	case "console":
		format = crzap.ConsoleEncoder()
	default:
		return fmt.Errorf("--log-format %q must be json or console", f.logFormat)
	}
	ctrl.SetLogger(crzap.New(crzap.Level(level), format))
	log := ctrl.Log.WithName("setup")

	platform, err := platformOf(f.config)
	if err != nil {
		return err
	}
	s, err := scheme()
	if err != nil {
		return err
	}
	f.Namespace = os.Getenv("POD_NAMESPACE")
	if f.Namespace == "" && (f.LeaderElection || f.webhooks) {
		return errors.New("POD_NAMESPACE is not set: set it to the namespace for the Lease and the certificate, or use --leader-elect=false --webhooks=false outside of a cluster")
	}
	if f.webhooks {
		f.admission.ReadOnly = !f.certs
		f.Admission, f.MetricsCertificate = &f.admission, f.admission.GetCertificate
	}
	f.Watch = platform.WatchNamespaces
	f.ReadYourWrites = platform.Enabled(config.ReadYourWrites)
	f.Children = controllers.Children(platform)
	f.Kinds = controllers.Objects(platform)
	f.Without = controllers.Without(platform)

	cfg, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("loading the kubeconfig: %w", err)
	}
	operator.LetSmallHeapsGrow()
	servers, err := operator.New(cfg, s, f.Servers())
	if err != nil {
		return err
	}
	measured := telemetry.New(telemetry.Options{WithoutNamespaces: !platform.Metrics.Namespaces, Certificates: f.admission.Certificates})
	if err := measured.Register(metrics.Registry); err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	if f.webhooks {
		if err := webhooks.Setup(servers, platform, measured); err != nil {
			return err
		}
	}
	log.Info("Loaded the platform configuration", "configuration", platform, "gatesChanged", platform.Changed())
	if disabled := controllers.Disabled(platform); len(disabled) > 0 {
		log.Info("Objects of the kinds that the platform configuration disables are not managed. Their deletion waits for the finalizer if their deletionPolicy is Orphan: remove it with platform-operator release --kinds.",
			"kinds", controllers.Names(disabled))
	}
	log.Info("Starting", "version", version.Version, "namespaces", f.Watch)
	started := time.Now()
	ctx, stop := context.WithCancel(cmd.Context())
	defer stop()
	terms := make(chan error, 1)
	go func() {
		terms <- operator.Terms(ctx, func(ctx context.Context) error {
			return term(ctx, cfg, s, f.Options, platform, measured)
		})
	}()
	err = servers.Start(ctx)
	stop() // what the servers ended with ends the controllers, too
	if err := errors.Join(err, <-terms, releaseIfDeleted(cmd.Context(), cfg, s, f.Options, platform)); err != nil {
		return fmt.Errorf("running: %w", err)
	}
	log.Info("Stopped", "after", time.Since(started).Round(time.Second).String())
	return nil
}

// term runs the controllers of all kinds that are served until ctx ends, they lose the
// Lease, or another kind or type of children is served.
func term(ctx context.Context, cfg *rest.Config, s *runtime.Scheme, o operator.Options, platform config.Platform, measured *telemetry.Metrics) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	served, missing, err := operator.Served(cfg, s, o.Kinds)
	if err != nil {
		return err
	}
	measured.SetUnserved(names(s, missing))
	var awaited []func() bool
	if len(missing) > 0 {
		ctrl.Log.WithName("setup").Error(nil, "Kinds are not managed because their CRDs are missing. They will be when the CRDs are installed", "kinds", names(s, missing))
		awaited = append(awaited, func() bool {
			served, _, _ := operator.Served(cfg, s, missing) // an error: it is looked up again
			return len(served) > 0
		})
	}
	if len(served) == 0 {
		operator.Await(ctx, awaited...)
		return nil
	}
	platform.Kinds = names(s, served)
	mgr, err := operator.New(cfg, s, o.Controllers(served))
	if err != nil {
		return err
	}
	if err := errors.Join(measured.NewTerm(metrics.Registry, mgr.Elected()), measured.Objects.Watch(mgr.GetCache(), s, served)); err != nil {
		return fmt.Errorf("registering metrics: %w", err)
	}
	if err := controllers.Setup(mgr, apply.NewApplier(mgr.GetClient(), mgr.GetAPIReader(), measured.Child), platform, func(is func() bool) { awaited = append(awaited, is) }); err != nil {
		return fmt.Errorf("setting up the controllers: %w", err)
	}
	go func() {
		operator.Await(ctx, awaited...)
		stop()
	}()
	return mgr.Start(ctx) //nolint:wrapcheck // the caller says what ended
}

// releaseIfDeleted removes the finalizers of all objects if the namespace of the operator is
// being deleted: nothing else would, and the objects could not be deleted.
func releaseIfDeleted(ctx context.Context, cfg *rest.Config, s *runtime.Scheme, o operator.Options, platform config.Platform) error {
	if o.Namespace == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1
	c, err := client.New(cfg, client.Options{Scheme: s})
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	return operator.ReleaseIfDeleted(ctx, c, o.Namespace, controllers.Lists(controllers.Kinds(platform)), os.Stderr, o.Watch...) //nolint:wrapcheck // it names the object
}

// names returns the names of kinds.
func names(s *runtime.Scheme, kinds []telemetry.Object) []string {
	var all []string
	for _, k := range kinds {
		if gvk, err := apiutil.GVKForObject(k, s); err == nil {
			all = append(all, gvk.Kind)
		}
	}
	return all
}
