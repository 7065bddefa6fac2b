package webserver

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/conditions"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/workload"
)

// report writes the status. It is pure but for what it writes into w.
func report(w *webserverv1.WebServer, o Observed, out converge.Outcome) {
	d, _ := converge.Child[*appsv1.Deployment](out, "Deployment", w.Namespace, deploymentName(w))
	s, _ := converge.Child[*corev1.Service](out, "Service", w.Namespace, serviceName(w))
	// A child whose write failed stands as it was observed, and may well serve.
	if d == nil {
		d = o.Deployment
	}
	if s == nil {
		s = o.Service
	}

	st := &w.Status
	state := workload.DeploymentState(d, replicas(w))
	conditions.Report(&st.Status, w.Generation, out.Now, state, out.Problem)
	st.Selector = metav1.FormatLabelSelector(metav1.SetAsLabelSelector(labels(w)))
	if d != nil {
		st.Replicas, st.ReadyReplicas, st.UpdatedReplicas = d.Status.Replicas, d.Status.ReadyReplicas, d.Status.UpdatedReplicas
		if state.Ready.Holds && d.Status.Replicas > 0 {
			st.Image = w.Spec.Image
		}
	}
	// Where no Service stands, what was known of it stays: its node port must
	// be the same when it is made again.
	if s != nil {
		st.Service = serviceStatus(s)
		st.Addresses = addresses(s)
	}
}

func serviceStatus(s *corev1.Service) *webserverv1.ServiceStatus {
	st := &webserverv1.ServiceStatus{Name: s.Name, Type: s.Spec.Type}
	if len(s.Spec.Ports) > 0 {
		st.Port, st.NodePort = s.Spec.Ports[0].Port, s.Spec.Ports[0].NodePort
	}
	return st
}

// addresses are where the Service answers, the widest reach first.
func addresses(s *corev1.Service) []common.Address {
	var as []common.Address
	if len(s.Spec.Ports) == 0 {
		return nil
	}
	p := s.Spec.Ports[0]
	for _, in := range s.Status.LoadBalancer.Ingress {
		host := in.Hostname
		if host == "" {
			host = in.IP
		}
		as = append(as, common.Address{Type: common.AddressLoadBalancer, URL: url(host, p.Port)})
	}
	if p.NodePort != 0 {
		as = append(as, common.Address{Type: common.AddressNodePort, URL: url("<node>", p.NodePort)})
	}
	return append(as, common.Address{Type: common.AddressCluster, URL: url(s.Name+"."+s.Namespace+".svc", p.Port)})
}

func url(host string, port int32) string {
	if strings.Contains(host, ":") {
		host = "[" + host + "]" // IPv6
	}
	if port == 80 {
		return "http://" + host
	}
	return fmt.Sprintf("http://%s:%d", host, port)
}
