package resources

import (
	"slices"
	"strconv"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/conditions"
	"github.com/platform-operator/platform-operator/pkg/message"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

// Disruption is what a budget depends on, besides the spec.
type Disruption struct {
	// Least and Most are the numbers of replicas, which differ with an autoscaler.
	Least, Most int32
	// Keep is the number of pods that remain available while one is evicted, which is
	// replaced first, or 0.
	Keep int32
	// Covered is the unowned budget that selects the pods, see Covered.
	Covered string
}

// KeepAvailable returns how many of the least number of replicas have to remain available
// while a pod is evicted, if that requires one more, or else 0: the only one by default,
// and all of them if minAvailable allows no eviction.
func KeepAvailable(spec *common.PodDisruptionBudget, least int32) int32 {
	if spec == nil && least <= 1 || spec != nil && spec.MinAvailable != nil && !lets(*spec.MinAvailable, least) {
		return least
	}
	return 0
}

// PodDisruptionBudget returns the intent of a PodDisruptionBudget for the
// selected pods, and whether it should exist. Without a spec it should exist,
// and allow one disruption at a time, if there may be more than one replica, or a pod is
// replaced before it is evicted, and no unowned budget selects the pods.
//
// A budget that would allow no disruption at the least number, such as minAvailable
// 3 for 3 replicas, is replaced by one that allows one at a time, because it
// must always be possible to drain a node; the webhook for evictions makes them wait for
// the replacement. Pods that are not ready can always be evicted.
func PodDisruptionBudget(name, namespace string, labels, selector map[string]string, spec *common.PodDisruptionBudget, of Disruption) (apply.Intent, bool) {
	if spec == nil && (of.Most <= 1 && of.Keep == 0 || of.Covered != "") {
		return apply.Intent{}, false
	}
	budget := policyv1ac.PodDisruptionBudgetSpec().
		WithSelector(metav1ac.LabelSelector().WithMatchLabels(selector)).
		WithUnhealthyPodEvictionPolicy(policyv1.AlwaysAllow)
	other := "spec.minAvailable"
	switch {
	case spec != nil && spec.MinAvailable != nil && lets(*spec.MinAvailable, of.Least):
		budget.WithMinAvailable(*spec.MinAvailable)
		other = "spec.maxUnavailable"
	case spec != nil && spec.MaxUnavailable != nil:
		budget.WithMaxUnavailable(*spec.MaxUnavailable)
	default:
		budget.WithMaxUnavailable(intstr.FromInt32(1))
	}
	ac := policyv1ac.PodDisruptionBudget(name, namespace).WithLabels(labels).WithSpec(budget)
	if of.Keep > 0 {
		ac.WithAnnotations(map[string]string{naming.AnnotationKeepAvailable: strconv.Itoa(int(of.Keep))})
	}
	in := apply.New(ac,
		func() *policyv1.PodDisruptionBudget { return &policyv1.PodDisruptionBudget{} })
	// The API server rejects a budget with both fields: if another client set
	// the other one, this one could not be restored. An additional label in the
	// selector would exclude the pods.
	in.Exclusive = []string{other, "spec.selector.matchLabels", "spec.selector.matchExpressions"}
	return in, true
}

// Covered returns the name of the first unowned budget that selects pods with
// the given labels, or "" if there is none. Kubernetes does not evict pods that
// two budgets select.
func Covered(others []policyv1.PodDisruptionBudget, pods map[string]string) string {
	var names []string
	for _, b := range others {
		// A nil selector selects no pods, and an empty one all pods of the
		// namespace.
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

// Unevictable adds to the message of the Ready condition that an unowned budget
// selects the pods in addition to the one that the spec requests.
func Unevictable(s *conditions.State, spec *common.PodDisruptionBudget, others []policyv1.PodDisruptionBudget, pods map[string]string) {
	if name := Covered(others, pods); name != "" && spec != nil && s.Ready.Status {
		s.Ready.Message = message.Join(s.Ready.Message, msgTwoBudgets.With(name))
	}
}

// lets reports whether a budget with minAvailable allows the eviction of any of
// the replicas. A percentage is relative to the number of replicas, and rounded
// up.
func lets(minAvailable intstr.IntOrString, replicas int32) bool {
	stay, err := intstr.GetScaledValueFromIntOrPercent(&minAvailable, int(replicas), true)
	return err == nil && stay < int(replicas)
}
