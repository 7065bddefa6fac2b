package webserver

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/apis/common"
	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/conditions"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/configsource"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/judge"
	"github.com/platform-operator/platform-operator/pkg/resources"
	"github.com/platform-operator/platform-operator/pkg/rollout"
	"github.com/platform-operator/platform-operator/pkg/workload"
)

func serviceName(w *webserverv1.WebServer) string { return w.Name + "-service" }

// replicas returns spec.replicas, which defaults to 1.
func replicas(w *webserverv1.WebServer) int32 { return ptr.Deref(w.Spec.Replicas, 1) }

// pods contains everything that the pods depend on: the relevant part of the spec,
// and the content of the ConfigMaps and Secrets that it refers to.
type pods struct {
	webserverv1.WebServerSpec
	Judged  bool              `json:"judged,omitempty"`
	Sources map[string]string `json:"sources,omitempty"`
	Secrets string            `json:"secrets,omitempty"`
}

// WithoutContent returns only what the spec asks for.
func (p pods) WithoutContent() any {
	p.Sources, p.Secrets = nil, ""
	return p
}

// inputs returns what the pods depend on. Fields that do not affect pods are
// omitted, so that a change of one does not create a revision.
func inputs(w *webserverv1.WebServer, m material) pods {
	s := w.Spec.DeepCopy()
	s.Replicas, s.DeletionPolicy, s.Paused = nil, "", false
	s.Service, s.Expose, s.Autoscaling, s.PodDisruptionBudget, s.NetworkPolicy = nil, nil, nil, nil, nil
	s.Rollout = s.Rollout.Inputs()
	if s.Monitoring = nil; monitored(w) {
		s.Monitoring = &common.Monitoring{Enabled: true, Resources: w.Spec.Monitoring.Resources}
	}
	return pods{WebServerSpec: *s, Judged: w.Spec.Rollout.Judged(), Sources: m.hashes, Secrets: m.secrets}
}

// object is a WebServer as one reconcile handles it.
type object struct {
	workload.Defaults
	w        *webserverv1.WebServer
	observed workload.Observed
	platform config.Platform // its default type of Services is that of this object
	material material        // the ConfigMaps and Secrets that the spec refers to
	missing  error           // reports those that do not exist
}

func newObject(w *webserverv1.WebServer, o workload.Observed, platform config.Platform) *object {
	x := &object{w: w, observed: o, platform: platform}
	// Now: the status that decides it is about to be replaced.
	x.platform.WebServer.ServiceType = w.DefaultServiceType(platform.WebServer.ServiceType)
	x.material, x.missing = sourcesOf(w).resolve(o)
	return x
}

// Spec returns the parts of spec and status that kinds share.
func (x *object) Spec() workload.Spec {
	w := x.w
	s := workload.Spec{
		Kind: webserverv1.Kind, Owner: w, Labels: w.PodLabels(), Container: containerName,
		Sidecars: []string{rollout.ConfigTest, exporterName, judge.Container}, Profile: common.SecurityRestricted, Commands: commands,
		Scratch: scratch, Carried: &carried,
		IgnoreLogLines: []string{
			`the "user" directive makes sense only`, // every nginx logs it that does not run as root
			"/nginx.conf test failed",               // it follows every error in the configuration
		},
		KnownErrors: map[string]string{`unknown directive "http3"`: msgNoHTTP3.With()},
		Replicas:    replicas(w), LastReplicas: w.Status.Replicas,
		Rollout: w.Spec.Rollout, RolloutStatus: &w.Status.RolloutStatus,
		PodDisruptionBudget: w.Spec.PodDisruptionBudget, NetworkPolicy: w.Spec.NetworkPolicy, Ports: openPorts(w),
		Service: serviceName(w), Port: servicePort(w), PortName: httpName(x.observed.Service),
		Autoscaling: w.Spec.Autoscaling, Expose: w.Spec.Expose, Monitoring: w.Spec.Monitoring,
	}
	if monitored(w) {
		// The exporter runs because of the spec alone: a CRD that is installed
		// later is no reason to replace pods.
		s.Metrics = []string{metricsName}
		if w.Spec.Rollout.Judged() {
			s.Metrics = append(s.Metrics, judge.MetricsName)
		}
	}
	return s
}

// Pods returns the inputs and the template of the pods.
func (x *object) Pods() (any, *corev1ac.PodTemplateSpecApplyConfiguration, error) {
	if x.missing != nil {
		return nil, nil, x.missing
	}
	if err := workload.CheckJudge(x.w.Spec.Rollout, x.platform); err != nil {
		return nil, nil, err //nolint:wrapcheck // it is complete
	}
	return inputs(x.w, x.material), template(x.w, x.material, x.platform), nil
}

// Snapshots returns the ConfigMaps that the pods mount.
func (x *object) Snapshots() []configsource.Snapshot { return x.material.snapshots() }

