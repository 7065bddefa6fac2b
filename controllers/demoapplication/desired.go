package demoapplication

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/apis/common"
	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
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

// kindLabel distinguishes the pods of this kind from those of other kinds: the
// label "app" is "webserver" on every pod of a WebServer, and here the name of the
// object.
const kindLabel = demoapplicationv1.PodLabel

// articleLabels are the labels by which the legacy operator selects pods, and the
// only labels that it sets on them.
func articleLabels(a *demoapplicationv1.DemoApplication) map[string]string {
	return map[string]string{"app": a.Name}
}

// replicas returns spec.replica, which defaults to 1.
func replicas(a *demoapplicationv1.DemoApplication) int32 { return ptr.Deref(a.Spec.Replica, 1) }

// pods contains everything that the pods depend on: the relevant part of the spec,
// and what is derived from the rest.
type pods struct {
	demoapplicationv1.DemoApplicationSpec
	// MetricsPort is the container port that is named so that it can be scraped.
	MetricsPort int32 `json:"metricsPort,omitempty"`
	Judged      bool  `json:"judged,omitempty"`
	// Sources maps the names of ConfigMaps to those of their snapshots, which
	// depend on the content.
	Sources map[string]string `json:"sources,omitempty"`
	// Secrets is a digest of the content of the users' Secrets.
	Secrets string `json:"secrets,omitempty"`
}

// WithoutContent returns only what the spec asks for.
func (p pods) WithoutContent() any {
	p.Sources, p.Secrets = nil, ""
	return p
}

// inputs returns what the pods depend on. Fields that do not affect pods are
// omitted, so that a change of one does not create a revision.
func inputs(a *demoapplicationv1.DemoApplication, snapshots map[string]configsource.Snapshot) pods {
	s := a.Spec.DeepCopy()
	s.Replica, s.DeletionPolicy, s.Paused = nil, "", false
	s.Service, s.Expose, s.Autoscaling, s.PodDisruptionBudget, s.NetworkPolicy, s.Monitoring = nil, nil, nil, nil, nil, nil
	s.Rollout = s.Rollout.Inputs()
	for i := range s.Ports {
		p := &s.Ports[i]
		p.Name, p.NodePort, p.AppProtocol = "", nil, nil
	}
	in := pods{DemoApplicationSpec: *s, Judged: a.Spec.Rollout.Shared().Judged(), Sources: map[string]string{}}
	if number, name := metricsPort(a); name != "" && !named(a.Spec.Ports, number) {
		in.MetricsPort = number
	}
	for source, c := range snapshots {
		in.Sources[source] = c.Name
	}
	return in
}

// object is a DemoApplication as one reconcile handles it.
type object struct {
	workload.Defaults
	a         *demoapplicationv1.DemoApplication
	observed  workload.Observed
	platform  config.Platform
	snapshots map[string]configsource.Snapshot // snapshots, by the name of the ConfigMap
	missing   error                            // reports ConfigMaps that do not exist
}

func newObject(a *demoapplicationv1.DemoApplication, o workload.Observed, platform config.Platform) *object {
	x := &object{a: a, observed: o, platform: platform}
	x.snapshots, x.missing = snapshots(a, o)
	return x
}

// Spec returns the parts of spec and status that kinds share.
func (x *object) Spec() workload.Spec {
	a := x.a
	port, portName := webPort(a)
	s := workload.Spec{
		Kind: demoapplicationv1.Kind, Owner: a, Labels: a.PodLabels(), Container: a.Name, Profile: common.SecurityBaseline,
		Sidecars: []string{judge.Container}, Scratch: scratch(a), Requests: requestMetrics(a),
		Replicas: replicas(a), LastReplicas: a.Status.Replicas,
		Rollout: a.Spec.Rollout.Shared(), RolloutStatus: &a.Status.RolloutStatus,
		PodDisruptionBudget: a.Spec.PodDisruptionBudget, NetworkPolicy: a.Spec.NetworkPolicy, Ports: podPorts(a),
		Service: a.Name, Port: port, PortName: portName,
		Autoscaling: a.Spec.Autoscaling, Expose: a.Spec.Expose, Monitoring: a.Spec.Monitoring,
	}
	if a.Spec.Rollout != nil {
		s.Before = a.Spec.Rollout.Before
	}
	if _, name := metricsPort(a); name != "" {
		s.Metrics = []string{name}
	}
	return s
}

