package resources

import (
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/conditions"
)

// TakenByIngress reports whether an ingress controller routes requests from the
// hosts of an Ingress. The Ingress is nil if it does not exist.
func TakenByIngress(i *networkingv1.Ingress) conditions.Condition {
	switch {
	case i == nil:
		return conditions.False(msgIngressCreated)
	case len(i.Status.LoadBalancer.Ingress) == 0:
		return conditions.False(msgIngressWaits)
	default:
		return conditions.True(msgIngressAccepted)
	}
}

// TakenByGateway reports whether the controllers of the route's parent have
// accepted it. The route is nil if it does not exist.
func TakenByGateway(r *gatewayv1.HTTPRoute) conditions.Condition {
	if r == nil {
		return conditions.False(msgRouteCreated)
	}
	waiting := conditions.False(msgRouteWaits)
	parents := slices.SortedFunc(slices.Values(r.Status.Parents), func(a, b gatewayv1.RouteParentStatus) int {
		return strings.Compare(string(a.ControllerName), string(b.ControllerName))
	})
	for _, p := range parents {
		for _, kind := range []gatewayv1.RouteConditionType{gatewayv1.RouteConditionAccepted, gatewayv1.RouteConditionResolvedRefs} {
			c := meta.FindStatusCondition(p.Conditions, string(kind))
			switch {
			case c == nil || c.ObservedGeneration != 0 && c.ObservedGeneration < r.Generation || c.Status == metav1.ConditionUnknown:
				return waiting
			case c.Status == metav1.ConditionFalse:
				return conditions.Condition{Reason: msgRouteNotAccepted.Reason(), Message: msgRouteNotAccepted.Quoting(clip(c.Message), c.Reason)}
			}
		}
	}
	if len(parents) == 0 {
		return waiting
	}
	return conditions.True(msgRouteAccepted)
}

// clip limits the message of another controller to the length that a condition
// may contain.
func clip(m string) string {
	const most = 1024
	if len(m) > most {
		return strings.ToValidUTF8(m[:most], "") + "…"
	}
	return m
}

// ExposedAddresses returns the URLs of the hosts. Only the Gateway specifies
// whether a listener terminates TLS; the name of the listener is used as a
// hint.
func ExposedAddresses(e *common.Expose) []common.Address {
	kind, scheme := common.AddressIngress, "http"
	if e.Type == common.ExposeGateway {
		kind = common.AddressGateway
	}
	if e.Ingress != nil && e.Ingress.TLS != nil || e.Gateway != nil && strings.Contains(e.Gateway.ParentRef.SectionName, "https") {
		scheme = "https"
	}
	path := e.Path
	if path == "/" {
		path = ""
	}
	var all []common.Address
	for _, h := range e.Hosts {
		all = append(all, common.Address{Type: kind, URL: scheme + "://" + h + path})
	}
	return all
}
