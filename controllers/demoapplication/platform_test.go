package demoapplication

import (
	"strings"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/fault"
)

// Admission may be off, and the configuration may have become stricter since.
func TestHostsThatThePlatformDoesNotAllowAreNotLedHere(t *testing.T) {
	strict := platform
	strict.Hosts = []config.Hosts{{Namespaces: []string{"*"}, Hosts: []string{"*.example.com"}}}
	for name, tc := range map[string]struct {
		expose *common.Expose
		kind   string
		want   string // the message, where it is refused
	}{
		"Ingress":            {&common.Expose{Type: common.ExposeIngress, Hosts: []string{"a.example.com"}}, "Ingress", ""},
		"a host of others":   {&common.Expose{Type: common.ExposeIngress, Hosts: []string{"a.b"}}, "Ingress", "spec.expose.hosts[0]: Forbidden: the platform configuration"},
		"Gateway of its own": {&common.Expose{Type: common.ExposeGateway, Hosts: []string{"a.example.com"}, Gateway: &common.ExposeGatewayOptions{ParentRef: common.GatewayReference{Name: "g"}}}, "HTTPRoute", ""},
		"Gateway of others":  {&common.Expose{Type: common.ExposeGateway, Hosts: []string{"a.example.com"}, Gateway: &common.ExposeGatewayOptions{ParentRef: common.GatewayReference{Namespace: "gateways", Name: "g"}}}, "HTTPRoute", "spec.expose.gateway.parentRef: Forbidden: the platform configuration"},
	} {
		t.Run(name, func(t *testing.T) {
			a := sample()
			a.Spec.Expose = tc.expose
			var o Observed
			o.Ingress = &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: a.Name}}
			o.Route = &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: a.Name}}
			plan, err := desired(a, o, strict)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := has(plan, tc.kind), tc.want == ""; got != want {
				t.Errorf("it is made: %v, want %v", got, want)
			}
			if want := map[bool]int{true: 1, false: 2}[tc.want == ""]; len(plan.Prune) != want {
				t.Errorf("pruned are %v, want %d", plan.Prune, want)
			}
			report(a, o, outcome(nil, rolled(1, 1), nil), strict)
			c := meta.FindStatusCondition(a.Status.Conditions, common.ConditionExposed)
			switch {
			case c == nil:
				t.Fatal("there is no condition Exposed")
			case tc.want == "":
				if c.Reason == common.ReasonNotAllowed {
					t.Errorf("%s: %s", c.Reason, c.Message)
				}
			case c.Status != metav1.ConditionFalse || c.Reason != common.ReasonNotAllowed || !strings.HasPrefix(c.Message, tc.want):
				t.Errorf("%s %s: %s\nwant %s…", c.Status, c.Reason, c.Message, tc.want)
			}
		})
	}
}

func has(plan converge.Plan, kind string) bool {
	for _, in := range plan.Apply {
		if in.Kind == kind {
			return true
		}
	}
	return false
}

func TestServiceAccountTakesAGrant(t *testing.T) {
	a := sample()
	a.Spec.Pod = &common.Pod{ServiceAccountName: "robot"}
	plan, err := desired(a, Observed{}, platform)
	if v := fault.Classify(err); v.Class != fault.Stall || v.Reason != common.ReasonNotAllowed || !strings.HasPrefix(v.Message, "spec.pod.serviceAccountName: ") {
		t.Errorf("got %v", err)
	}
	if has(plan, "Deployment") || has(plan, "ControllerRevision") || len(plan.Prune) > 0 {
		t.Errorf("the pods do not stay as they are: %v", plan)
	}
	granting := platform
	granting.ServiceAccounts = true
	if plan, err := desired(a, Observed{}, granting); err != nil || !has(plan, "Deployment") {
		t.Errorf("granted: %v, %v", plan, err)
	}
	a.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	if _, err := desired(a, Observed{}, platform); err != nil {
		t.Errorf("an object that is being deleted: %v", err)
	}
}