// State reports that the certificate in use has expired or does not match its key, as far as
// the operator may read the Secret.
func (x *object) State(s conditions.State, _ *corev1.Service) conditions.State {
	if t := x.w.Spec.TLS; t != nil && s.Ready.Status {
		cause := x.observed.Secrets[t.SecretRef.Name].Pair
		if left, known := x.certificateLeft(); known && left <= 0 {
			cause = "the certificate has expired"
		}
		if cause != "" {
			s.Stalled = conditions.Condition{Status: true, Reason: msgPair.Reason(), Message: msgPair.Quoting(cause, t.SecretRef.Name)}
		}
	}
	return s
}

// certificateLeft returns how long the certificate in use is valid, if that is known.
func (x *object) certificateLeft() (left time.Duration, known bool) {
	if x.w.Spec.TLS == nil {
		return 0, false
	}
	expires := x.observed.Secrets[x.w.Spec.TLS.SecretRef.Name].Expires
	return expires.Sub(x.observed.Now), !expires.IsZero()
}

// Deployment adds the log lines of the legacy operator.
func (x *object) Deployment(build func(map[string]string) apply.Intent, template *corev1ac.PodTemplateSpecApplyConfiguration) apply.Intent {
	in := build(x.w.PodLabels())
	in.Changes = changes(x.Spec(), x.observed.Deployment, template)
	return in
}

// AddService adds the Service. It has the ports https and http3 while the pods that clients
// reach have them.
func (x *object) AddService(plan *converge.Plan, ports workload.Ports) {
	plan.Apply = append(plan.Apply, service(x.w, x.observed, x.platform.WebServer, served{
		http:  ports.Number("http", x.w.HTTPPort()),
		https: ports.Has(httpsName, x.w.Spec.TLS != nil),
		http3: ports.Has(http3Name, http3(x.w)),
	}))
}

// served is what the pods that clients reach serve.
type served struct {
	http         intstr.IntOrString // the target port
	https, http3 bool
	unnamed      bool // the only port has no name
}

// changes returns the log lines that the legacy operator writes when the spec is
// edited.
func changes(s workload.Spec, live *appsv1.Deployment, pods *corev1ac.PodTemplateSpecApplyConfiguration) []apply.Change {
	if live == nil {
		return nil
	}
	var lines []apply.Change
	if to := s.Scale(live); to != nil && live.Spec.Replicas != nil && *live.Spec.Replicas != *to {
		lines = append(lines, apply.Change{Message: "Deployment spec.replicas change", KeysAndValues: []any{"from", *live.Spec.Replicas, "to", *to}})
	}
	var to string
	if pods != nil && pods.Spec != nil && len(pods.Spec.Containers) > 0 {
		to = *pods.Spec.Containers[0].Image
	}
	if cs := live.Spec.Template.Spec.Containers; to != "" && len(cs) > 0 && cs[0].Image != to {
		lines = append(lines, apply.Change{Message: "Deployment spec.template.spec.container[0].image change", KeysAndValues: []any{"from", cs[0].Image, "to", to}})
	}
	return lines
}

func service(w *webserverv1.WebServer, o workload.Observed, platform config.WebServer, is served) apply.Intent {
	kind := serviceType(w, platform)
	port, from := nodePort(w, o, platform, kind)
	https := httpsNodePort(w, o, kind, is.https)
	is.http3 = is.http3 && !(https == 0 && allocates(o.Service, kind))
	is.unnamed = !is.https && httpName(o.Service) == ""
	in := serviceIntent(w, kind, is, port, https)
	mine := int32(0) // the node port that the user asked for, 0 for none
	if from == asked {
		mine = port
	}
	if port != mine || https != 0 {
		// The user did not ask for this node port: if it is not available, any
		// other will do, and learning which one was allocated is not a reason to
		// write.
		anyPort := serviceIntent(w, kind, is, mine, 0)
		in.HashIntent = &anyPort
		in.Fallback = func(refused error) (apply.Intent, bool) {
			return serviceIntent(w, kind, is, mine, 0), fault.NodePort(refused)
		}
		if from == had || https != 0 {
			// Clients use this port. The API server releases it a moment after the
			// Service was deleted. The time is short, because there is no Service
			// during it: if this create raced with that of another Service of the
			// same name, the API server loses track of the port for up to three
			// minutes (its BeginCreate hook is not reverted if an apply that creates
			// finds an object when it writes).
			in.FallbackAfter = 5 * time.Second
		}
	}
	if o.Service == nil { // that of the legacy operator may exist
		in.IfExists = func(live client.Object) apply.Intent {
			found := o
			found.Service, _ = live.(*corev1.Service)
			return service(w, found, platform, is)
		}
	}
	return in
}

