package demoapplication

import (
	"errors"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/apis/common"
	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/resources"
	"github.com/platform-operator/platform-operator/pkg/rollout"
	"github.com/platform-operator/platform-operator/pkg/workload"
)

// kindLabel keeps this kind's pods apart from those of other kinds: "app" is
// webserver on every pod of a WebServer, and here whatever the user called it.
const kindLabel = "demoapplication_cr"

// articleLabels are what the article's operator selects pods by, and all that
// it puts on them.
func articleLabels(a *demoapplicationv1.DemoApplication) map[string]string {
	return map[string]string{"app": a.Name}
}

// labels select the pods.
func labels(a *demoapplicationv1.DemoApplication) map[string]string {
	l := articleLabels(a)
	l[kindLabel] = a.Name
	return l
}

// replicas asked for; unset means one.
func replicas(a *demoapplicationv1.DemoApplication) int32 {
	if a.Spec.Replica == nil {
		return 1
	}
	return *a.Spec.Replica
}

// least is the smallest number of pods that there will be.
func least(a *demoapplicationv1.DemoApplication) int32 {
	if s := a.Spec.Autoscaling; s != nil {
		return resources.MinReplicas(s)
	}
	return replicas(a)
}

// scale returns the number of replicas that the Deployment states, nil if it is
// left to the autoscaler.
func scale(a *demoapplicationv1.DemoApplication, d *appsv1.Deployment) *int32 {
	if s := a.Spec.Autoscaling; s != nil {
		return resources.AutoscaledReplicas(s, d, a.Status.Replicas)
	}
	return new(replicas(a))
}

// scaled is the number of pods that there should be now: what the autoscaler
// has set, where there is one.
func scaled(a *demoapplicationv1.DemoApplication, d *appsv1.Deployment) int32 {
	if n := scale(a, d); n != nil {
		return *n
	}
	if d != nil && d.Spec.Replicas != nil {
		return *d.Spec.Replicas
	}
	return least(a)
}

// pods is all that the pods depend on: what of the spec is about them, and
// what follows from the rest of it.
type pods struct {
	demoapplicationv1.DemoApplicationSpec
	// MetricsPort is the port of the container that gets a name, so that it
	// can be scraped.
	MetricsPort int32 `json:"metricsPort,omitempty"`
	// Sources are the names of copies, which say what is in them, by the names
	// of the ConfigMaps.
	Sources map[string]string `json:"sources,omitempty"`
	// Secrets is a digest of what users' Secrets hold.
	Secrets string `json:"secrets,omitempty"`
}

// inputs are what of an object's spec the pods depend on. What is not about
// pods is left out: to change it is no reason to make a revision.
func inputs(a *demoapplicationv1.DemoApplication, copies map[string]rollout.Copy) pods {
	s := a.Spec.DeepCopy()
	s.Replica, s.DeletionPolicy, s.Paused = nil, "", false
	s.Service, s.Expose, s.Autoscaling, s.PodDisruptionBudget, s.NetworkPolicy, s.Monitoring = nil, nil, nil, nil, nil, nil
	if s.Rollout != nil {
		s.Rollout = s.Rollout.Inputs()
	}
	for i := range s.Ports {
		p := &s.Ports[i]
		p.Name, p.NodePort, p.AppProtocol = "", nil, nil
	}
	in := pods{DemoApplicationSpec: *s}
	if number, name := metricsPort(a); name != "" && !named(a.Spec.Ports, number) {
		in.MetricsPort = number
	}
	for source, c := range copies {
		if in.Sources == nil {
			in.Sources = map[string]string{}
		}
		in.Sources[source] = c.Name
	}
	return in
}

// decide decides which template serves, and returns the snapshots that it asks
// for. If something is missing that the spec refers to, or the platform
// configuration does not allow it, the template that was decided last keeps
// serving.
func decide(a *demoapplicationv1.DemoApplication, o Observed, platform config.Platform) (rollout.Decision, []rollout.Copy, error) {
	q := rollout.Question{
		Kind: demoapplicationv1.Kind, Namespace: a.Namespace, Name: a.Name, Labels: labels(a),
		Rollout: a.Spec.Rollout, Status: a.Status.RolloutStatus, Conditions: a.Status.Conditions,
	}
	copies, missing := copies(a, o)
	d, known, err := rollout.DecideOrKeep(q, o.Seen, func() (rollout.Decision, error) {
		digest, err := rollout.Secrets(secrets(a), o.Secrets)
		if err := errors.Join(missing, err); err != nil {
			return rollout.Decision{}, err
		}
		in := inputs(a, copies)
		in.Secrets = digest
		q.Inputs, q.Template = in, rollout.WithSecrets(template(a, copies), digest)
		return rollout.Decide(q, o.Seen)
	}, func(t *corev1ac.PodTemplateSpecApplyConfiguration) error { return resources.Granted(platform, a, t) })
	if !known {
		return d, nil, err
	}
	var asked []rollout.Copy
	for _, source := range slices.Sorted(maps.Keys(copies)) {
		asked = append(asked, copies[source])
	}
	return d, asked, err
}

