package demoapplication

import (
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/fault"
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

// desired returns the children a DemoApplication should have. It is pure.
func desired(a *demoapplicationv1.DemoApplication, o Observed) converge.Plan {
	plan := converge.Plan{Apply: []apply.Intent{deployment(a, o)}}
	switch {
	case len(a.Spec.Ports) == 0:
		if o.Service != nil {
			plan.Prune = []client.Object{o.Service}
		}
	case o.Cluster && o.Deployment == nil && o.Service == nil:
		// Perhaps the article's operator made both, and the cache does not show
		// them. Which pods the Service may select is known once the Deployment
		// is ours: in the pass after this one.
	default:
		plan.Apply = append(plan.Apply, service(a, serviceSelector(a, o)))
	}
	return plan
}

func deployment(a *demoapplicationv1.DemoApplication, o Observed) apply.Intent {
	if d := o.Deployment; d != nil && isArticles(a, d) {
		return deploymentIntent(a, articleLabels(a))
	}
	in := deploymentIntent(a, labels(a))
	// A selector cannot be changed. A Deployment that the article's operator
	// made keeps its own, and its pods serve on while they are replaced.
	in.Fallback = func(refused error) (apply.Intent, bool) {
		return deploymentIntent(a, articleLabels(a)), fault.OnlyCause(refused, func(field string) bool { return field == "spec.selector" })
	}
	return in
}

// deploymentIntent is workload.Deployment but for the selector, which may be
// less than the labels of the pods.
func deploymentIntent(a *demoapplicationv1.DemoApplication, selector map[string]string) apply.Intent {
	ports := containerPorts(a.Spec.Ports)
	c := corev1ac.Container().
		WithName(a.Name).
		WithImage(a.Spec.Image).
		WithPorts(ports...).
		WithSecurityContext(corev1ac.SecurityContext().WithPrivileged(false))
	if tcp := slices.IndexFunc(ports, func(p *corev1ac.ContainerPortApplyConfiguration) bool { return *p.Protocol == corev1.ProtocolTCP }); tcp >= 0 {
		c.WithReadinessProbe(workload.TCPReadiness(int(*ports[tcp].ContainerPort)))
	}
	// The standard baseline: an image runs as the user it names, root included,
	// and may write its own files.
	pod := workload.PodSpec().
		WithSecurityContext(corev1ac.PodSecurityContext().
			WithSeccompProfile(corev1ac.SeccompProfile().WithType(corev1.SeccompProfileTypeRuntimeDefault))).
		WithContainers(c)
	return workload.Deployment(a.Name, a.Namespace, replicas(a), selector, labels(a), pod, a.Name)
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
		workload.Complete(d) && d.Spec.Template.Labels[kindLabel] == a.Name:
		return labels(a)
	default:
		return articleLabels(a)
	}
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
	in := apply.New(corev1ac.Service(a.Name, a.Namespace).
		WithSpec(corev1ac.ServiceSpec().
			WithType(kind).
			WithSelector(selector).
			WithSessionAffinity(corev1.ServiceAffinityNone).
			WithPorts(ports...)),
		func() *corev1.Service { return &corev1.Service{} })
	in.Exclusive = []string{"spec.ports"}
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
		to := targetPort(p)
		k := key{to.IntVal, protocol(p)}
		if to.Type == intstr.String {
			k.number = p.Port // a name alone says no number
		}
		ac := known[k]
		if ac == nil {
			ac = corev1ac.ContainerPort().WithContainerPort(k.number).WithProtocol(k.protocol)
			known[k] = ac
			all = append(all, ac)
		}
		if to.Type == intstr.String {
			ac.WithName(to.StrVal)
		}
	}
	return all
}
