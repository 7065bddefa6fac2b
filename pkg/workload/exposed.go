package workload

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/conditions"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/resources"
)

// Exposed writes the condition Exposed into status, which is there while the
// spec asks for hosts, and returns the hosts' addresses where something leads
// them here. Ready does not depend on it: whether the hosts are taken on is for
// an ingress controller or a Gateway to do, and not all of these say so.
func (s Children) Exposed(w Wanted, status *common.Status, out converge.Outcome) []common.Address {
	if w.Expose == nil {
		conditions.Own(status, w.Owner.GetGeneration(), out.Now, common.ConditionExposed, "", "", "")
		return nil
	}
	f, stands := s.taken(w, out)
	holds := metav1.ConditionFalse
	if f.Holds {
		holds = metav1.ConditionTrue
	}
	conditions.Own(status, w.Owner.GetGeneration(), out.Now, common.ConditionExposed, holds, f.Reason, f.Message)
	if !stands {
		return nil
	}
	return resources.ExposedAddresses(w.Expose)
}

// taken finds whether the hosts are taken on, and whether that stands which
// leads them here.
func (s Children) taken(w Wanted, out converge.Outcome) (f conditions.Finding, stands bool) {
	ns, name := w.Owner.GetNamespace(), w.Owner.GetName()
	switch {
	case w.Refused != nil: // what led them here is being deleted
		return conditions.Finding{Reason: common.ReasonNotAllowed, Message: w.Refused.Error()}, false
	case w.Expose.Type == common.ExposeIngress:
		i := converge.Standing(out, "Ingress", ns, name, s.Ingress)
		return resources.TakenByIngress(i), i != nil
	case s.NoRoutes:
		return conditions.Finding{
			Reason:  common.ReasonFeatureUnavailable,
			Message: "this cluster has no HTTPRoutes; install the Gateway API, or use type Ingress",
		}, false
	default:
		r := converge.Standing(out, "HTTPRoute", ns, name, s.Route)
		return resources.TakenByGateway(r), r != nil
	}
}