// model is what one reconcile has decided about a DemoApplication.
type model struct {
	a         *demoapplicationv1.DemoApplication
	observed  Observed
	decision  rollout.Decision
	copies    []rollout.Copy // snapshots that the decided template asks for
	auxiliary workload.Wanted
	err       error // why the decision is not what the spec asks for
}

func newModel(a *demoapplicationv1.DemoApplication, o Observed, platform config.Platform) *model {
	d, asked, err := decide(a, o, platform)
	return &model{a: a, observed: o, decision: d, copies: asked, auxiliary: auxiliary(a, d.PodLabels(o.Deployment), platform), err: err}
}

// Plan returns the children a DemoApplication should have.
func (m *model) Plan() (converge.Plan, error) {
	a, o, d, err := m.a, m.observed, &m.decision, m.err
	stay, unneeded, broken := d.Copies(m.copies, o.Copies, labels(a))
	plan := converge.Plan{Apply: stay}
	plan = d.Complete(plan)
	o.Isolate(&plan, m.auxiliary)
	// When the object is being deleted only the children's names matter, and all
	// of them do: children that were released are not observed any more.
	going := !a.DeletionTimestamp.IsZero()
	if d.Template != nil || going {
		plan.Apply = append(plan.Apply, d.Deployment(plan, o.Seen, func(t *corev1ac.PodTemplateSpecApplyConfiguration) apply.Intent {
			return deployment(a, o, t)
		}))
	}
	switch {
	case len(a.Spec.Ports) == 0:
		if o.Service != nil {
			plan.Prune = append(plan.Prune, o.Service)
		}
	case !going && o.Cluster && o.Deployment == nil && o.Service == nil && d.Template != nil:
		// Perhaps the article's operator made both, and the cache does not show
		// them. Which pods the Service may select is known once the Deployment
		// is ours: in the pass after this one. Without a template there is no
		// Deployment to wait for.
	default:
		plan.Apply = append(plan.Apply, serviceOf(a, o))
	}
	o.Stand(&plan, m.auxiliary)
	plan.Accompany(apply.Ref{Kind: "Deployment", Name: a.Name})
	plan.Prune = append(plan.Prune, unneeded...) // after the revisions that mount them
	if going {
		return plan, nil // what cannot be had is no reason to stay
	}
	return plan, errors.Join(err, broken)
}

func deployment(a *demoapplicationv1.DemoApplication, o Observed, template *corev1ac.PodTemplateSpecApplyConfiguration) apply.Intent {
	of := func(selector map[string]string) apply.Intent {
		in := resources.Deployment(resources.Rolling{
			Name: a.Name, Namespace: a.Namespace, Replicas: scale(a, o.Deployment), Initial: a.Spec.Autoscaling != nil && o.Deployment == nil,
			Selector: selector, Template: template, Rollout: a.Spec.Rollout,
		})
		in.CreateAfter = []apply.Ref{{Kind: "NetworkPolicy", Name: a.Name}}
		return in
	}
	if d := o.Deployment; d != nil && isArticles(a, d) {
		return of(articleLabels(a))
	}
	in := of(labels(a))
	// A selector cannot be changed. A Deployment that the article's operator
	// made keeps its own, and its pods serve on while they are replaced.
	in.Fallback = func(refused error) (apply.Intent, bool) {
		return of(articleLabels(a)), fault.OnlyCause(refused, func(field string) bool { return field == "spec.selector" })
	}
	return in
}

// drainSeconds is for how long a pod that is to end serves on: until all have
// heard that no request should go there.
const drainSeconds = 5

// template is what the pods are made from.
func template(a *demoapplicationv1.DemoApplication, copies map[string]rollout.Copy) *corev1ac.PodTemplateSpecApplyConfiguration {
	// The standard baseline, unless the user is stricter: an image runs as the
	// user it names, root included, and may write its own files.
	secure, confined := resources.SecurityContexts(a.Spec.Security, resources.SecurityDefaults{Profile: common.SecurityBaseline})
	ports := podPorts(a)
	c := corev1ac.Container().WithName(a.Name).WithImage(a.Spec.Image).WithPorts(ports...).WithSecurityContext(confined)
	pod := resources.PodSpec().WithSecurityContext(secure)
	said := options(a, ports)
	said.Rename = func(source string) string {
		if c, copied := copies[source]; copied {
			return c.Name
		}
		return source
	}
	resources.Customize(pod, c, said)
	resources.Drain(pod, c, drainSeconds)
	pod.WithContainers(c)
	t := resources.Template(resources.PodLabels(a.Spec.Pod, labels(a)), pod).WithAnnotations(resources.PodAnnotations(a.Spec.Pod))
	return rollout.Restarted(t, a.Spec.Rollout)
}

