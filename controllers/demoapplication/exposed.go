package demoapplication

import (
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
	"github.com/platform-operator/platform-operator/pkg/conditions"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/workload"
)

// exposed writes the condition Exposed, which is there while the spec asks for
// hosts, and returns their addresses. Ready does not depend on it: whether the
// hosts are taken on is for an ingress controller or a Gateway to do, and not
// all of these say so.
func exposed(a *demoapplicationv1.DemoApplication, o Observed, out converge.Outcome, platform config.Platform) []common.Address {
	if a.Spec.Expose == nil {
		conditions.Own(&a.Status.Status, a.Generation, out.Now, common.ConditionExposed, "", "", "")
		return nil
	}
	var f conditions.Finding
	var as []common.Address
	if refused := workload.Exposable(platform, a.Namespace, a.Spec.Expose); refused != nil {
		f = conditions.Finding{Reason: common.ReasonNotAllowed, Message: refused.Error()}
	} else if exposedBy(a, common.ExposeIngress) {
		i, _ := converge.Child[*networkingv1.Ingress](out, "Ingress", a.Namespace, a.Name)
		f = workload.TakenByIngress(i)
		if i != nil {
			as = workload.ExposedAddresses(a.Spec.Expose)
		}
	} else {
		r, _ := converge.Child[*gatewayv1.HTTPRoute](out, "HTTPRoute", a.Namespace, a.Name)
		f = workload.TakenByGateway(r)
		if r != nil {
			as = workload.ExposedAddresses(a.Spec.Expose)
		}
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
