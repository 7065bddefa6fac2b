package workload

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/resources"
)

var named = metav1.ObjectMeta{Namespace: "default", Name: "shop", Generation: 2}

func ingress(addresses ...string) *networkingv1.Ingress {
	i := &networkingv1.Ingress{ObjectMeta: named}
	for _, a := range addresses {
		i.Status.LoadBalancer.Ingress = append(i.Status.LoadBalancer.Ingress, networkingv1.IngressLoadBalancerIngress{IP: a})
	}
	return i
}

func route(conditions ...metav1.Condition) *gatewayv1.HTTPRoute {
	r := &gatewayv1.HTTPRoute{ObjectMeta: named}
	if conditions != nil {
		r.Status.Parents = []gatewayv1.RouteParentStatus{{ControllerName: "example.com/gateway", Conditions: conditions}}
	}
	return r
}

func is(kind gatewayv1.RouteConditionType, status metav1.ConditionStatus, generation int64) metav1.Condition {
	return metav1.Condition{Type: string(kind), Status: status, ObservedGeneration: generation, Reason: "Because", Message: "it is so"}
}

func exposing(by common.ExposeType) Wanted {
	e := &common.Expose{Type: by, Hosts: []string{"a.example.com"}}
	if by == common.ExposeGateway {
		e.Gateway = &common.ExposeGatewayOptions{}
	}
	return Wanted{Spec: Spec{Owner: &webserverv1.WebServer{ObjectMeta: named}, Service: "shop", Port: 80, Expose: e}}
}

func after(problem error, children map[string]client.Object) converge.Outcome {
	return converge.NewOutcome(time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC), fault.Classify(problem), children)
}

func TestExposed_ReportsWhetherHostsAreAccepted(t *testing.T) {
	accepted, resolved := gatewayv1.RouteConditionAccepted, gatewayv1.RouteConditionResolvedRefs
	for name, tc := range map[string]struct {
		by        common.ExposeType
		child     client.Object
		noRoutes  bool
		want      string
		addressed bool
	}{
		"no Ingress yet":              {common.ExposeIngress, nil, false, "False Progressing", false},
		"an Ingress not accepted yet": {common.ExposeIngress, ingress(), false, "False Waiting", true},
		"an Ingress that serves":      {common.ExposeIngress, ingress("192.0.2.1"), false, "True Accepted", true},
		"no route yet":                {common.ExposeGateway, nil, false, "False Progressing", false},
		"no routes at all":            {common.ExposeGateway, nil, true, "False FeatureUnavailable", false},
		"a route not observed yet":    {common.ExposeGateway, route(), false, "False Waiting", true},
		"a route half looked at":      {common.ExposeGateway, route(is(accepted, "True", 2)), false, "False Waiting", true},
		"a route as it was":           {common.ExposeGateway, route(is(accepted, "True", 1), is(resolved, "True", 1)), false, "False Waiting", true},
		"a route that is refused":     {common.ExposeGateway, route(is(accepted, "False", 2), is(resolved, "True", 2)), false, "False NotAccepted", true},
		"a route that leads nowhere":  {common.ExposeGateway, route(is(accepted, "True", 2), is(resolved, "False", 2)), false, "False NotAccepted", true},
		"a route that serves":         {common.ExposeGateway, route(is(accepted, "True", 2), is(resolved, "True", 2)), false, "True Accepted", true},
	} {
		t.Run(name, func(t *testing.T) {
			written, observed := map[string]client.Object{}, Children{NoRoutes: tc.noRoutes}
			switch c := tc.child.(type) {
			case *networkingv1.Ingress:
				written["Ingress"], observed.Ingress = c, c
			case *gatewayv1.HTTPRoute:
				written["HTTPRoute"], observed.Route = c, c
			}
			// A failed write does not change what exists.
			for how, got := range map[string]func() (string, bool){
				"after its write": func() (string, bool) {
					return exposed(Children{NoRoutes: tc.noRoutes}, exposing(tc.by), after(nil, written))
				},
				"after its write failed": func() (string, bool) { return exposed(observed, exposing(tc.by), after(errors.New("no answer"), nil)) },
			} {
				if got, addressed := got(); got != tc.want || addressed != tc.addressed {
					t.Errorf("%s: %q, with addresses: %v; want %q, %v", how, got, addressed, tc.want, tc.addressed)
				}
			}
		})
	}
}

// exposed returns the condition in two words, and whether there are addresses.
func exposed(s Children, w Wanted, out converge.Outcome) (condition string, addressed bool) {
	st := common.Status{Conditions: []metav1.Condition{{Type: common.ConditionExposed, Status: "Unknown", Reason: "Before"}}}
	as := s.Exposed(w, &st, out)
	if c := meta.FindStatusCondition(st.Conditions, common.ConditionExposed); c != nil {
		condition = string(c.Status) + " " + c.Reason
	}
	return condition, len(as) > 0
}

