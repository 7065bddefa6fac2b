package webserver

import (
	"errors"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/resources"
	"github.com/platform-operator/platform-operator/pkg/rollout"
	"github.com/platform-operator/platform-operator/pkg/workload"
)

func deploymentName(w *webserverv1.WebServer) string { return w.Name }
func serviceName(w *webserverv1.WebServer) string    { return w.Name + "-service" }

// labels select the pods. They are the article's and immutable in a
// Deployment, so objects that its operator made can be taken over.
func labels(w *webserverv1.WebServer) map[string]string {
	return map[string]string{"app": "webserver", "webserver_cr": w.Name}
}

// replicas asked for; unset means one.
func replicas(w *webserverv1.WebServer) int32 {
	if w.Spec.Replicas == nil {
		return 1
	}
	return *w.Spec.Replicas
}

// least is the smallest number of pods that there will be.
func least(w *webserverv1.WebServer) int32 {
	if s := w.Spec.Autoscaling; s != nil {
		return resources.MinReplicas(s)
	}
	return replicas(w)
}

// scale returns the number of replicas that the Deployment states, nil if it is
// left to the autoscaler.
func scale(w *webserverv1.WebServer, d *appsv1.Deployment) *int32 {
	if s := w.Spec.Autoscaling; s != nil {
		return resources.AutoscaledReplicas(s, d, w.Status.Replicas)
	}
	return new(replicas(w))
}

// scaled is the number of pods that there should be now: what the autoscaler
// has set, where there is one.
func scaled(w *webserverv1.WebServer, d *appsv1.Deployment) int32 {
	if n := scale(w, d); n != nil {
		return *n
	}
	if d != nil && d.Spec.Replicas != nil {
		return *d.Spec.Replicas
	}
	return least(w)
}

// pods is all that the pods depend on: what of the spec is about them, and
// what ConfigMaps and Secrets hold that it refers to.
type pods struct {
	webserverv1.WebServerSpec
	Sources map[string]string `json:"sources,omitempty"`
	Secrets string            `json:"secrets,omitempty"`
}

// inputs are what the pods depend on. What is not about pods is left out: to
// change it is no reason to make a revision.
func inputs(w *webserverv1.WebServer, m material) pods {
	s := w.Spec.DeepCopy()
	s.Replicas, s.DeletionPolicy, s.Paused = nil, "", false
	s.Service, s.Expose, s.Autoscaling, s.PodDisruptionBudget, s.NetworkPolicy = nil, nil, nil, nil, nil
	s.Rollout = s.Rollout.Inputs()
	if s.Monitoring = nil; monitored(w) {
		s.Monitoring = &common.Monitoring{Enabled: true}
	}
	return pods{WebServerSpec: *s, Sources: m.hashes, Secrets: m.secrets}
}

// decide decides which template serves, and finds what the spec refers to. If
// some of that is missing, or the platform configuration does not allow it, the
// template that was decided last keeps serving.
func decide(w *webserverv1.WebServer, o Observed, platform config.Platform) (rollout.Decision, material, error) {
	q := rollout.Question{
		Kind: webserverv1.Kind, Namespace: w.Namespace, Name: w.Name, Labels: labels(w),
		Rollout: w.Spec.Rollout, Status: w.Status.RolloutStatus, Conditions: w.Status.Conditions,
		Harmless: `the "user" directive makes sense only`, // as every nginx says that is not root's
	}
	m, missing := materialOf(w, o)
	d, known, err := rollout.DecideOrKeep(q, o.Seen, func() (rollout.Decision, error) {
		if missing != nil {
			return rollout.Decision{}, missing
		}
		q.Inputs, q.Template = inputs(w, m), template(w, m, platform.WebServer)
		return rollout.Decide(q, o.Seen)
	}, func(t *corev1ac.PodTemplateSpecApplyConfiguration) error { return resources.Granted(platform, w, t) })
	if !known {
		m = material{} // what was found may not be all
	}
	return d, m, err
}

// model is what one reconcile has decided about a WebServer.
type model struct {
	w         *webserverv1.WebServer
	observed  Observed
	platform  config.WebServer
	decision  rollout.Decision
	material  material // what the spec refers to; empty if something of it is missing
	auxiliary workload.Wanted
	err       error // why the decision is not what the spec asks for
}

func newModel(w *webserverv1.WebServer, o Observed, platform config.Platform) *model {
	d, m, err := decide(w, o, platform)
	return &model{
		w: w, observed: o, platform: platform.WebServer, decision: d, material: m,
		auxiliary: auxiliary(w, d.PodLabels(o.Deployment), platform), err: err,
	}
}

// Plan returns the children a WebServer should have.
func (m *model) Plan() (converge.Plan, error) {
	w, o, d := m.w, m.observed, &m.decision
	copies, stale, broken := d.Copies(m.material.copies(), o.Copies, labels(w))
	plan := converge.Plan{Apply: copies}
	plan = d.Complete(plan)
	o.Isolate(&plan, m.auxiliary)
	// Of what is being deleted only the children's names matter. That something
	// is missing must not keep it.
	going := !w.DeletionTimestamp.IsZero()
	if d.Template != nil || going {
		plan.Apply = append(plan.Apply, d.Deployment(plan, o.Seen, func(t *corev1ac.PodTemplateSpecApplyConfiguration) apply.Intent {
			return deployment(w, o, t)
		}))
	}
	plan.Apply = append(plan.Apply, service(w, o, m.platform))
	o.Stand(&plan, m.auxiliary)
	plan.Accompany(apply.Ref{Kind: "Deployment", Name: deploymentName(w)})
	plan.Prune = append(plan.Prune, stale...)
	if going {
		return plan, nil
	}
	return plan, errors.Join(m.err, broken)
}

