package webserver

import (
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/workload"
)

// beside adds to a plan the children that there are beside the Deployment and
// its Service. Each stands while the spec asks for it.
func beside(w *webserverv1.WebServer, o Observed, plan *converge.Plan) {
	s, own := w.Spec, labels(w)

	converge.Stand(plan, s.Autoscaling != nil, func() apply.Intent {
		return workload.HorizontalPodAutoscaler(w.Name, w.Namespace, own, deploymentName(w), s.Autoscaling)
	}, o.Autoscaler)

	budget, wanted := workload.PodDisruptionBudget(w.Name, w.Namespace, own, own, s.PodDisruptionBudget, least(w))
	converge.Stand(plan, wanted, func() apply.Intent { return budget }, o.Budget)

	converge.Stand(plan, s.NetworkPolicy != nil, func() apply.Intent {
		return workload.NetworkPolicy(w.Name, w.Namespace, own, own, openPorts(w), s.NetworkPolicy)
	}, o.NetworkPolicy)

	converge.Stand(plan, exposedBy(w, common.ExposeIngress), func() apply.Intent {
		return workload.Ingress(w.Name, w.Namespace, own, serviceName(w), servicePort(w), s.Expose)
	}, o.Ingress)
	// What a cluster does not know is left to the loop, which says so.
	going := !w.DeletionTimestamp.IsZero()
	converge.Stand(plan, exposedBy(w, common.ExposeGateway) && !(going && o.NoRoutes), func() apply.Intent {
		return workload.HTTPRoute(w.Name, w.Namespace, own, serviceName(w), servicePort(w), s.Expose)
	}, o.Route)

	// The exporter is there by the spec alone: a type that the cluster learns
	// later is no reason to replace pods.
	converge.Stand(plan, monitored(w) && !(going && o.NoPodMonitors), func() apply.Intent {
		return workload.PodMonitor(w.Name, w.Namespace, own, own, metricsName, s.Monitoring)
	}, o.PodMonitor)
}

func exposedBy(w *webserverv1.WebServer, by common.ExposeType) bool {
	return w.Spec.Expose != nil && w.Spec.Expose.Type == by
}

// openPorts are all ports of the pod that somebody may connect to.
func openPorts(w *webserverv1.WebServer) []corev1ac.ContainerPortApplyConfiguration {
	var ports []corev1ac.ContainerPortApplyConfiguration
	for _, p := range serverPorts(w) {
		ports = append(ports, *p)
	}
	if monitored(w) {
		ports = append(ports, *containerPort(metricsName, metricsPort))
	}
	return ports
}
