// Package webserver reconciles WebServers. Each has a Deployment of nginx and a
// Service. On request it also has auxiliary resources: an autoscaler, a
// PodDisruptionBudget, a NetworkPolicy, an Ingress or HTTPRoute, and a PodMonitor
// for the metrics of nginx.
package webserver

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/configsource"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/workload"
)

// +kubebuilder:rbac:groups=my.domain,resources=webservers,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=my.domain,resources=webservers/status,verbs=patch
// +kubebuilder:rbac:groups=my.domain,resources=webservers/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;patch;watch
// +kubebuilder:rbac:groups=autoscaling,resources=horizontalpodautoscalers,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies;ingresses,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=gateway.networking.k8s.io,resources=httproutes,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=monitoring.coreos.com,resources=podmonitors,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Kind returns the kind WebServer.
func Kind(platform config.Platform) converge.AnyKind { return kind(platform).Converge() }

func kind(platform config.Platform) workload.Kind[*webserverv1.WebServer] {
	return workload.Kind[*webserverv1.WebServer]{
		New:         func() *webserverv1.WebServer { return &webserverv1.WebServer{} },
		NewList:     func() client.ObjectList { return &webserverv1.WebServerList{} },
		AddToScheme: webserverv1.AddToScheme,
		Log: converge.LogText{
			Logger: "controllers.WebServer",
			Key:    "Webserver",
			Gone:   "Webserver resource not found. Ignoring since object must be deleted",
		},
		Paused:   func(w *webserverv1.WebServer) bool { return w.Spec.Paused },
		PodLabel: webserverv1.PodLabel, FixedPodLabels: map[string]string{"app": "webserver"},
		Labels: (*webserverv1.WebServer).PodLabels, ServiceName: serviceName, Web: true,
		ConfigMaps: func(w *webserverv1.WebServer) []configsource.Reference { return sourcesOf(w).references() },
		Secrets:    secretNames,
		Object: func(w *webserverv1.WebServer, o workload.Observed) workload.Object {
			return newObject(w, o, platform)
		},
		Platform: platform,
	}
}
