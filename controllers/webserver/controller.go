// Package webserver reconciles WebServers. Each has a Deployment of nginx and a
// Service. On request it also has auxiliary resources: an autoscaler, a
// PodDisruptionBudget, a NetworkPolicy, an Ingress or HTTPRoute, and a PodMonitor
// for the metrics of nginx.
package webserver

import (
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/resources"
	"github.com/platform-operator/platform-operator/pkg/resources/monitoring"
	"github.com/platform-operator/platform-operator/pkg/rollout"
)

// +kubebuilder:rbac:groups=my.domain,resources=webservers,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=my.domain,resources=webservers/status,verbs=patch
// +kubebuilder:rbac:groups=my.domain,resources=webservers/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch
// +kubebuilder:rbac:groups=autoscaling,resources=horizontalpodautoscalers,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies;ingresses,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=gateway.networking.k8s.io,resources=httproutes,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=monitoring.coreos.com,resources=podmonitors,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Kind returns the WebServer kind for the reconcile loop.
func Kind(platform config.Platform) converge.AnyKind {
	k := converge.Kind[*webserverv1.WebServer, Observed]{
		New:         func() *webserverv1.WebServer { return &webserverv1.WebServer{} },
		NewList:     func() client.ObjectList { return &webserverv1.WebServerList{} },
		AddToScheme: webserverv1.AddToScheme,
		Children: []client.Object{
			&corev1.ConfigMap{}, &appsv1.Deployment{}, &corev1.Service{}, &appsv1.ControllerRevision{},
			&autoscalingv2.HorizontalPodAutoscaler{}, &policyv1.PodDisruptionBudget{}, &networkingv1.NetworkPolicy{}, &networkingv1.Ingress{},
		},
		Optional: []client.Object{&gatewayv1.HTTPRoute{}, &monitoring.PodMonitor{}},
		Workload: &appsv1.Deployment{},
		Related:  []converge.Related{rollout.Pods("webserver_cr", map[string]string{"app": "webserver"})},
		Foreign:  []client.Object{&policyv1.PodDisruptionBudget{}},
		Log: converge.LogText{
			Logger: "controllers.WebServer",
			Key:    "Webserver",
			Gone:   "Webserver resource not found. Ignoring since object must be deleted",
		},
		References: referenced,
		Paused:     func(w *webserverv1.WebServer) bool { return w.Spec.Paused },
		Observe:    observe,
		Model:      func(w *webserverv1.WebServer, o Observed) converge.Model { return newModel(w, o, platform) },
	}
	if platform.RestartOnSecretChange {
		k.Secrets = func(w *webserverv1.WebServer) []string { return resources.Names(secrets(w)) }
	}
	return converge.Erase(k)
}
