package demoapplication

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/resources"
	"github.com/platform-operator/platform-operator/pkg/workload"
)

// auxiliary is what there should be beside the Deployment and its Service.
// pods are the labels of the pods.
func auxiliary(a *demoapplicationv1.DemoApplication, pods map[string]string, platform config.Platform) workload.Wanted {
	s := a.Spec
	b := workload.Wanted{
		Owner: a, Labels: labels(a), Pods: pods, Deployment: a.Name, Service: a.Name,
		Least: least(a), Ports: podPorts(a),
		Autoscaling: s.Autoscaling, PodDisruptionBudget: s.PodDisruptionBudget, NetworkPolicy: s.NetworkPolicy,
		Expose: s.Expose, Refused: resources.Exposable(platform, a.Namespace, s.Expose), Port: webPort(a),
		Monitoring: s.Monitoring,
	}
	_, b.Metrics = metricsPort(a)
	return b
}

// webPort is the port of the Service that hosts lead to: the first of TCP; 0 for
// none.
func webPort(a *demoapplicationv1.DemoApplication) int32 {
	for _, p := range a.Spec.Ports {
		if protocol(p) == corev1.ProtocolTCP {
			return p.Port
		}
	}
	return 0
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