// Pods returns the inputs and the template of the pods.
func (x *object) Pods() (any, *corev1ac.PodTemplateSpecApplyConfiguration, error) {
	digest, err := configsource.CombinedDigest(secrets(x.a), x.observed.Secrets)
	if err := errors.Join(x.missing, err, workload.CheckJudge(x.a.Spec.Rollout.Shared(), x.platform)); err != nil {
		return nil, nil, err
	}
	in := inputs(x.a, x.snapshots)
	in.Secrets = digest
	return in, rollout.WithSecrets(template(x.a, x.snapshots, x.platform), digest), nil
}

// Snapshots returns the ConfigMaps that the pods use.
func (x *object) Snapshots() []configsource.Snapshot {
	var all []configsource.Snapshot
	for _, source := range slices.Sorted(maps.Keys(x.snapshots)) {
		all = append(all, x.snapshots[source])
	}
	return all
}

// Deployment keeps the selector of a Deployment that the legacy operator created:
// it is immutable. Its pods keep serving while they are replaced.
func (x *object) Deployment(build func(map[string]string) apply.Intent, _ *corev1ac.PodTemplateSpecApplyConfiguration) apply.Intent {
	if d := x.observed.Deployment; d != nil && isArticles(x.a, d) {
		return build(articleLabels(x.a))
	}
	in := build(x.a.PodLabels())
	in.Fallback = func(refused error) (apply.Intent, bool) {
		return build(articleLabels(x.a)), fault.OnlyCause(refused, func(field string) bool { return field == "spec.selector" })
	}
	return in
}

// AddService adds the Service if the object has ports.
func (x *object) AddService(plan *converge.Plan, pods workload.Ports) {
	a, o := x.a, x.observed
	switch {
	case len(a.Spec.Ports) > 0:
		plan.Apply = append(plan.Apply, serviceOf(a, o, pods))
	case o.Service != nil:
		plan.Prune = append(plan.Prune, o.Service)
	}
}

// State reports that the Service has to be created before the object is ready.
func (x *object) State(s conditions.State, service *corev1.Service) conditions.State {
	if s.Ready.Status && service == nil && len(x.a.Spec.Ports) > 0 {
		s.Ready = conditions.False(msgServiceCreated)
	}
	return s
}

// template returns the desired pod template.
func template(a *demoapplicationv1.DemoApplication, snapshots map[string]configsource.Snapshot, platform config.Platform) *corev1ac.PodTemplateSpecApplyConfiguration {
	// The default is the baseline Pod Security Standard: an image runs as the user
	// that it names, even as root, and can write to its own files.
	secure, confined := resources.SecurityContexts(a.Spec.Security, resources.SecurityDefaults{Profile: common.SecurityBaseline})
	ports := podPorts(a)
	c := corev1ac.Container().WithName(a.Name).WithImage(a.Spec.Image).WithPorts(ports...).WithSecurityContext(confined)
	pod := resources.PodSpec().WithSecurityContext(secure)
	said := options(a, ports)
	said.Rename = func(source string) string {
		if c, copied := snapshots[source]; copied {
			return c.Name
		}
		return source
	}
	resources.Customize(pod, c, said)
	resources.Drain(pod, c, a.Spec.Pod, platform.Pods.DrainSeconds)
	resources.OnNodes(pod, platform.Pods)
	if a.Spec.Rollout.Shared().Judged() {
		addJudge(pod, a, platform.Pods.JudgeImage)
	}
	pod.WithContainers(c)
	t := resources.Template(resources.PodLabels(a.Spec.Pod, a.PodLabels()), pod).WithAnnotations(resources.PodAnnotations(a.Spec.Pod, scratch(a)...))
	return rollout.Restarted(t, a.Spec.Rollout.Shared())
}

// options returns the parts of the spec that customize the pods.
func options(a *demoapplicationv1.DemoApplication, ports []*corev1ac.ContainerPortApplyConfiguration) resources.Options {
	o := resources.Options{
		Container: a.Spec.Container, Entrypoint: a.Spec.Entrypoint, Resources: a.Spec.Resources, Pod: a.Spec.Pod,
		Selector: a.PodLabels(), Reserved: scratch(a),
	}
	if len(o.Reserved) > 0 {
		o.Reserved = append(o.Reserved, judge.Container)
	}
	if tcp := slices.IndexFunc(ports, func(p *corev1ac.ContainerPortApplyConfiguration) bool { return *p.Protocol == corev1.ProtocolTCP }); tcp >= 0 {
		o.ReadinessPort = *ports[tcp].ContainerPort
	}
	return o
}

// isArticles reports whether a Deployment has the selector of the legacy operator.
func isArticles(a *demoapplicationv1.DemoApplication, d *appsv1.Deployment) bool {
	s := d.Spec.Selector
	return s != nil && len(s.MatchExpressions) == 0 && maps.Equal(s.MatchLabels, articleLabels(a))
}

