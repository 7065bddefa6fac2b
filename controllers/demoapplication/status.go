package demoapplication

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/resources"
	"github.com/platform-operator/platform-operator/pkg/workload"
)

// UpdateStatus writes the part of the status that only a DemoApplication has.
func (x *object) UpdateStatus(r workload.Result) {
	a, st, d := x.a, &x.a.Status, r.Deployment
	st.Selector = metav1.FormatLabelSelector(metav1.SetAsLabelSelector(serviceSelector(a, x.observed)))
	if d != nil {
		st.Replicas, st.ReadyReplicas, st.UpdatedReplicas = d.Status.Replicas, d.Status.ReadyReplicas, d.Status.UpdatedReplicas
	}
	switch {
	case len(a.Spec.Ports) == 0: // the Service that may exist is being deleted
		st.Addresses = nil
	case r.Service != nil:
		all := slices.Concat(r.Hosts, addresses(r.Service))
		st.Addresses = all[:min(len(all), mostAddresses)]
	}
}

// mostAddresses is the maximum number of addresses that the CRD allows.
const mostAddresses = 128

// addresses returns the addresses of the Service, beginning with those that can be
// reached from the most places.
func addresses(s *corev1.Service) []common.Address {
	var balanced, nodes, cluster []common.Address
	for _, p := range s.Spec.Ports {
		for _, i := range s.Status.LoadBalancer.Ingress {
			if host := cmp.Or(i.Hostname, i.IP); host != "" {
				balanced = append(balanced, common.Address{Type: common.AddressLoadBalancer, URL: resources.URL(scheme(p), host, p.Port)})
			}
		}
		if p.NodePort != 0 {
			nodes = append(nodes, common.Address{Type: common.AddressNodePort, URL: resources.URL(scheme(p), "<node>", p.NodePort)})
		}
		cluster = append(cluster, common.Address{Type: common.AddressCluster, URL: resources.URL(scheme(p), s.Name+"."+s.Namespace+".svc", p.Port)})
	}
	return slices.Concat(balanced, nodes, cluster)
}

// scheme returns the URL scheme of a port, which is http unless the port indicates
// otherwise, because DemoApplications are web applications.
func scheme(p corev1.ServicePort) string {
	if p.Protocol == corev1.ProtocolUDP || p.Protocol == corev1.ProtocolSCTP {
		return strings.ToLower(string(p.Protocol))
	}
	switch app := p.AppProtocol; {
	case app == nil, *app == "http", *app == "kubernetes.io/h2c":
		return "http"
	case *app == "https":
		return "https"
	default:
		return "tcp"
	}
}
