package workload

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/conditions"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/eviction"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/rollout"
)

var now = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

// leaving returns a pod whose eviction was requested some time ago.
func leaving(age time.Duration) []corev1.Pod {
	at := now.Add(-age).Format(time.RFC3339)
	return []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "web-1", Annotations: map[string]string{naming.AnnotationEvictionRequested: at}}}}
}

func deployed(replicas, available int32) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Generation: 2}, Spec: appsv1.DeploymentSpec{Replicas: &replicas},
		Status: appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: replicas, UpdatedReplicas: replicas, ReadyReplicas: available, AvailableReplicas: available},
	}
}

func TestModel_Evicted(t *testing.T) {
	claim := corev1ac.PodTemplateSpec().WithSpec(corev1ac.PodSpec().WithVolumes(
		corev1ac.Volume().WithName("data").WithPersistentVolumeClaim(corev1ac.PersistentVolumeClaimVolumeSource().WithClaimName("data"))))
	all := &common.PodDisruptionBudget{MinAvailable: new(intstr.FromInt32(3))}
	for name, tc := range map[string]struct {
		spec       Spec
		cache      bool // a kind that is not for the web
		rolling    bool
		pods       []corev1.Pod
		deployment *appsv1.Deployment
		template   *corev1ac.PodTemplateSpecApplyConfiguration
		keep       int32
		replicas   int32 // 0: left to an autoscaler
		least      int32 // of the autoscaler
	}{
		"no request":                       {spec: Spec{Replicas: 1}, deployment: deployed(1, 1), keep: 1, replicas: 1},
		"a request":                        {spec: Spec{Replicas: 1}, pods: leaving(0), deployment: deployed(1, 1), keep: 1, replicas: 2},
		"the other pod starts":             {spec: Spec{Replicas: 1}, pods: leaving(time.Minute), deployment: deployed(2, 1), keep: 1, replicas: 2},
		"the other pod is available":       {spec: Spec{Replicas: 1}, pods: leaving(time.Minute), deployment: deployed(2, 2), keep: 1, replicas: 1},
		"the other pod does not start":     {spec: Spec{Replicas: 1}, pods: leaving(eviction.Wait), deployment: deployed(2, 1), keep: 1, replicas: 1},
		"during a rollout":                 {spec: Spec{Replicas: 1}, rolling: true, pods: leaving(0), deployment: deployed(1, 1), keep: 1, replicas: 1},
		"the Deployment was deleted":       {spec: Spec{Replicas: 1}, pods: leaving(0), keep: 1, replicas: 1},
		"the spec requests more meanwhile": {spec: Spec{Replicas: 5}, pods: leaving(0), deployment: deployed(1, 1), replicas: 5},
		"more than one replica":            {spec: Spec{Replicas: 2}, pods: leaving(0), deployment: deployed(2, 2), replicas: 2},
		"all have to stay":                 {spec: Spec{Replicas: 3, PodDisruptionBudget: all}, pods: leaving(0), deployment: deployed(3, 3), keep: 3, replicas: 4},
		"one may be unavailable": {
			spec: Spec{Replicas: 1, PodDisruptionBudget: &common.PodDisruptionBudget{MaxUnavailable: new(intstr.FromInt32(1))}},
			pods: leaving(0), deployment: deployed(1, 1), replicas: 1,
		},
		"a cache":             {spec: Spec{Replicas: 1}, cache: true, pods: leaving(0), deployment: deployed(1, 1), replicas: 1},
		"Recreate":            {spec: Spec{Replicas: 1, Rollout: &common.Rollout{Strategy: appsv1.RecreateDeploymentStrategyType}}, pods: leaving(0), deployment: deployed(1, 1), replicas: 1},
		"a persistent volume": {spec: Spec{Replicas: 1}, template: claim, pods: leaving(0), deployment: deployed(1, 1), replicas: 1},
		"autoscaled":          {spec: Spec{Autoscaling: &common.Autoscaling{MaxReplicas: 4}}, pods: leaving(0), deployment: deployed(1, 1), keep: 1, least: 2},
		"autoscaled to more":  {spec: Spec{Autoscaling: &common.Autoscaling{MaxReplicas: 4}}, pods: leaving(0), deployment: deployed(3, 3), keep: 1, least: 0},
	} {
		t.Run(name, func(t *testing.T) {
			m := &Model{spec: tc.spec, web: !tc.cache, ports: Ports{complete: !tc.rolling}, Decision: rollout.Decision{Template: tc.template}}
			m.observed.Now, m.observed.Pods, m.observed.Deployment = now, tc.pods, tc.deployment
			got := m.evicted()
			if got.keep != tc.keep {
				t.Errorf("keeps %d available, want %d", got.keep, tc.keep)
			}
			var replicas, least int32
			if n := got.replicas(tc.spec.Scale(tc.deployment)); n != nil {
				replicas = *n
			}
			if a := got.autoscaling(tc.spec.Autoscaling); a != nil && a.MinReplicas != nil {
				least = *a.MinReplicas
			}
			if diff := cmp.Diff([]int32{tc.replicas, tc.least}, []int32{replicas, least}); diff != "" {
				t.Errorf("replicas and those of the autoscaler (-want +got):\n%s", diff)
			}
			if a := tc.spec.Autoscaling; a != nil && a.MinReplicas != nil {
				t.Error("the spec was changed")
			}
		})
	}
}

