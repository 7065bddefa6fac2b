package demoapplication

import (
	"fmt"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
	"github.com/platform-operator/platform-operator/pkg/conditions"
	"github.com/platform-operator/platform-operator/pkg/converge"
)

// exposed writes the condition Exposed, which is there while the spec asks for
// hosts, and returns their addresses. Ready does not depend on it: whether the
// hosts are taken on is for an ingress controller or a Gateway to do, and not
// all of these say so.
func exposed(a *demoapplicationv1.DemoApplication, o Observed, out converge.Outcome) []common.Address {
	if a.Spec.Expose == nil {
		conditions.Own(&a.Status.Status, a.Generation, out.Now, common.ConditionExposed, "", "", "")
		return nil
	}
	var f conditions.Finding
	var as []common.Address
	if exposedBy(a, common.ExposeIngress) {
		i, _ := converge.Child[*networkingv1.Ingress](out, "Ingress", a.Namespace, a.Name)
		f, as = takenByIngress(i), hosts(a, common.AddressIngress, i != nil)
	} else {
		r, _ := converge.Child[*gatewayv1.HTTPRoute](out, "HTTPRoute", a.Namespace, a.Name)
		f, as = takenByGateway(r), hosts(a, common.AddressGateway, r != nil)
		if o.NoRoutes {
			f = conditions.Finding{Reason: common.ReasonFeatureUnavailable, Message: "this cluster does not know HTTPRoutes, which are of the Gateway API"}
		}
	}
	status := metav1.ConditionFalse
	if f.Holds {
		status = metav1.ConditionTrue
	}
	conditions.Own(&a.Status.Status, a.Generation, out.Now, common.ConditionExposed, status, f.Reason, f.Message)
	return as
}

func takenByIngress(i *networkingv1.Ingress) conditions.Finding {
	switch {
	case i == nil:
		return conditions.Finding{Reason: common.ReasonProgressing, Message: "the Ingress is being created"}
	case len(i.Status.LoadBalancer.Ingress) == 0:
		return conditions.Finding{Reason: common.ReasonWaiting, Message: "no ingress controller has given the Ingress an address; some never do"}
	default:
		return conditions.Finding{Holds: true, Reason: common.ReasonAccepted, Message: "an ingress controller leads the hosts here"}
	}
}

// takenByGateway reads what the controllers of the route's one parent say.
func takenByGateway(r *gatewayv1.HTTPRoute) conditions.Finding {
	if r == nil {
		return conditions.Finding{Reason: common.ReasonProgressing, Message: "the HTTPRoute is being created"}
	}
	waiting := conditions.Finding{Reason: common.ReasonWaiting, Message: "no Gateway has looked at the HTTPRoute; spec.expose.gateway.parentRef names one that does not exist, or whose controller does not run"}
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
				return conditions.Finding{Reason: common.ReasonNotAccepted, Message: fmt.Sprintf("the Gateway says %s: %s", c.Reason, clip(c.Message))}
			}
		}
	}
	if len(parents) == 0 {
		return waiting
	}
	return conditions.Finding{Holds: true, Reason: common.ReasonAccepted, Message: "the Gateway leads the hosts here"}
}

// clip keeps the message of another controller within what a condition holds.
func clip(m string) string {
	const most = 1024
	if len(m) > most {
		return strings.ToValidUTF8(m[:most], "") + "…"
	}
	return m
}

// hosts are the addresses of the hosts, where there is what leads them here.
// Whether a Gateway's listener speaks TLS only the Gateway says; its name is a
// hint.
func hosts(a *demoapplicationv1.DemoApplication, kind common.AddressType, there bool) []common.Address {
	if !there {
		return nil
	}
	e, scheme := a.Spec.Expose, "http"
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
