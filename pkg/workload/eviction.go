package workload

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/conditions"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/eviction"
	"github.com/platform-operator/platform-operator/pkg/message"
	"github.com/platform-operator/platform-operator/pkg/resources"
	"github.com/platform-operator/platform-operator/pkg/rollout"
)

// evicted is what an object does about requests to evict its pods.
type evicted struct {
	// keep is the number of pods that remain available while one is evicted, or 0 if pods
	// are not replaced before they are evicted.
	keep int32
	// request is the first request, and extra reports that there is one pod more because
	// of it.
	request eviction.Request
	extra   bool
}

// evicted decides whether there is one more pod because of a request to evict one. During
// a rollout there is not: it creates pods by itself. Nor is there next to a canary, whose
// pods serve.
func (m *Model) evicted() evicted {
	s, o := m.spec, m.observed
	if !m.web || s.Rollout != nil && s.Rollout.Strategy == appsv1.RecreateDeploymentStrategyType || hasClaims(m.Decision.Template) {
		return evicted{}
	}
	e := evicted{keep: resources.KeepAvailable(s.PodDisruptionBudget, s.least()), request: eviction.Of(o.Pods, o.Now)}
	if e.keep == 0 {
		return evicted{}
	}
	e.extra = !m.Decision.Canary() && !e.request.At.IsZero() && !e.request.Over && m.ports.complete && o.Deployment != nil && o.Deployment.Status.AvailableReplicas <= e.keep
	return e
}

// hasClaims reports whether pods mount persistent volumes. The operator does not read
// claims, and one that only a single node can mount prevents another pod.
func hasClaims(t *corev1ac.PodTemplateSpecApplyConfiguration) bool {
	return t != nil && t.Spec != nil && slices.ContainsFunc(t.Spec.Volumes, func(v corev1ac.VolumeApplyConfiguration) bool {
		return v.PersistentVolumeClaim != nil
	})
}

// replicas returns the number of replicas that a Deployment states.
func (e evicted) replicas(stated *int32) *int32 {
	if e.extra && stated != nil {
		return new(max(*stated, e.keep+1))
	}
	return stated
}

// autoscaling returns the limits of an autoscaler, which alone sets the number of pods.
func (e evicted) autoscaling(spec *common.Autoscaling) *common.Autoscaling {
	if !e.extra || spec == nil {
		return spec
	}
	a := *spec
	a.MinReplicas, a.MaxReplicas = new(e.keep+1), max(a.MaxReplicas, e.keep+1)
	return &a
}

// without returns the Deployment as it would be without the additional pod, which the
// spec does not request.
func (e evicted) without(d *appsv1.Deployment, want int32) *appsv1.Deployment {
	if !e.extra || d == nil || d.Spec.Replicas == nil || *d.Spec.Replicas <= want {
		return d
	}
	d = d.DeepCopy()
	d.Spec.Replicas = &want
	st := &d.Status
	for _, n := range []*int32{&st.Replicas, &st.UpdatedReplicas, &st.ReadyReplicas, &st.AvailableReplicas} {
		*n = min(*n, want)
	}
	return d
}

// report reports that a pod is replaced, and records that one may be evicted although it
// was not.
func (e evicted) report(state *conditions.State, status *common.RolloutStatus, d *appsv1.Deployment, cause func() string, out converge.Outcome) {
	switch {
	case e.request.At.IsZero():
	case !e.request.Over:
		out.RequeueAfter(min(e.request.Until().Sub(out.Now), eviction.Wait))
		if state.Ready.Status {
			state.Ready.Message = message.Join(state.Ready.Message, msgEvicting.With())
		}
	case d != nil && d.Status.AvailableReplicas <= e.keep && !e.recorded(status.LastActions):
		status.LastActions = rollout.Prepend(status.LastActions, common.Action{
			Type: common.ActionAllowEviction, Reason: msgNotReplaced.Reason(), Message: message.Join(msgNotReplaced.With(), cause()),
			Time: metav1.NewTime(out.Now).Rfc3339Copy(),
		})
		out.WriteStatusNow()
	}
}

// recorded reports whether the actions contain that the pod may be evicted.
func (e evicted) recorded(actions []common.Action) bool {
	return slices.ContainsFunc(actions, func(a common.Action) bool {
		return a.Type == common.ActionAllowEviction && !a.Time.Time.Before(e.request.At)
	})
}