// serviceSelector returns labels, or articleLabels while pods that the legacy
// operator created may still be serving: those lack the label of the kind.
func serviceSelector(a *demoapplicationv1.DemoApplication, o workload.Observed) map[string]string {
	d := o.Deployment
	switch {
	case d == nil || !isArticles(a, d),
		o.Service != nil && maps.Equal(o.Service.Spec.Selector, a.PodLabels()),
		resources.Complete(d) && d.Spec.Template.Labels[kindLabel] == a.Name:
		return a.PodLabels()
	default:
		return articleLabels(a)
	}
}

// serviceOf returns the intent of the Service. A Service that was not observed may
// be that of the legacy operator: it keeps its selector until the Deployment is
// observed.
func serviceOf(a *demoapplicationv1.DemoApplication, o workload.Observed, pods workload.Ports) apply.Intent {
	in := service(a, serviceSelector(a, o), pods)
	if o.Service == nil {
		in.IfExists = func(live client.Object) apply.Intent {
			if s, ok := live.(*corev1.Service); ok && maps.Equal(s.Spec.Selector, articleLabels(a)) {
				return service(a, articleLabels(a), pods)
			}
			return service(a, serviceSelector(a, o), pods)
		}
	}
	return in
}

func service(a *demoapplicationv1.DemoApplication, selector map[string]string, pods workload.Ports) apply.Intent {
	kind, targets := corev1.ServiceTypeClusterIP, podPorts(a)
	if maps.Equal(selector, articleLabels(a)) {
		pods = workload.Ports{} // those of the legacy operator do not name their ports
	}
	var ports []*corev1ac.ServicePortApplyConfiguration
	for _, p := range a.Spec.Ports {
		ac := corev1ac.ServicePort().WithProtocol(protocol(p)).WithPort(p.Port).WithTargetPort(pods.Target(*portIn(targets, p), targets))
		if p.Name != "" {
			ac.WithName(p.Name)
		}
		if p.AppProtocol != nil {
			ac.WithAppProtocol(*p.AppProtocol)
		}
		if p.NodePort != nil {
			ac.WithNodePort(*p.NodePort)
			kind = corev1.ServiceTypeNodePort
		}
		ports = append(ports, ac)
	}
	said := ptr.Deref(a.Spec.Service, demoapplicationv1.Service{})
	ac := corev1ac.Service(a.Name, a.Namespace).
		WithSpec(corev1ac.ServiceSpec().WithType(cmp.Or(said.Type, kind)).WithSelector(selector).WithPorts(ports...))
	return resources.Service(ac, said.ServiceOptions)
}

func protocol(p demoapplicationv1.Port) corev1.Protocol {
	return cmp.Or(p.Protocol, corev1.ProtocolTCP)
}

// targetPort returns the target port of a port of the Service.
func targetPort(p demoapplicationv1.Port) intstr.IntOrString {
	if p.TargetPort == nil || *p.TargetPort == intstr.FromInt32(0) {
		return intstr.FromInt32(p.Port)
	}
	return *p.TargetPort
}

// containerPort returns the number of the container port that a port routes to.
func containerPort(p demoapplicationv1.Port) int32 {
	if to := targetPort(p); to.Type == intstr.Int {
		return to.IntVal
	}
	return p.Port // the number of a named target port is that of the port itself
}

// containerPorts returns the container ports that the Service routes to, without
// duplicates: two ports may route to the same container port.
func containerPorts(ports []demoapplicationv1.Port) []*corev1ac.ContainerPortApplyConfiguration {
	var all []*corev1ac.ContainerPortApplyConfiguration
	for _, p := range ports {
		ac := portIn(all, p)
		if ac == nil {
			ac = corev1ac.ContainerPort().WithContainerPort(containerPort(p)).WithProtocol(protocol(p))
			all = append(all, ac)
		}
		if to := targetPort(p); to.Type == intstr.String {
			ac.WithName(to.StrVal)
		}
	}
	return all
}

// portIn returns the container port that a port routes to, or nil.
func portIn(all []*corev1ac.ContainerPortApplyConfiguration, p demoapplicationv1.Port) *corev1ac.ContainerPortApplyConfiguration {
	i := slices.IndexFunc(all, func(c *corev1ac.ContainerPortApplyConfiguration) bool {
		return *c.ContainerPort == containerPort(p) && *c.Protocol == protocol(p)
	})
	if i < 0 {
		return nil
	}
	return all[i]
}
