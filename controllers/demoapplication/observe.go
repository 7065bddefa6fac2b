package demoapplication

import (
	"context"
	"errors"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/references"
	"github.com/platform-operator/platform-operator/pkg/rollout"
	"github.com/platform-operator/platform-operator/pkg/workload/monitoring"
)

// Observed is what desired needs to know of the cluster. A child that does not
// stand, or is not ours, is nil; so is one that the article's operator made,
// until it is taken over: the cache does not hold it before.
type Observed struct {
	// Cluster says that there is a cluster, and that it was looked at.
	Cluster bool
	rollout.Seen
	Service       *corev1.Service
	Autoscaler    *autoscalingv2.HorizontalPodAutoscaler
	Budget        *policyv1.PodDisruptionBudget
	NetworkPolicy *networkingv1.NetworkPolicy
	Ingress       *networkingv1.Ingress
	Route         *gatewayv1.HTTPRoute
	PodMonitor    *monitoring.PodMonitor
	// Sources are the ConfigMaps that the spec refers to, by name, and Copies
	// those that belong to the object.
	Sources map[string]references.Source
	Copies  []*corev1.ConfigMap
	// NoRoutes and NoPodMonitors say that the cluster does not know the type.
	NoRoutes, NoPodMonitors bool
}

func observe(ctx context.Context, r converge.Reader, a *demoapplicationv1.DemoApplication) (Observed, error) {
	o := Observed{Cluster: true, Sources: r.Sources, Copies: r.Copies}
	var err error
	if o.Seen, err = rollout.Observe(ctx, r, a, a.Name, labels(a), a.Status.RolloutStatus); err != nil {
		return o, err
	}
	errs := make([]error, 7)
	o.Service, errs[0] = converge.Ours(ctx, r, a, a.Name, &corev1.Service{})
	o.Autoscaler, errs[1] = converge.Ours(ctx, r, a, a.Name, &autoscalingv2.HorizontalPodAutoscaler{})
	o.Budget, errs[2] = converge.Ours(ctx, r, a, a.Name, &policyv1.PodDisruptionBudget{})
	o.NetworkPolicy, errs[3] = converge.Ours(ctx, r, a, a.Name, &networkingv1.NetworkPolicy{})
	o.Ingress, errs[4] = converge.Ours(ctx, r, a, a.Name, &networkingv1.Ingress{})
	o.Route, o.NoRoutes, errs[5] = converge.OursIfKnown(ctx, r, a, a.Name, &gatewayv1.HTTPRoute{})
	o.PodMonitor, o.NoPodMonitors, errs[6] = converge.OursIfKnown(ctx, r, a, a.Name, &monitoring.PodMonitor{})
	return o, errors.Join(errs...)
}