// An autoscaler never has a maximum below its minimum.
func TestEvicted_RaisesBothLimits(t *testing.T) {
	got := evicted{keep: 1, extra: true}.autoscaling(&common.Autoscaling{MaxReplicas: 1})
	if diff := cmp.Diff(&common.Autoscaling{MinReplicas: new(int32(2)), MaxReplicas: 2}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestEvicted_Report(t *testing.T) {
	const wait = eviction.Wait
	recorded := func(age time.Duration) []common.Action {
		return []common.Action{{Type: common.ActionAllowEviction, Reason: "NotReplaced", Message: "earlier", Time: metav1.NewTime(now.Add(-age))}}
	}
	allowed := common.Action{
		Type: common.ActionAllowEviction, Reason: "NotReplaced", Time: metav1.NewTime(now).Rfc3339Copy(),
		Message: "A pod may be evicted without a replacement, which was not available within ten minutes. No room.",
	}
	for name, tc := range map[string]struct {
		age        time.Duration // of the request; negative: none
		deployment *appsv1.Deployment
		actions    []common.Action
		message    string
		want       []common.Action
	}{
		"no request":              {age: -1, deployment: deployed(1, 1), message: "Serving."},
		"a request":               {age: time.Minute, deployment: deployed(2, 1), message: "Serving. A pod is to be evicted, and is replaced first."},
		"over":                    {age: wait, deployment: deployed(1, 1), message: "Serving.", want: []common.Action{allowed}},
		"over, and recorded":      {age: wait + time.Minute, deployment: deployed(1, 1), actions: recorded(time.Minute), message: "Serving.", want: recorded(time.Minute)},
		"over, as an earlier one": {age: wait, deployment: deployed(1, 1), actions: recorded(wait + time.Hour), message: "Serving.", want: append([]common.Action{allowed}, recorded(wait+time.Hour)...)},
		"over, but replaced":      {age: wait, deployment: deployed(2, 2), message: "Serving."},
	} {
		t.Run(name, func(t *testing.T) {
			e := evicted{keep: 1}
			if tc.age >= 0 {
				e.request = eviction.Of(leaving(tc.age), now)
			}
			out := converge.NewOutcome(now, fault.Verdict{}, nil)
			state := conditions.State{Ready: conditions.Condition{Status: true, Message: "Serving."}}
			status := common.RolloutStatus{LastActions: tc.actions}
			e.report(&state, &status, tc.deployment, func() string { return "No room." }, out)
			if state.Ready.Message != tc.message {
				t.Errorf("got %q, want %q", state.Ready.Message, tc.message)
			}
			if diff := cmp.Diff(tc.want, status.LastActions); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
			if wrote := len(tc.want) > len(tc.actions); out.StatusIsUrgent() != wrote {
				t.Errorf("the status is urgent: %v", !wrote)
			}
		})
	}
}

// The conditions are those of the object without the additional pod.
func TestEvicted_Without(t *testing.T) {
	for name, tc := range map[string]struct {
		extra bool
		live  *appsv1.Deployment
		want  *appsv1.Deployment
	}{
		"no additional pod":     {live: deployed(2, 1), want: deployed(2, 1)},
		"no Deployment":         {extra: true},
		"the pod starts":        {extra: true, live: deployed(2, 1), want: deployed(1, 1)},
		"the pod is available":  {extra: true, live: deployed(2, 2), want: deployed(1, 1)},
		"none is available":     {extra: true, live: deployed(2, 0), want: deployed(1, 0)},
		"not yet in Kubernetes": {extra: true, live: deployed(1, 1), want: deployed(1, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, evicted{keep: 1, extra: tc.extra}.without(tc.live, 1)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
