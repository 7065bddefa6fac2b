package resources

import (
	"cmp"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/conditions"
	"github.com/platform-operator/platform-operator/pkg/fault"
)

// Claims returns the hosts and paths of an Ingress or HTTPRoute, together with the class
// or the listener that routes them. It returns nil for other children.
func Claims(child client.Object) []string {
	var all []string
	switch o := child.(type) {
	case *networkingv1.Ingress:
		for _, r := range o.Spec.Rules {
			if r.HTTP == nil {
				continue
			}
			for _, p := range r.HTTP.Paths {
				all = append(all, strings.Join([]string{ptr.Deref(o.Spec.IngressClassName, ""), r.Host, p.Path}, "/"))
			}
		}
	case *gatewayv1.HTTPRoute:
		for _, g := range o.Spec.ParentRefs {
			listener := []string{string(ptr.Deref(g.Namespace, gatewayv1.Namespace(o.Namespace))), string(g.Name), string(ptr.Deref(g.SectionName, ""))}
			for _, h := range o.Spec.Hostnames {
				for _, path := range routePaths(o) {
					all = append(all, strings.Join(append(listener, string(h), path), "/"))
				}
			}
		}
	}
	return all
}

func routePaths(r *gatewayv1.HTTPRoute) []string {
	var all []string
	for _, rule := range r.Spec.Rules {
		for _, m := range rule.Matches {
			if m.Path != nil {
				all = append(all, ptr.Deref(m.Path.Value, "/"))
			}
		}
	}
	return all
}

// Older returns the oldest of the children that claim a host of one, if that is older,
// and nil otherwise. Gateways route requests to the oldest, as most ingress controllers do.
func Older(one client.Object, claimants []client.Object) client.Object {
	oldest := one
	for _, o := range claimants {
		if o.GetDeletionTimestamp() == nil && compareAge(o, oldest) < 0 {
			oldest = o
		}
	}
	if oldest == one {
		return nil
	}
	return oldest
}

// compareAge orders children as Gateways do: by age, and then by name.
func compareAge(a, b client.Object) int {
	return cmp.Or(
		a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time),
		strings.Compare(a.GetNamespace()+"/"+a.GetName(), b.GetNamespace()+"/"+b.GetName()),
	)
}

// HostClaimed reports that an older child claims the same host.
func HostClaimed(by client.Object) conditions.Condition {
	kind := "Ingress"
	if _, ok := by.(*gatewayv1.HTTPRoute); ok {
		kind = "HTTPRoute"
	}
	return conditions.False(msgHostClaimed, kind, by.GetName(), by.GetNamespace())
}

// OfOtherClass reports whether the spec names another class than that of an Ingress. The
// controller of the earlier class may have written an address, and does not remove it.
func OfOtherClass(i *networkingv1.Ingress, spec *common.Expose) bool {
	return spec.Ingress != nil && spec.Ingress.IngressClassName != "" && ptr.Deref(i.Spec.IngressClassName, "") != spec.Ingress.IngressClassName
}

// TakenByIngress reports whether an ingress controller has set an address of an
// Ingress. The Ingress is nil if it does not exist.
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
				return conditions.Condition{Reason: msgRouteNotAccepted.Reason(), Message: msgRouteNotAccepted.Quoting(fault.Clip(c.Message, mostQuoted), c.Reason)}
			}
		}
	}
	if len(parents) == 0 {
		return waiting
	}
	return conditions.True(msgRouteAccepted)
}

// mostQuoted limits the message of another controller in a condition.
const mostQuoted = 1024

// ExposedAddresses returns the URLs of the hosts. Only the Gateway specifies
// whether a listener terminates TLS; the name of the listener is used as a
// hint.
func ExposedAddresses(e *common.Expose) []common.Address {
	kind, tls := common.AddressIngress, e.Ingress != nil && e.Ingress.TLS != nil
	if e.Type == common.ExposeGateway {
		kind, tls = common.AddressGateway, e.Gateway != nil && strings.Contains(e.Gateway.ParentRef.SectionName, "https")
	}
	scheme := "http"
	if tls {
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