func deployment(w *webserverv1.WebServer, o Observed, pods *corev1ac.PodTemplateSpecApplyConfiguration) apply.Intent {
	in := resources.Deployment(resources.Rolling{
		Name: deploymentName(w), Namespace: w.Namespace, Replicas: scale(w, o.Deployment),
		Initial: w.Spec.Autoscaling != nil && o.Deployment == nil, Selector: labels(w), Template: pods,
		Rollout: w.Spec.Rollout,
	})
	in.CreateAfter = []apply.Ref{{Kind: "NetworkPolicy", Name: w.Name}}
	in.Changes = changes(w, o.Deployment, pods)
	return in
}

// changes are the article's log lines about an edit of the spec.
func changes(w *webserverv1.WebServer, live *appsv1.Deployment, pods *corev1ac.PodTemplateSpecApplyConfiguration) []apply.Change {
	if live == nil {
		return nil
	}
	var lines []apply.Change
	if to := scale(w, live); to != nil && live.Spec.Replicas != nil && *live.Spec.Replicas != *to {
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

func service(w *webserverv1.WebServer, o Observed, platform config.WebServer) apply.Intent {
	kind := serviceType(w, platform)
	port, from := nodePort(w, o, platform, kind)
	https := httpsNodePort(w, o, kind)
	in := serviceIntent(w, kind, port, https)
	mine := int32(0) // what of it the user asked for
	if from == asked {
		mine = port
	}
	if port != mine || https != 0 {
		// Nobody asked for this very port: when it cannot be had, any will do,
		// and to learn which one it became is no reason to write.
		anyPort := serviceIntent(w, kind, mine, 0)
		in.HashAs = &anyPort
		in.Fallback = func(refused error) (apply.Intent, bool) {
			return serviceIntent(w, kind, mine, 0), fault.NodePort(refused)
		}
		if from == had || https != 0 {
			// Somebody's clients know this one. A Service that was just
			// deleted holds its port for a moment longer.
			in.Patience = 10 * time.Second
		}
	}
	return in
}

func serviceIntent(w *webserverv1.WebServer, kind corev1.ServiceType, nodePort, httpsNodePort int32) apply.Intent {
	ports := []*corev1ac.ServicePortApplyConfiguration{onePort(servicePort(w), nginxPort, nodePort)}
	if w.Spec.TLS != nil {
		ports[0].WithName("http")
		ports = append(ports, onePort(tlsPort, tlsPort, httpsNodePort).WithName(httpsName))
	}
	said := common.ServiceOptions{}
	if w.Spec.Service != nil {
		said = w.Spec.Service.ServiceOptions
	}
	ac := corev1ac.Service(serviceName(w), w.Namespace).
		WithLabels(labels(w)).
		WithSpec(corev1ac.ServiceSpec().WithType(kind).WithSelector(labels(w)).WithPorts(ports...))
	resources.CustomizeService(ac, said)
	in := apply.New(ac, func() *corev1.Service { return &corev1.Service{} })
	// A label more in the selector would leave out all pods.
	in.Exclusive = []string{"spec.ports", "spec.selector"}
	return in
}

func onePort(port int32, target int, nodePort int32) *corev1ac.ServicePortApplyConfiguration {
	p := corev1ac.ServicePort().WithProtocol(corev1.ProtocolTCP).WithPort(port).WithTargetPort(intstr.FromInt(target))
	if nodePort != 0 {
		p.WithNodePort(nodePort)
	}
	return p
}

func servicePort(w *webserverv1.WebServer) int32 {
	if s := w.Spec.Service; s != nil && s.Port != nil {
		return *s.Port
	}
	return nginxPort
}

func serviceType(w *webserverv1.WebServer, platform config.WebServer) corev1.ServiceType {
	switch s := w.Spec.Service; {
	case s != nil && s.Type != "":
		return s.Type
	case s != nil && s.NodePort != nil:
		return corev1.ServiceTypeNodePort
	default:
		return platform.ServiceType
	}
}

// origin is where a node port comes from.
type origin int

const (
	preferred origin = iota // the platform would like it
	had                     // it was the object's before
	asked                   // the user asked for it
)

// nodePort returns the node port to state, 0 for none, and where it comes
// from. A port once had is kept: from the status where the Service was
// deleted, from the Service where a crash kept it out of the status.
func nodePort(w *webserverv1.WebServer, o Observed, platform config.WebServer, kind corev1.ServiceType) (int32, origin) {
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

// httpsNodePort returns the node port to state for https, 0 for none: the one
// that it had, like nodePort.
func httpsNodePort(w *webserverv1.WebServer, o Observed, kind corev1.ServiceType) int32 {
	if w.Spec.TLS == nil || kind == corev1.ServiceTypeClusterIP {
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

const httpsName = "https" // of the Service's port

// httpPort returns the port of http, or the zero value. It has a name only
// where it is not the only one.
func httpPort(s *corev1.Service) corev1.ServicePort {
	for _, p := range s.Spec.Ports {
		if p.Name != httpsName {
			return p
		}
	}
	return corev1.ServicePort{}
}

// httpsPort returns the port of https, or the zero value.
func httpsPort(s *corev1.Service) corev1.ServicePort {
	for _, p := range s.Spec.Ports {
		if p.Name == httpsName {
			return p
		}
	}
	return corev1.ServicePort{}
}