func TestExposed_IsRemovedWithTheRoute(t *testing.T) {
	w := exposing(common.ExposeIngress)
	w.Expose = nil
	if got, addressed := exposed(Children{Ingress: ingress("192.0.2.1")}, w, after(nil, nil)); got != "" || addressed {
		t.Errorf("%q, with addresses: %v", got, addressed)
	}
}

// Visitors come through the Ingress while no Gateway routes the hosts.
func TestApplyOrPrune_KeepsTheIngressUntilAGatewayAcceptsTheRoute(t *testing.T) {
	accepted, resolved := gatewayv1.RouteConditionAccepted, gatewayv1.RouteConditionResolvedRefs
	serves := route(is(accepted, "True", 2), is(resolved, "True", 2))
	for name, tc := range map[string]struct {
		route  *gatewayv1.HTTPRoute
		change func(*Wanted)
		want   int // children to be deleted
	}{
		"no route yet":              {nil, nil, 0},
		"no Gateway looked at it":   {route(), nil, 0},
		"a Gateway refuses it":      {route(is(accepted, "False", 2), is(resolved, "True", 2)), nil, 0},
		"a Gateway accepts it":      {serves, nil, 1},
		"its class changes, too":    {route(), func(w *Wanted) { w.Expose.Ingress = &common.ExposeIngressOptions{IngressClassName: "b"} }, 1},
		"the hosts are not allowed": {route(), func(w *Wanted) { w.Refused = errors.New("not yours") }, 2},
		"the object is being deleted": {route(), func(w *Wanted) {
			w.Owner = &webserverv1.WebServer{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "shop", DeletionTimestamp: new(metav1.Now())}}
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := exposing(common.ExposeGateway)
			if tc.change != nil {
				tc.change(&w)
			}
			var plan converge.Plan
			Children{Ingress: ingress("192.0.2.1"), Route: tc.route}.ApplyOrPrune(&plan, w)
			if len(plan.Prune) != tc.want {
				t.Errorf("%d children are deleted, want %d: %v", len(plan.Prune), tc.want, plan.Prune)
			}
		})
	}
}

func TestExposed_DoesNotRouteRefusedHosts(t *testing.T) {
	for by, kind := range map[common.ExposeType]string{common.ExposeIngress: "Ingress", common.ExposeGateway: "HTTPRoute"} {
		for _, refused := range []error{nil, errors.New("not yours")} {
			w := exposing(by)
			w.Refused = refused
			s := Children{Ingress: ingress("192.0.2.1"), Route: route(is(gatewayv1.RouteConditionAccepted, "True", 2), is(gatewayv1.RouteConditionResolvedRefs, "True", 2))}
			var plan converge.Plan
			s.ApplyOrPrune(&plan, w)
			var made, deleted []string
			for _, in := range plan.Apply {
				made = append(made, in.Kind)
			}
			for _, o := range plan.Prune {
				switch o.(type) {
				case *networkingv1.Ingress:
					deleted = append(deleted, "Ingress")
				case *gatewayv1.HTTPRoute:
					deleted = append(deleted, "HTTPRoute")
				}
			}
			got, addressed := exposed(s, w, after(nil, nil))
			if refused != nil {
				if diff := cmp.Diff([]string{"Ingress", "HTTPRoute"}, deleted); diff != "" || len(made) > 0 {
					t.Errorf("refused by %s: made are %v, deleted (-want +got):\n%s", by, made, diff)
				}
				if got != "False NotAllowed" || addressed {
					t.Errorf("refused by %s: %q, with addresses: %v", by, got, addressed)
				}
			} else if diff := cmp.Diff([]string{kind}, made); diff != "" || len(deleted) != 1 || got == "False NotAllowed" || !addressed {
				t.Errorf("by %s: deleted are %v, %q, with addresses: %v; made (-want +got):\n%s", by, deleted, got, addressed, diff)
			}
		}
	}
}

