package workload

import (
	"context"
	"errors"
	"slices"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/resources"
	"github.com/platform-operator/platform-operator/pkg/resources/monitoring"
)

// Children are the observed auxiliary resources. One that does not exist or is
// unowned is nil.
type Children struct {
	Autoscaler    *autoscalingv2.HorizontalPodAutoscaler
	Budget        *policyv1.PodDisruptionBudget
	NetworkPolicy *networkingv1.NetworkPolicy
	Ingress       *networkingv1.Ingress
	Route         *gatewayv1.HTTPRoute
	PodMonitor    *monitoring.PodMonitor
	// NoRoutes and NoPodMonitors report that the cluster does not serve the
	// kind.
	NoRoutes, NoPodMonitors bool
	// OlderIngress and OlderRoute are of another object with the same host and path, or nil.
	OlderIngress, OlderRoute client.Object
	// Budgets are the unowned budgets in the namespace.
	Budgets []policyv1.PodDisruptionBudget
}

// observeChildren reads the auxiliary resources of an object, which have its
// name, from the cache. Only objects for the web can have all of them.
func observeChildren(ctx context.Context, r converge.Reader, o client.Object, web bool) (Children, error) {
	var s Children
	var errs [9]error
	s.Budgets, errs[6] = budgets(ctx, r, o)
	s.Budget, errs[1] = converge.GetOwned(ctx, r, o, o.GetName(), &policyv1.PodDisruptionBudget{})
	s.NetworkPolicy, errs[2] = converge.GetOwned(ctx, r, o, o.GetName(), &networkingv1.NetworkPolicy{})
	if !web {
		return s, errors.Join(errs[:]...)
	}
	s.Autoscaler, errs[0] = converge.GetOwned(ctx, r, o, o.GetName(), &autoscalingv2.HorizontalPodAutoscaler{})
	s.Ingress, errs[3] = converge.GetOwned(ctx, r, o, o.GetName(), &networkingv1.Ingress{})
	s.Route, s.NoRoutes, errs[4] = converge.GetOwnedIfServed(ctx, r, o, o.GetName(), &gatewayv1.HTTPRoute{})
	s.PodMonitor, s.NoPodMonitors, errs[5] = converge.GetOwnedIfServed(ctx, r, o, o.GetName(), &monitoring.PodMonitor{})
	if s.Ingress != nil {
		s.OlderIngress, errs[7] = older(ctx, r, s.Ingress)
	}
	if s.Route != nil {
		s.OlderRoute, errs[8] = older(ctx, r, s.Route)
	}
	return s, errors.Join(errs[:]...)
}

// older returns the child of another object that requests for a host of one are routed to,
// or nil.
func older(ctx context.Context, r converge.Reader, one client.Object) (client.Object, error) {
	claimants, err := r.Claimants(ctx, one)
	return resources.Older(one, claimants), err
}

// budgets reads the unowned budgets in an object's namespace.
func budgets(ctx context.Context, r client.Reader, o client.Object) ([]policyv1.PodDisruptionBudget, error) {
	var l policyv1.PodDisruptionBudgetList
	err := converge.ListUnowned(ctx, r, o, &l)
	return l.Items, err
}

// Wanted specifies which auxiliary resources should exist. Its Autoscaling is that of the
// spec, adapted to the pods, and its Metrics are the names of the port to scrape, which pods
// of another revision may name differently.
type Wanted struct {
	Spec
	// Isolated are the labels that select the pods to isolate, if not all of Labels.
	Isolated map[string]string
	// Pods are all labels of the pods.
	Pods map[string]string
	// Refused is the reason why the platform configuration does not allow the
	// hosts, or nil if it does.
	Refused error
	// MinReplicas and MaxReplicas are the minimum and the maximum number of pods.
	MinReplicas, MaxReplicas int32
	// KeepAvailable is the number of pods that remain available while one is evicted,
	// or 0 if it is not replaced before.
	KeepAvailable int32
	// Open are the ports of all pods that accept connections.
	Open []containerPort
}

// Isolate adds the NetworkPolicy to a plan. Call it before the Deployment is
// added, because no pod may run before the policy that isolates it exists.
func (s Children) Isolate(plan *converge.Plan, w Wanted) {
	converge.ApplyOrPrune(plan, w.NetworkPolicy != nil, func() apply.Intent {
		selector := w.Labels
		if w.Isolated != nil {
			selector = w.Isolated
		}
		return resources.NetworkPolicy(w.Owner.GetName(), w.Owner.GetNamespace(), w.Labels, selector, w.Open, w.NetworkPolicy)
	}, s.NetworkPolicy)
}

// ApplyOrPrune adds the other auxiliary resources to a plan: to Apply if they should
// exist, and otherwise, if they exist, to Prune.
func (s Children) ApplyOrPrune(plan *converge.Plan, w Wanted) {
	name, ns, own := w.Owner.GetName(), w.Owner.GetNamespace(), w.Labels
	going := w.Owner.GetDeletionTimestamp() != nil
	converge.ApplyOrPrune(plan, w.Autoscaling != nil, func() apply.Intent {
		return resources.HorizontalPodAutoscaler(name, ns, own, name, w.Autoscaling)
	}, s.Autoscaler)

	others := s.Budgets
	if going { // a child that names its owner no more has to be released
		others = slices.DeleteFunc(slices.Clone(others), func(b policyv1.PodDisruptionBudget) bool { return b.Name == name })
	}
	budget, wanted := resources.PodDisruptionBudget(name, ns, own, own, w.PodDisruptionBudget, resources.Disruption{
		Least: w.MinReplicas, Most: w.MaxReplicas, Keep: w.KeepAvailable, Covered: resources.Covered(others, w.Pods),
	})
	converge.ApplyOrPrune(plan, wanted, func() apply.Intent { return budget }, s.Budget)

	// An Ingress of another class is created again, without the address of that class.
	renewed := !going && s.Ingress != nil && w.exposedBy(common.ExposeIngress) && resources.OfOtherClass(s.Ingress, w.Expose)
	ingress := s.Ingress
	if !going && w.exposedBy(common.ExposeGateway) && !w.exposedBy(common.ExposeIngress) && !resources.TakenByGateway(s.Route).Status {
		ingress = nil // it serves the hosts until a Gateway does
	}
	converge.ApplyOrPrune(plan, w.exposedBy(common.ExposeIngress) && !renewed, func() apply.Intent {
		return resources.Ingress(name, ns, own, w.Service, w.Port, w.PortName, w.Expose)
	}, ingress)

	// A kind that the cluster does not serve is planned nevertheless, so that
	// the child is created once it is served. It cannot be released, however.
	converge.ApplyOrPrune(plan, w.exposedBy(common.ExposeGateway) && !(going && s.NoRoutes), func() apply.Intent {
		return resources.HTTPRoute(name, ns, own, w.Service, w.Port, w.Expose)
	}, s.Route)

	converge.ApplyOrPrune(plan, len(w.Metrics) > 0 && !(going && s.NoPodMonitors), func() apply.Intent {
		return resources.PodMonitor(name, ns, own, own, w.Metrics, w.Monitoring)
	}, s.PodMonitor)
}

// exposedBy reports whether requests from hosts should be routed in a given
// way. While the records of DNS change from one to the other, they are in both.
func (w Wanted) exposedBy(way common.ExposeType) bool {
	e := w.Expose
	if e == nil || w.Port == 0 || w.Refused != nil {
		return false
	}
	return e.Type == way || way == common.ExposeGateway && e.Gateway != nil || way == common.ExposeIngress && e.Ingress != nil
}
