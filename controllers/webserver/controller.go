// Package webserver makes a WebServer what its spec says: a Deployment of
// nginx and a Service in front of it.
package webserver

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/converge"
)

// +kubebuilder:rbac:groups=my.domain,resources=webservers,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=my.domain,resources=webservers/status,verbs=patch
// +kubebuilder:rbac:groups=my.domain,resources=webservers/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Kind is all that there is to a WebServer.
func Kind(platform config.WebServer) converge.Kind[*webserverv1.WebServer, Observed] {
	return converge.Kind[*webserverv1.WebServer, Observed]{
		New:      func() *webserverv1.WebServer { return &webserverv1.WebServer{} },
		Children: []client.Object{&appsv1.Deployment{}, &corev1.Service{}},
		Log: converge.LogText{
			Logger: "controllers.WebServer",
			Key:    "Webserver",
			Gone:   "Webserver resource not found. Ignoring since object must be deleted",
		},
		Observe: observe,
		Desired: func(w *webserverv1.WebServer, o Observed) (converge.Plan, error) { return desired(w, o, platform), nil },
		Report:  report,
	}
}