// While clients still have the earlier address, both exist, and the status is about the type.
func TestExposed_ByBoth(t *testing.T) {
	for by, want := range map[common.ExposeType]common.Address{
		common.ExposeIngress: {Type: common.AddressIngress, URL: "https://a.example.com"},
		common.ExposeGateway: {Type: common.AddressGateway, URL: "http://a.example.com"},
	} {
		t.Run(string(by), func(t *testing.T) {
			w := exposing(by)
			w.Expose.Gateway = &common.ExposeGatewayOptions{}
			w.Expose.Ingress = &common.ExposeIngressOptions{TLS: &common.IngressTLS{SecretRef: common.LocalObjectReference{Name: "cert"}}}
			s := Children{Ingress: ingress("192.0.2.1"), Route: route(is(gatewayv1.RouteConditionAccepted, "True", 2), is(gatewayv1.RouteConditionResolvedRefs, "True", 2))}
			var plan converge.Plan
			s.ApplyOrPrune(&plan, w)
			var made []string
			for _, in := range plan.Apply {
				made = append(made, in.Kind)
			}
			if diff := cmp.Diff([]string{"Ingress", "HTTPRoute"}, made); diff != "" || len(plan.Prune) > 0 {
				t.Errorf("deleted are %v; made (-want +got):\n%s", plan.Prune, diff)
			}
			status := &common.Status{}
			if diff := cmp.Diff([]common.Address{want}, s.Exposed(w, status, after(nil, nil))); diff != "" || !meta.IsStatusConditionTrue(status.Conditions, common.ConditionExposed) {
				t.Errorf("%v; addresses (-want +got):\n%s", status.Conditions, diff)
			}
		})
	}
}

// Of two objects with the same host and path, only the older one is exposed.
func TestExposed_OlderClaim(t *testing.T) {
	aged := func(o client.Object, namespace string, minute int) client.Object {
		o.SetNamespace(namespace)
		o.SetCreationTimestamp(metav1.NewTime(time.Date(2026, 1, 2, 12, minute, 0, 0, time.UTC)))
		return o
	}
	deleting := aged(ingress(), "other", 0)
	deleting.SetDeletionTimestamp(new(metav1.Now()))
	for name, tc := range map[string]struct {
		by        common.ExposeType
		own       client.Object
		claimants []client.Object
		want      string
	}{
		"an older Ingress":           {common.ExposeIngress, aged(ingress("192.0.2.1"), "default", 1), []client.Object{aged(ingress(), "z", 2), aged(ingress(), "other", 0)}, "False HostClaimed"},
		"a younger Ingress":          {common.ExposeIngress, aged(ingress("192.0.2.1"), "default", 1), []client.Object{aged(ingress(), "a", 2)}, "True Accepted"},
		"an Ingress that is deleted": {common.ExposeIngress, aged(ingress("192.0.2.1"), "default", 1), []client.Object{deleting}, "True Accepted"},
		"as old, by name":            {common.ExposeIngress, aged(ingress("192.0.2.1"), "default", 1), []client.Object{aged(ingress(), "a", 1)}, "False HostClaimed"},
		"an older route":             {common.ExposeGateway, aged(route(is("Accepted", "True", 2), is("ResolvedRefs", "True", 2)), "default", 1), []client.Object{aged(route(), "other", 0)}, "False HostClaimed"},
	} {
		t.Run(name, func(t *testing.T) {
			older := resources.Older(tc.own, tc.claimants)
			s := Children{OlderIngress: older}
			if tc.by == common.ExposeGateway {
				s = Children{OlderRoute: older}
			}
			switch c := tc.own.(type) {
			case *networkingv1.Ingress:
				s.Ingress = c
			case *gatewayv1.HTTPRoute:
				s.Route = c
			}
			if got, _ := exposed(s, exposing(tc.by), after(nil, nil)); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// An address of the earlier class says nothing about the class in the spec.
func TestExposed_CreatesAnIngressOfAnotherClassAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		live    *string
		spec    string
		renewed bool
	}{
		"the same class":              {new("nginx"), "nginx", false},
		"the default class":           {new("nginx"), "", false},
		"another class":               {new("nginx"), "traefik", true},
		"a class instead of no class": {nil, "traefik", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := Children{Ingress: ingress("192.0.2.1")}
			s.Ingress.Spec.IngressClassName = tc.live
			w := exposing(common.ExposeIngress)
			w.Expose.Ingress = &common.ExposeIngressOptions{IngressClassName: tc.spec}
			var plan converge.Plan
			s.ApplyOrPrune(&plan, w)
			if renewed := len(plan.Prune) == 1 && len(plan.Apply) == 0; renewed != tc.renewed {
				t.Errorf("pruned are %v, applied %v", plan.Prune, plan.Apply)
			}
			want := "True Accepted"
			if tc.renewed {
				want = "False Progressing"
			}
			if got, _ := exposed(s, w, after(nil, nil)); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			w.Owner.SetDeletionTimestamp(new(metav1.Now()))
			plan = converge.Plan{}
			if s.ApplyOrPrune(&plan, w); len(plan.Apply) != 1 {
				t.Errorf("the Ingress of an object that is being deleted is not named")
			}
		})
	}
}
