package workload

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/conditions"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/resources"
)

// Exposed sets the condition Exposed if the spec contains hosts, and removes it
// otherwise. It returns the addresses of the hosts if an Ingress or HTTPRoute
// exists for them. Ready does not depend on this condition: an ingress
// controller or a Gateway decides whether to accept the hosts, and not all of
// them report that.
func (s Children) Exposed(w Wanted, status *common.Status, out converge.Outcome) []common.Address {
	if w.Expose == nil {
		meta.RemoveStatusCondition(&status.Conditions, common.ConditionExposed)
		return nil
	}
	f, exists := s.taken(w, out)
	c := metav1.Condition{
		Type: common.ConditionExposed, Status: metav1.ConditionFalse, Reason: f.Reason, Message: f.Message,
		ObservedGeneration: w.Owner.GetGeneration(), LastTransitionTime: metav1.NewTime(out.Now),
	}
	if f.Status {
		c.Status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&status.Conditions, c)
	if !exists {
		return nil
	}
	return resources.ExposedAddresses(w.Expose)
}

// taken reports whether the hosts are accepted, and whether the Ingress or
// HTTPRoute exists.
func (s Children) taken(w Wanted, out converge.Outcome) (f conditions.Condition, exists bool) {
	ns, name := w.Owner.GetNamespace(), w.Owner.GetName()
	switch {
	case w.Refused != nil: // the Ingress or HTTPRoute is being deleted
		return conditions.Condition{Reason: msgExposeNotAllowed.Reason(), Message: msgExposeNotAllowed.Quoting(w.Refused.Error())}, false
	case w.Expose.Type == common.ExposeIngress:
		i := converge.ChildOrObserved(out, "Ingress", ns, name, s.Ingress)
		return resources.TakenByIngress(i), i != nil
	case s.NoRoutes:
		return conditions.False(msgNoRoutes), false
	default:
		r := converge.ChildOrObserved(out, "HTTPRoute", ns, name, s.Route)
		return resources.TakenByGateway(r), r != nil
	}
}
