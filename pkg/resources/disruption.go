package resources

import (
	"fmt"
	"slices"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/conditions"
)

// PodDisruptionBudget is the intent of a budget for the pods of that selector,
// and whether there should be one: where the user does not ask for one, only
// for more than one replica, and then one pod at a time may go, and not where
// others' budgets select the pods already (covered, see Covered). replicas is
// the least number there will be: the minimum of an autoscaler.
//
// A budget that would let none of that many go, such as minAvailable 3 for 3
// replicas, is eased to one at a time: a node must always be drainable. Pods
// that do not serve may always be evicted.
func PodDisruptionBudget(name, namespace string, labels, selector map[string]string, spec *common.PodDisruptionBudget, replicas int32, covered string) (apply.Intent, bool) {
	if spec == nil && (replicas <= 1 || covered != "") {
		return apply.Intent{}, false
	}
	budget := policyv1ac.PodDisruptionBudgetSpec().
		WithSelector(metav1ac.LabelSelector().WithMatchLabels(selector)).
		WithUnhealthyPodEvictionPolicy(policyv1.AlwaysAllow)
	other := "spec.minAvailable"
	switch {
	case spec != nil && spec.MinAvailable != nil && lets(*spec.MinAvailable, replicas):
		budget.WithMinAvailable(*spec.MinAvailable)
		other = "spec.maxUnavailable"
	case spec != nil && spec.MaxUnavailable != nil:
		budget.WithMaxUnavailable(*spec.MaxUnavailable)
	default:
		budget.WithMaxUnavailable(intstr.FromInt32(1))
	}
	in := apply.New(policyv1ac.PodDisruptionBudget(name, namespace).WithLabels(labels).WithSpec(budget),
		func() *policyv1.PodDisruptionBudget { return &policyv1.PodDisruptionBudget{} })
	// The API server refuses both at once, so one of somebody else's would keep
	// ours from coming back. A label more in the selector leaves the pods out.
	in.Exclusive = []string{other, "spec.selector.matchLabels", "spec.selector.matchExpressions"}
	return in, true
}

// Covered is the name of the first of others' budgets that selects pods of these
// labels, "" where none does. Kubernetes evicts no pod that two budgets select.
func Covered(others []policyv1.PodDisruptionBudget, pods map[string]string) string {
	var names []string
	for _, b := range others {
		// None selects no pods, and an empty one all of the namespace.
		s, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err == nil && s.Matches(k8slabels.Set(pods)) {
			names = append(names, b.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return slices.Min(names)
}

// Unevictable adds to what is told of an object that is Ready that another budget
// selects the pods beside the one that its user asks for.
func Unevictable(s *conditions.State, spec *common.PodDisruptionBudget, others []policyv1.PodDisruptionBudget, pods map[string]string) {
	if name := Covered(others, pods); name != "" && spec != nil && s.Ready.Holds {
		s.Ready.Message += fmt.Sprintf("; PodDisruptionBudget %q selects the pods too, and Kubernetes evicts no pod of two budgets: remove it, or spec.podDisruptionBudget", name)
	}
}

// lets tells whether a budget that leaves minAvailable of the replicas lets
// any go. A percentage is of the replicas, rounded up.
func lets(minAvailable intstr.IntOrString, replicas int32) bool {
	stay, err := intstr.GetScaledValueFromIntOrPercent(&minAvailable, int(replicas), true)
	return err == nil && stay < int(replicas)
}
