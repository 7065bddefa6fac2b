package workload

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/conditions"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/fault"
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
	conditions.Set(status, w.Owner.GetGeneration(), out.Now, common.ConditionExposed, f.Holds(), f)
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
		if i != nil && resources.OfOtherClass(i, w.Expose) {
			i = nil // it is being deleted
		}
		return claimed(resources.TakenByIngress(i), s.OlderIngress, out), i != nil
	case s.NoRoutes:
		return conditions.False(msgNoRoutes), false
	default:
		r := converge.ChildOrObserved(out, "HTTPRoute", ns, name, s.Route)
		return claimed(resources.TakenByGateway(r), s.OlderRoute, out), r != nil
	}
}

// claimed returns f, unless an older child has the same host: its removal triggers no
// reconcile of this object.
func claimed(f conditions.Condition, older client.Object, out converge.Outcome) conditions.Condition {
	if older == nil {
		return f
	}
	out.RequeueAfter(fault.Probe)
	return resources.HostClaimed(older)
}
