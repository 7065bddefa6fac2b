package webserver

import (
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/resources"
	"github.com/platform-operator/platform-operator/pkg/workload"
)

// auxiliary returns the auxiliary resources that the spec asks for. pods are the
// labels of the pods.
func auxiliary(w *webserverv1.WebServer, pods map[string]string, platform config.Platform) workload.Wanted {
	s := w.Spec
	b := workload.Wanted{
		Owner: w, Labels: labels(w), Pods: pods, Deployment: deploymentName(w), Service: serviceName(w),
		Least: least(w), Ports: openPorts(w),
		Autoscaling: s.Autoscaling, PodDisruptionBudget: s.PodDisruptionBudget, NetworkPolicy: s.NetworkPolicy,
		Expose: s.Expose, Refused: resources.Exposable(platform, w.Namespace, s.Expose), Port: servicePort(w),
		Monitoring: s.Monitoring,
	}
	if monitored(w) {
		// Whether there is an exporter depends on the spec alone: installing the
		// CRD of PodMonitor later must not replace pods.
		b.Metrics = metricsName
	}
	return b
}

// openPorts returns all ports of the pod that clients may connect to.
func openPorts(w *webserverv1.WebServer) []*corev1ac.ContainerPortApplyConfiguration {
	ports := serverPorts(w)
	if monitored(w) {
		ports = append(ports, containerPort(metricsName, metricsPort))
	}
	return ports
}