func serviceIntent(w *webserverv1.WebServer, kind corev1.ServiceType, is served, nodePort, httpsNodePort int32) apply.Intent {
	ports := []*corev1ac.ServicePortApplyConfiguration{onePort(servicePort(w), is.http, nodePort)}
	// A proxy of the cluster refuses requests between a change of the name and that of the
	// EndpointSlices, so the port has the name that it needs next to another one from the
	// beginning. That of the legacy operator has none.
	if !is.unnamed {
		ports[0].WithName(httpName(nil))
	}
	if is.https {
		ports = append(ports, onePort(tlsPort, intstr.FromInt(tlsPort), httpsNodePort).WithName(httpsName))
	}
	if is.http3 {
		ports = append(ports, onePort(tlsPort, intstr.FromInt(tlsPort), httpsNodePort).WithName(http3Name).WithProtocol(corev1.ProtocolUDP))
	}
	ac := corev1ac.Service(serviceName(w), w.Namespace).
		WithLabels(w.PodLabels()).
		WithSpec(corev1ac.ServiceSpec().WithType(kind).WithSelector(w.PodLabels()).WithPorts(ports...))
	return resources.Service(ac, ptr.Deref(w.Spec.Service, webserverv1.ServiceSpec{}).ServiceOptions)
}

// httpName returns the name that the HTTP port of a Service, which may be nil, is to have: "" if
// it exists without one.
func httpName(s *corev1.Service) string {
	if s != nil && httpPort(s).Name == "" {
		return ""
	}
	return "http"
}

func onePort(port int32, target intstr.IntOrString, nodePort int32) *corev1ac.ServicePortApplyConfiguration {
	p := corev1ac.ServicePort().WithProtocol(corev1.ProtocolTCP).WithPort(port).WithTargetPort(target)
	if nodePort != 0 {
		p.WithNodePort(nodePort)
	}
	return p
}

func servicePort(w *webserverv1.WebServer) int32 {
	return ptr.Deref(ptr.Deref(w.Spec.Service, webserverv1.ServiceSpec{}).Port, nginxPort)
}

func serviceType(w *webserverv1.WebServer, platform config.WebServer) corev1.ServiceType {
	if s := w.Spec.Service; s != nil {
		return platform.ServiceTypeOf(s.Type, s.NodePort)
	}
	return platform.ServiceType
}

// origin is where a node port comes from.
type origin int

const (
	preferred origin = iota // the default of the platform
	had                     // the object had it before
	asked                   // the user asked for it
)

// nodePort returns the node port to apply, 0 for none, and its origin. A port that
// was allocated once is kept. It is read from the status if the Service was
// deleted, and from the Service if a crash prevented it from being recorded in the
// status.
func nodePort(w *webserverv1.WebServer, o workload.Observed, platform config.WebServer, kind corev1.ServiceType) (int32, origin) {
	if kind == corev1.ServiceTypeClusterIP {
		return 0, preferred
	}
	if s := w.Spec.Service; s != nil && s.NodePort != nil {
		return *s.NodePort, asked
	}
	if s := w.Status.Service; s != nil && s.NodePort != 0 {
		return s.NodePort, had
	}
	if o.Service != nil {
		if p := httpPort(o.Service); p.NodePort != 0 {
			return p.NodePort, had
		}
	}
	if kind == corev1.ServiceTypeNodePort {
		return platform.NodePort, preferred
	}
	return 0, preferred
}

// httpsNodePort returns the node port to apply for https, 0 for none. Like
// nodePort, it keeps a port that was allocated once.
func httpsNodePort(w *webserverv1.WebServer, o workload.Observed, kind corev1.ServiceType, tls bool) int32 {
	if !tls || kind == corev1.ServiceTypeClusterIP {
		return 0
	}
	if s := w.Status.Service; s != nil && s.HTTPSNodePort != 0 {
		return s.HTTPSNodePort
	}
	if o.Service != nil {
		return httpsPort(o.Service).NodePort
	}
	return 0
}

// allocates reports whether Kubernetes is about to allocate the node port of https. It gives
// two ports of a new Service the same node port if they have the same number, which the
// announcement of HTTP/3 relies on, but not of one that exists: http3 follows when that of
// https is known.
func allocates(live *corev1.Service, kind corev1.ServiceType) bool {
	return live != nil && kind != corev1.ServiceTypeClusterIP && (live.Spec.Type != kind || httpsPort(live).Port == 0)
}

const httpsName, http3Name = "https", "http3" // of ports of the pods and of the Service

// httpPort returns the http port of the Service, or the zero value.
func httpPort(s *corev1.Service) corev1.ServicePort {
	for _, p := range s.Spec.Ports {
		if p.Name != httpsName && p.Name != http3Name {
			return p
		}
	}
	return corev1.ServicePort{}
}

// httpsPort returns the https port of the Service, or the zero value.
func httpsPort(s *corev1.Service) corev1.ServicePort {
	for _, p := range s.Spec.Ports {
		if p.Name == httpsName {
			return p
		}
	}
	return corev1.ServicePort{}
}
