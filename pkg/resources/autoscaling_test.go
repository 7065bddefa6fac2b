package resources

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/conditions"
)

func TestAutoscaledReplicas(t *testing.T) {
	of := func(replicas *int32) *appsv1.Deployment {
		return &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: replicas}}
	}
	for name, tc := range map[string]struct {
		least *int32
		live  *appsv1.Deployment
		last  int32
		want  *int32
	}{
		"a first one starts at the minimum":               {new(int32(20)), nil, 0, new(int32(20))},
		"no minimum is one":                               {nil, nil, 0, new(int32(1))},
		"one that was deleted starts where it was":        {new(int32(20)), nil, 35, new(int32(35))},
		"one that was scaled down starts at the minimum":  {new(int32(20)), nil, 3, new(int32(20))},
		"one with pods of a surge starts at the maximum":  {new(int32(20)), nil, 60, new(int32(50))},
		"one at zero is brought to the minimum":           {new(int32(20)), of(new(int32(0))), 0, new(int32(20))},
		"the autoscaler's number is left alone":           {new(int32(20)), of(new(int32(7))), 35, nil},
		"a number that is not known yet is left alone":    {new(int32(20)), of(nil), 35, nil},
		"one at zero without a minimum is brought to one": {nil, of(new(int32(0))), 35, new(int32(1))},
	} {
		t.Run(name, func(t *testing.T) {
			got := AutoscaledReplicas(&common.Autoscaling{MinReplicas: tc.least, MaxReplicas: 50}, tc.live, tc.last)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAutoscales(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	reports := func(kind autoscalingv2.HorizontalPodAutoscalerConditionType, status corev1.ConditionStatus, reason, text string, since time.Duration) *autoscalingv2.HorizontalPodAutoscaler {
		a := &autoscalingv2.HorizontalPodAutoscaler{}
		a.Status.Conditions = []autoscalingv2.HorizontalPodAutoscalerCondition{{
			Type: kind, Status: status, Reason: reason, Message: text, LastTransitionTime: metav1.NewTime(now.Add(-since)),
		}}
		return a
	}
	const active, able = autoscalingv2.ScalingActive, autoscalingv2.AbleToScale
	up, down := conditions.Condition{Status: true, Reason: "Serving"}, conditions.Condition{Reason: "Progressing"}
	for name, tc := range map[string]struct {
		autoscaler *autoscalingv2.HorizontalPodAutoscaler
		ready      conditions.Condition
		want       conditions.Condition
		left       time.Duration
	}{
		"none yet":       {nil, up, up, 0},
		"it scales":      {reports(active, "True", "ValidMetricFound", "", time.Hour), up, up, 0},
		"it starts":      {reports(active, "False", "FailedGetResourceMetric", "", 30*time.Second), up, up, 90 * time.Second},
		"a clock behind": {reports(active, "False", "FailedGetResourceMetric", "", -time.Hour), up, up, ScalingStarts},
		"scaled to zero": {reports(active, "False", "ScalingDisabled", "", time.Hour), up, up, 0},
		"not ready":      {reports(active, "False", "FailedGetResourceMetric", "", time.Hour), down, down, 0},
		"no metrics": {
			reports(active, "False", "FailedGetResourceMetric", "missing request for cpu in container proxy of Pod web-x7f2 in all", time.Hour), up,
			conditions.Condition{Reason: "AutoscalingFailed", Message: "The pods serve, but the HorizontalPodAutoscaler cannot scale them (FailedGetResourceMetric): missing request for cpu in container proxy in all."},
			0,
		},
		"two autoscalers": {
			reports(active, "False", "AmbiguousSelector", "pods by selector a=b are controlled by multiple HPAs: [ns/a ns/b]", time.Hour), up,
			conditions.Condition{Reason: "AutoscalingFailed", Message: "The pods serve, but the HorizontalPodAutoscaler cannot scale them (AmbiguousSelector): pods by selector a=b are controlled by multiple HPAs."},
			0,
		},
		"no scale": {
			reports(able, "False", "FailedGetScale", "no", time.Hour), up,
			conditions.Condition{Reason: "AutoscalingFailed", Message: "The pods serve, but the HorizontalPodAutoscaler cannot scale them (FailedGetScale): no."},
			0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := conditions.State{Ready: tc.ready}
			left := Autoscales(&s, tc.autoscaler, now)
			if diff := cmp.Diff(tc.want, s.Ready); diff != "" || left != tc.left {
				t.Errorf("again after %s, want %s; (-want +got):\n%s", left, tc.left, diff)
			}
		})
	}
}