// options are what the user says about the pods.
func options(a *demoapplicationv1.DemoApplication, ports []*corev1ac.ContainerPortApplyConfiguration) resources.Options {
	o := resources.Options{
		Container: a.Spec.Container, Entrypoint: a.Spec.Entrypoint, Resources: a.Spec.Resources, Pod: a.Spec.Pod,
		Selector: labels(a),
	}
	if tcp := slices.IndexFunc(ports, func(p *corev1ac.ContainerPortApplyConfiguration) bool { return *p.Protocol == corev1.ProtocolTCP }); tcp >= 0 {
		o.ReadinessPort = *ports[tcp].ContainerPort
	}
	return o
}

// isArticles tells whether a Deployment selects as the article's operator has it.
func isArticles(a *demoapplicationv1.DemoApplication, d *appsv1.Deployment) bool {
	s := d.Spec.Selector
	return s != nil && len(s.MatchExpressions) == 0 && maps.Equal(s.MatchLabels, articleLabels(a))
}

// serviceSelector is labels, and articleLabels while pods that the article's
// operator made may still serve: they lack the label of the kind.
func serviceSelector(a *demoapplicationv1.DemoApplication, o Observed) map[string]string {
	d := o.Deployment
	switch {
	case d == nil || !isArticles(a, d),
		o.Service != nil && maps.Equal(o.Service.Spec.Selector, labels(a)),
		resources.Complete(d) && d.Spec.Template.Labels[kindLabel] == a.Name:
		return labels(a)
	default:
		return articleLabels(a)
	}
}

// serviceOf is the Service that should be. One that was not observed may be the
// article's: it keeps its selector until the Deployment is observed.
func serviceOf(a *demoapplicationv1.DemoApplication, o Observed) apply.Intent {
	in := service(a, serviceSelector(a, o))
	if o.Service == nil {
		in.IfExists = func(live client.Object) apply.Intent {
			if s, ok := live.(*corev1.Service); ok && maps.Equal(s.Spec.Selector, articleLabels(a)) {
				return service(a, articleLabels(a))
			}
			return service(a, serviceSelector(a, o))
		}
	}
	return in
}

func service(a *demoapplicationv1.DemoApplication, selector map[string]string) apply.Intent {
	kind := corev1.ServiceTypeClusterIP
	var ports []*corev1ac.ServicePortApplyConfiguration
	for _, p := range a.Spec.Ports {
		ac := corev1ac.ServicePort().WithProtocol(protocol(p)).WithPort(p.Port).WithTargetPort(targetPort(p))
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
	said := demoapplicationv1.Service{}
	if a.Spec.Service != nil {
		said = *a.Spec.Service
	}
	if said.Type != "" {
		kind = said.Type
	}
	ac := corev1ac.Service(a.Name, a.Namespace).
		WithSpec(corev1ac.ServiceSpec().WithType(kind).WithSelector(selector).WithPorts(ports...))
	resources.CustomizeService(ac, said.ServiceOptions)
	in := apply.New(ac, func() *corev1.Service { return &corev1.Service{} })
	// A label more in the selector would leave out all pods.
	in.Exclusive = []string{"spec.ports", "spec.selector"}
	return in
}

func protocol(p demoapplicationv1.Port) corev1.Protocol {
	if p.Protocol == "" {
		return corev1.ProtocolTCP
	}
	return p.Protocol
}

// targetPort is where the Service sends what arrives at a port.
func targetPort(p demoapplicationv1.Port) intstr.IntOrString {
	if p.TargetPort == nil || *p.TargetPort == intstr.FromInt32(0) {
		return intstr.FromInt32(p.Port)
	}
	return *p.TargetPort
}

// containerPort is the number of the container's port behind a port.
func containerPort(p demoapplicationv1.Port) int32 {
	if to := targetPort(p); to.Type == intstr.Int {
		return to.IntVal
	}
	return p.Port // a name alone says no number
}

// containerPorts are the ports of the container that ports of the Service lead
// to, each once: that two lead to one is no fault.
func containerPorts(ports []demoapplicationv1.Port) []*corev1ac.ContainerPortApplyConfiguration {
	type key struct {
		number   int32
		protocol corev1.Protocol
	}
	known := map[key]*corev1ac.ContainerPortApplyConfiguration{}
	var all []*corev1ac.ContainerPortApplyConfiguration
	for _, p := range ports {
		k := key{containerPort(p), protocol(p)}
		ac := known[k]
		if ac == nil {
			ac = corev1ac.ContainerPort().WithContainerPort(k.number).WithProtocol(k.protocol)
			known[k] = ac
			all = append(all, ac)
		}
		if to := targetPort(p); to.Type == intstr.String {
			ac.WithName(to.StrVal)
		}
	}
	return all
}
