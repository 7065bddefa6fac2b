package demoapplication

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
)

// webPort returns the port of the Service that hosts are routed to, which is its
// first TCP port, or 0 if there is none.
func webPort(a *demoapplicationv1.DemoApplication) (port int32, name string) {
	for _, p := range a.Spec.Ports {
		if protocol(p) == corev1.ProtocolTCP {
			return p.Port, p.Name
		}
	}
	return 0, ""
}

const metrics = "metrics"

// metricsNumber returns the number of the container port with the metrics: the first one
// that the Service or the container names metrics, or else the first TCP port; 0 if there
// is none.
func metricsNumber(a *demoapplicationv1.DemoApplication) int32 {
	tcp := slices.DeleteFunc(slices.Clone(a.Spec.Ports), func(p demoapplicationv1.Port) bool { return protocol(p) != corev1.ProtocolTCP })
	if len(tcp) == 0 {
		return 0
	}
	i := slices.IndexFunc(tcp, func(p demoapplicationv1.Port) bool {
		return p.Name == metrics || targetPort(p) == intstr.FromString(metrics)
	})
	return containerPort(tcp[max(i, 0)])
}

// metricsPort returns the number and name of the container port to scrape, or "" if
// there is none. Prometheus selects ports of pods by name, so a port without a name gets
// one.
func metricsPort(a *demoapplicationv1.DemoApplication) (number int32, name string) {
	number = metricsNumber(a)
	if m := a.Spec.Monitoring; m == nil || !m.Enabled || number == 0 {
		return 0, ""
	}
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

// named reports whether the user has named a TCP port of the container.
func named(ports []demoapplicationv1.Port, number int32) bool {
	return slices.ContainsFunc(containerPorts(ports), func(p *corev1ac.ContainerPortApplyConfiguration) bool {
		return *p.ContainerPort == number && *p.Protocol == corev1.ProtocolTCP && p.Name != nil
	})
}

// podPorts returns the ports of the container. Each has a name: the one that the user or
// metricsPort gives it, or else one after the first port of the Service that routes to
// it, which stays when the number changes, so that the Service can route to pods of
// both numbers.
func podPorts(a *demoapplicationv1.DemoApplication) []*corev1ac.ContainerPortApplyConfiguration {
	ports := containerPorts(a.Spec.Ports)
	taken := map[string]bool{}
	if number, name := metricsPort(a); name != "" {
		metrics := portIn(ports, demoapplicationv1.Port{Port: number})
		metrics.WithName(name)
	}
	for _, c := range ports {
		if c.Name != nil {
			taken[*c.Name] = true
		}
	}
	for _, p := range a.Spec.Ports {
		name := strings.ToLower(string(protocol(p))) + "-" + strconv.Itoa(int(p.Port))
		if c := portIn(ports, p); c.Name == nil && !taken[name] {
			c.WithName(name)
			taken[name] = true
		}
	}
	return ports
}
