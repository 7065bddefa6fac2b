package workload

import (
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
		WithMinReplicas(or(spec.MinReplicas, 1)).
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
