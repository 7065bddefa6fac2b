package demoapplication

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
	"github.com/platform-operator/platform-operator/pkg/converge"
)

// Observed is what desired needs to know of the cluster. A child that does not
// stand, or is not ours, is nil; so is one that the article's operator made,
// until it is taken over: the cache does not hold it before.
type Observed struct {
	// Cluster says that there is a cluster, and that it was looked at.
	Cluster    bool
	Deployment *appsv1.Deployment
	Service    *corev1.Service
}

func observe(ctx context.Context, r client.Reader, a *demoapplicationv1.DemoApplication) (Observed, error) {
	o := Observed{Cluster: true}
	var err error
	if o.Deployment, err = converge.Ours(ctx, r, a, a.Name, &appsv1.Deployment{}); err != nil {
		return o, err
	}
	o.Service, err = converge.Ours(ctx, r, a, a.Name, &corev1.Service{})
	return o, err
}
