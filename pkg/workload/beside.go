// Package workload is what kinds share of the children that stand beside a
// Deployment and its Service, each while the spec asks for it: how they are
// read, how they are put into a plan, and what is said of them.
package workload

import (
	"context"
	"errors"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/resources"
	"github.com/platform-operator/platform-operator/pkg/resources/monitoring"
)

// Children is what the cluster holds of them. A child that does not stand, or is
// not ours, is nil.
type Children struct {
	Autoscaler    *autoscalingv2.HorizontalPodAutoscaler
	Budget        *policyv1.PodDisruptionBudget
	NetworkPolicy *networkingv1.NetworkPolicy
	Ingress       *networkingv1.Ingress
	Route         *gatewayv1.HTTPRoute
	PodMonitor    *monitoring.PodMonitor
	// NoRoutes and NoPodMonitors say that the cluster does not know the type.
	NoRoutes, NoPodMonitors bool
	// Budgets are those of others in the namespace.
	Budgets []policyv1.PodDisruptionBudget
}

// Observe reads them, from the cache. All have the object's name.
func Observe(ctx context.Context, r converge.Reader, o client.Object) (Children, error) {
	var s Children
	var errs [7]error
	s.Autoscaler, errs[0] = converge.Ours(ctx, r, o, o.GetName(), &autoscalingv2.HorizontalPodAutoscaler{})
	s.Budget, errs[1] = converge.Ours(ctx, r, o, o.GetName(), &policyv1.PodDisruptionBudget{})
	s.NetworkPolicy, errs[2] = converge.Ours(ctx, r, o, o.GetName(), &networkingv1.NetworkPolicy{})
	s.Ingress, errs[3] = converge.Ours(ctx, r, o, o.GetName(), &networkingv1.Ingress{})
	s.Route, s.NoRoutes, errs[4] = converge.OursIfKnown(ctx, r, o, o.GetName(), &gatewayv1.HTTPRoute{})
	s.PodMonitor, s.NoPodMonitors, errs[5] = converge.OursIfKnown(ctx, r, o, o.GetName(), &monitoring.PodMonitor{})
	s.Budgets, errs[6] = Budgets(ctx, r, o)
	return s, errors.Join(errs[:]...)
}

// Budgets reads the budgets of others in an object's namespace.
func Budgets(ctx context.Context, r client.Reader, o client.Object) ([]policyv1.PodDisruptionBudget, error) {
	var l policyv1.PodDisruptionBudgetList
	err := converge.Foreign(ctx, r, o, &l)
	return l.Items, err
}

// Wanted is what there should be.
type Wanted struct {
	// Owner is the object, and Labels those that select its pods.
	Owner  client.Object
	Labels map[string]string
	// Pods are all labels of the pods.
	Pods map[string]string
	// Deployment and Service are their names.
	Deployment, Service string
	// Port is the port of the Service that hosts lead to, 0 for none.
	Port int32
	// Refused is why the platform configuration lets no hosts be led here, nil
	// where it does.
	Refused error
	// Least is the smallest number of pods that there will be.
	Least int32
	// Ports are all of the pod that somebody may connect to.
	Ports []*corev1ac.ContainerPortApplyConfiguration
	// Metrics is the name of the one that is scraped, "" for none.
	Metrics string

	// What the spec says.
	Autoscaling         *common.Autoscaling
	PodDisruptionBudget *common.PodDisruptionBudget
	NetworkPolicy       *common.NetworkPolicy
	Expose              *common.Expose
	Monitoring          *common.Monitoring
}

// Isolate adds the NetworkPolicy to a plan. It comes before the Deployment: no pod
// may run before the policy that isolates it exists.
func (s Children) Isolate(plan *converge.Plan, w Wanted) {
	converge.Stand(plan, w.NetworkPolicy != nil, func() apply.Intent {
		var ports []corev1ac.ContainerPortApplyConfiguration
		for _, p := range w.Ports {
			ports = append(ports, *p)
		}
		return resources.NetworkPolicy(w.Owner.GetName(), w.Owner.GetNamespace(), w.Labels, w.Labels, ports, w.NetworkPolicy)
	}, s.NetworkPolicy)
}

// Stand adds to a plan the other children that should be, and those that stand
// and should not.
func (s Children) Stand(plan *converge.Plan, w Wanted) {
	name, ns, own := w.Owner.GetName(), w.Owner.GetNamespace(), w.Labels
	converge.Stand(plan, w.Autoscaling != nil, func() apply.Intent {
		return resources.HorizontalPodAutoscaler(name, ns, own, w.Deployment, w.Autoscaling)
	}, s.Autoscaler)

	budget, wanted := resources.PodDisruptionBudget(name, ns, own, own, w.PodDisruptionBudget, w.Least, resources.Covered(s.Budgets, w.Pods))
	converge.Stand(plan, wanted, func() apply.Intent { return budget }, s.Budget)

	converge.Stand(plan, w.exposedBy(common.ExposeIngress), func() apply.Intent {
		return resources.Ingress(name, ns, own, w.Service, w.Port, w.Expose)
	}, s.Ingress)

	// What the cluster does not know is asked for all the same, so that it is
	// made when the cluster comes to know it; but it cannot be released.
	going := w.Owner.GetDeletionTimestamp() != nil
	converge.Stand(plan, w.exposedBy(common.ExposeGateway) && !(going && s.NoRoutes), func() apply.Intent {
		return resources.HTTPRoute(name, ns, own, w.Service, w.Port, w.Expose)
	}, s.Route)

	converge.Stand(plan, w.Metrics != "" && !(going && s.NoPodMonitors), func() apply.Intent {
		return resources.PodMonitor(name, ns, own, own, w.Metrics, w.Monitoring)
	}, s.PodMonitor)
}

// exposedBy tells whether hosts are to be led here in that way.
func (w Wanted) exposedBy(way common.ExposeType) bool {
	return w.Expose != nil && w.Expose.Type == way && w.Port != 0 && w.Refused == nil
}
