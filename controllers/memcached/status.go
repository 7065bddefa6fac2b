package memcached

import (
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	cachev1alpha1 "github.com/platform-operator/platform-operator/apis/memcached/v1alpha1"
	"github.com/platform-operator/platform-operator/pkg/podstate"
	"github.com/platform-operator/platform-operator/pkg/resources"
	"github.com/platform-operator/platform-operator/pkg/workload"
)

// UpdateStatus writes the part of the status that only a Memcached has.
func (x *object) UpdateStatus(r workload.Result) {
	m, st, d := x.m, &x.m.Status, r.Deployment
	st.Phase, st.Reason = phase(st.Conditions)
	st.Selector = metav1.FormatLabelSelector(metav1.SetAsLabelSelector(m.PodLabels()))
	st.Nodes = nodes(x.observed.Pods)
	if d != nil {
		st.Size, st.Replicas, st.ReadyReplicas = resources.Replicas(d), d.Status.Replicas, d.Status.ReadyReplicas
		if mem := memoryOf(d); mem != nil {
			st.Memory = mem
		}
	}
}

// memoryOf returns the memory limits of the pods of a Deployment, or nil if the
// operator did not create it.
func memoryOf(d *appsv1.Deployment) *cachev1alpha1.MemoryStatus {
	for _, c := range d.Spec.Template.Spec.Containers {
		i := slices.Index(c.Args, memoryOption) + 1
		if c.Name != containerName || i == 0 || i == len(c.Args) {
			continue
		}
		if n, err := strconv.ParseInt(c.Args[i], 10, 64); err == nil {
			return &cachev1alpha1.MemoryStatus{Size: quantity(n * mib), ContainerLimit: *c.Resources.Limits.Memory()}
		}
	}
	return nil
}

// phase summarizes the conditions in one word, and returns the reason of Ready.
func phase(cs []metav1.Condition) (cachev1alpha1.Phase, string) {
	reason := ""
	if r := meta.FindStatusCondition(cs, common.ConditionReady); r != nil {
		reason = r.Reason
	}
	switch {
	case meta.IsStatusConditionTrue(cs, common.ConditionStalled):
		return cachev1alpha1.PhaseFailed, reason
	case meta.IsStatusConditionTrue(cs, common.ConditionReady):
		return cachev1alpha1.PhaseRunning, reason
	case meta.IsStatusConditionTrue(cs, common.ConditionAvailable):
		return cachev1alpha1.PhaseDegraded, reason
	default:
		return cachev1alpha1.PhasePending, reason
	}
}

// nodes returns the names of the serving pods, sorted and never nil.
func nodes(pods []corev1.Pod) []string {
	names := []string{}
	for i := range pods {
		if ready(&pods[i]) {
			names = append(names, pods[i].Name)
		}
	}
	slices.Sort(names)
	return names[:min(len(names), cachev1alpha1.MaxNodes)]
}

func ready(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && podstate.Ready(p)
}
