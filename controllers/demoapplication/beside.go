package demoapplication

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/workload"
)

// beside adds to a plan the children that there are beside the Deployment and
// its Service. Each stands while the spec asks for it.
func beside(a *demoapplicationv1.DemoApplication, o Observed, plan *converge.Plan) {
	s, own := a.Spec, labels(a)
	converge.Stand(plan, s.Autoscaling != nil, func() apply.Intent {
		return workload.HorizontalPodAutoscaler(a.Name, a.Namespace, own, a.Name, s.Autoscaling)
	}, o.Autoscaler)

	budget, wanted := workload.PodDisruptionBudget(a.Name, a.Namespace, own, own, s.PodDisruptionBudget, least(a))
	converge.Stand(plan, wanted, func() apply.Intent { return budget }, o.Budget)

	converge.Stand(plan, s.NetworkPolicy != nil, func() apply.Intent {
		var ports []corev1ac.ContainerPortApplyConfiguration
		for _, p := range podPorts(a) {
			ports = append(ports, *p)
		}
		return workload.NetworkPolicy(a.Name, a.Namespace, own, own, ports, s.NetworkPolicy)
	}, o.NetworkPolicy)

	port, toPort := webPort(a)
	converge.Stand(plan, toPort && exposedBy(a, common.ExposeIngress), func() apply.Intent {
		return workload.Ingress(a.Name, a.Namespace, own, a.Name, port, s.Expose)
	}, o.Ingress)

	// What the cluster does not know is asked for all the same, so that it is
	// made when the cluster comes to know it; but it cannot be released.
	going := a.DeletionTimestamp != nil
	converge.Stand(plan, toPort && exposedBy(a, common.ExposeGateway) && !(going && o.NoRoutes), func() apply.Intent {
		return workload.HTTPRoute(a.Name, a.Namespace, own, a.Name, port, s.Expose)
	}, o.Route)

	_, metrics := metricsPort(a)
	converge.Stand(plan, metrics != "" && !(going && o.NoPodMonitors), func() apply.Intent {
		in := workload.PodMonitor(a.Name, a.Namespace, own, own, metrics, s.Monitoring)
		in.IfKnown = true
		return in
	}, o.PodMonitor)
}

func exposedBy(a *demoapplicationv1.DemoApplication, by common.ExposeType) bool {
	return a.Spec.Expose != nil && a.Spec.Expose.Type == by
}

// webPort is the port of the Service that hosts lead to: the first of TCP.
func webPort(a *demoapplicationv1.DemoApplication) (int32, bool) {
	for _, p := range a.Spec.Ports {
		if protocol(p) == corev1.ProtocolTCP {
			return p.Port, true
		}
	}
	return 0, false
}

// metricsPort is the port of the container that is scraped, and its name; "" for
// none. It is the first that is called metrics, by the Service or by the
// container, or else the first of TCP. Prometheus finds ports of pods by their
// names, so one that has none is given one.
func metricsPort(a *demoapplicationv1.DemoApplication) (number int32, name string) {
	if m := a.Spec.Monitoring; m == nil || !m.Enabled {
		return 0, ""
	}
	tcp := slices.DeleteFunc(slices.Clone(a.Spec.Ports), func(p demoapplicationv1.Port) bool { return protocol(p) != corev1.ProtocolTCP })
	if len(tcp) == 0 {
		return 0, ""
	}
	const metrics = "metrics"
	i := slices.IndexFunc(tcp, func(p demoapplicationv1.Port) bool {
		return p.Name == metrics || targetPort(p) == intstr.FromString(metrics)
	})
	number = containerPort(tcp[max(i, 0)])
	taken := map[string]bool{}
	for _, p := range containerPorts(a.Spec.Ports) {
		if p.Name == nil {
			continue
		}
		if *p.ContainerPort == number && *p.Protocol == corev1.ProtocolTCP {
			return number, *p.Name
		}
		taken[*p.Name] = true
	}
	name = metrics
	for i := 2; taken[name]; i++ {
		name = metrics + "-" + strconv.Itoa(i)
	}
	return number, name
}

// named tells whether a TCP port of the container has a name of the user's.
func named(ports []demoapplicationv1.Port, number int32) bool {
	return slices.ContainsFunc(containerPorts(ports), func(p *corev1ac.ContainerPortApplyConfiguration) bool {
		return *p.ContainerPort == number && *p.Protocol == corev1.ProtocolTCP && p.Name != nil
	})
}

// podPorts are the ports of the container, with the name that one needs to be
// scraped.
func podPorts(a *demoapplicationv1.DemoApplication) []*corev1ac.ContainerPortApplyConfiguration {
	ports := containerPorts(a.Spec.Ports)
	number, name := metricsPort(a)
	for _, p := range ports {
		if name != "" && *p.ContainerPort == number && *p.Protocol == corev1.ProtocolTCP && p.Name == nil {
			p.WithName(name)
		}
	}
	return ports
}
