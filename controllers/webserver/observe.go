package webserver

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/converge"
)

// Observed is what desired needs to know of the cluster. A child that does not
// stand, or is not ours, is nil.
type Observed struct {
	Deployment *appsv1.Deployment
	Service    *corev1.Service
}

func observe(ctx context.Context, r client.Reader, w *webserverv1.WebServer) (Observed, error) {
	var o Observed
	var err error
	if o.Deployment, err = converge.Ours(ctx, r, w, deploymentName(w), &appsv1.Deployment{}); err != nil {
		return o, err
	}
	o.Service, err = converge.Ours(ctx, r, w, serviceName(w), &corev1.Service{})
	return o, err
}
