package resources

import (
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	autoscalingv2ac "k8s.io/client-go/applyconfigurations/autoscaling/v2"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/apply"
)

// HorizontalPodAutoscaler is the intent of one that scales the Deployment of
// that name.
func HorizontalPodAutoscaler(name, namespace string, labels map[string]string, deployment string, spec *common.Autoscaling) apply.Intent {
	hpa := autoscalingv2ac.HorizontalPodAutoscalerSpec().
		WithScaleTargetRef(autoscalingv2ac.CrossVersionObjectReference().
			WithAPIVersion("apps/v1").WithKind("Deployment").WithName(deployment)).
		WithMinReplicas(MinReplicas(spec)).
		WithMaxReplicas(spec.MaxReplicas)
	// Memory first: where the API server stores version 1 it comes back so, and
	// the list is compared in order.
	utilization(hpa, corev1.ResourceMemory, spec.TargetMemoryUtilizationPercentage)
	utilization(hpa, corev1.ResourceCPU, spec.TargetCPUUtilizationPercentage)
	if spec.Behavior != nil {
		hpa.WithBehavior(as[autoscalingv2ac.HorizontalPodAutoscalerBehaviorApplyConfiguration](spec.Behavior))
	}
	return apply.New(autoscalingv2ac.HorizontalPodAutoscaler(name, namespace).WithLabels(labels).WithSpec(hpa),
		func() *autoscalingv2.HorizontalPodAutoscaler { return &autoscalingv2.HorizontalPodAutoscaler{} })
}

// MinReplicas returns the smallest number of replicas that an autoscaler sets.
func MinReplicas(spec *common.Autoscaling) int32 { return or(spec.MinReplicas, 1) }

// AutoscaledReplicas returns the number of replicas that a Deployment states
// although an autoscaler scales it, nil for none. live is nil if there is no
// Deployment, and last is the number of replicas that was observed last.
//
//   - A Deployment that is created starts where the autoscaler left the one
//     before it, or else at the minimum. Kubernetes' default would be one
//     replica, and an autoscaler takes its time to leave that.
//   - An autoscaler leaves alone what is scaled to zero.
func AutoscaledReplicas(spec *common.Autoscaling, live *appsv1.Deployment, last int32) *int32 {
	least := MinReplicas(spec)
	switch {
	case live == nil:
		return new(max(least, min(last, spec.MaxReplicas)))
	case live.Spec.Replicas != nil && *live.Spec.Replicas == 0:
		return new(least)
	default:
		return nil
	}
}

func utilization(hpa *autoscalingv2ac.HorizontalPodAutoscalerSpecApplyConfiguration, of corev1.ResourceName, percent *int32) {
	if percent == nil {
		return
	}
	hpa.WithMetrics(autoscalingv2ac.MetricSpec().
		WithType(autoscalingv2.ResourceMetricSourceType).
		WithResource(autoscalingv2ac.ResourceMetricSource().
			WithName(of).
			WithTarget(autoscalingv2ac.MetricTarget().
				WithType(autoscalingv2.UtilizationMetricType).
				WithAverageUtilization(*percent))))
}
