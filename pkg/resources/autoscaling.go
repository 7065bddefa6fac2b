package resources

import (
	"regexp"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	autoscalingv2ac "k8s.io/client-go/applyconfigurations/autoscaling/v2"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/conditions"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/podstate"
)

// HorizontalPodAutoscaler returns the intent of a HorizontalPodAutoscaler that
// scales a Deployment.
func HorizontalPodAutoscaler(name, namespace string, labels map[string]string, deployment string, spec *common.Autoscaling) apply.Intent {
	hpa := autoscalingv2ac.HorizontalPodAutoscalerSpec().
		WithScaleTargetRef(autoscalingv2ac.CrossVersionObjectReference().
			WithAPIVersion("apps/v1").WithKind("Deployment").WithName(deployment)).
		WithMinReplicas(MinReplicas(spec)).
		WithMaxReplicas(spec.MaxReplicas)
	// CPU comes last, and memory before it: an API server that stores version
	// autoscaling/v1 returns the metrics in this order, and the list is compared in order.
	for _, m := range spec.Metrics {
		hpa.WithMetrics(metric(m))
	}
	utilization(hpa, corev1.ResourceMemory, spec.TargetMemoryUtilizationPercentage)
	utilization(hpa, corev1.ResourceCPU, spec.TargetCPUUtilizationPercentage)
	if spec.Behavior != nil {
		hpa.WithBehavior(as[autoscalingv2ac.HorizontalPodAutoscalerBehaviorApplyConfiguration](spec.Behavior))
	}
	return apply.New(autoscalingv2ac.HorizontalPodAutoscaler(name, namespace).WithLabels(labels).WithSpec(hpa),
		func() *autoscalingv2.HorizontalPodAutoscaler { return &autoscalingv2.HorizontalPodAutoscaler{} })
}

// Measurable returns the part of an autoscaler's spec that pods of all templates allow: an
// autoscaler does not scale down while a container lacks a request that a target refers
// to, as those of an earlier revision may. If no target is left, it returns all of them,
// so that the autoscaler reports which request is missing.
func Measurable(spec *common.Autoscaling, templates []*corev1ac.PodTemplateSpecApplyConfiguration) *common.Autoscaling {
	if spec == nil {
		return nil
	}
	requested := func(name corev1.ResourceName) bool {
		return !slices.ContainsFunc(templates, func(t *corev1ac.PodTemplateSpecApplyConfiguration) bool {
			if t.Spec == nil {
				return false
			}
			running := slices.DeleteFunc(slices.Clone(t.Spec.InitContainers), func(c corev1ac.ContainerApplyConfiguration) bool { return c.RestartPolicy == nil })
			return slices.ContainsFunc(append(running, t.Spec.Containers...), func(c corev1ac.ContainerApplyConfiguration) bool {
				return !requests(c.Resources, name)
			})
		})
	}
	left := *spec
	if left.TargetCPUUtilizationPercentage != nil && !requested(corev1.ResourceCPU) {
		left.TargetCPUUtilizationPercentage = nil
	}
	if left.TargetMemoryUtilizationPercentage != nil && !requested(corev1.ResourceMemory) {
		left.TargetMemoryUtilizationPercentage = nil
	}
	if left.TargetCPUUtilizationPercentage == nil && left.TargetMemoryUtilizationPercentage == nil && len(left.Metrics) == 0 {
		return spec
	}
	return &left
}

// requests reports whether a container requests a resource. A limit alone is also the
// request.
func requests(r *corev1ac.ResourceRequirementsApplyConfiguration, name corev1.ResourceName) bool {
	if r == nil {
		return false
	}
	for _, list := range []*corev1.ResourceList{r.Requests, r.Limits} {
		if list != nil {
			if _, ok := (*list)[name]; ok {
				return true
			}
		}
	}
	return false
}

// MinReplicas returns the minimum number of replicas that an autoscaler sets.
func MinReplicas(spec *common.Autoscaling) int32 { return ptr.Deref(spec.MinReplicas, 1) }

// AutoscaledReplicas returns the number of replicas to apply although an
// autoscaler scales the Deployment, or nil if none should be applied. live is
// nil if there is no Deployment, and last is the number of replicas that was
// observed last.
//
//   - A Deployment that is created starts with the last number of its
//     predecessor, or else with the minimum. The default of Kubernetes is one
//     replica, which an autoscaler takes some time to increase.
//   - An autoscaler does not scale a Deployment that has zero replicas.
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

// ScalingStarts is how long an autoscaler may report that it cannot scale: metrics of pods
// exist a minute after they start, and metrics-server may be restarted.
const ScalingStarts = 2 * time.Minute

// Autoscales makes an object not ready whose pods serve, but whose autoscaler has been
// unable to scale them for ScalingStarts. left is when to check that again, or 0.
func Autoscales(s *conditions.State, a *autoscalingv2.HorizontalPodAutoscaler, now time.Time) (left time.Duration) {
	problem := podstate.AutoscalerProblem(a)
	if problem == nil || !s.Ready.Status {
		return 0
	}
	// The time is that of another clock, so that the wait is limited.
	if left = min(ScalingStarts, ScalingStarts-now.Sub(problem.LastTransitionTime.Time)); left > 0 {
		return left
	}
	s.Ready = conditions.Condition{
		Reason:  msgAutoscaling.Reason(),
		Message: msgAutoscaling.Quoting(fault.Clip(unstableInAutoscaler.ReplaceAllString(problem.Message, ""), mostQuoted), problem.Reason),
	}
	return 0
}

// unstableInAutoscaler matches names of pods, and lists in random order.
var unstableInAutoscaler = regexp.MustCompile(` of Pod \S+|: \[[^\]]*\]`)

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

// metric returns a metric of pods, an object or an external system as an autoscaler states it.
func metric(m common.AutoscalingMetric) *autoscalingv2ac.MetricSpecApplyConfiguration {
	id := autoscalingv2ac.MetricIdentifier().WithName(m.Name)
	if len(m.MatchLabels) > 0 {
		id.WithSelector(metav1ac.LabelSelector().WithMatchLabels(config.Texts(m.MatchLabels)))
	}
	target := autoscalingv2ac.MetricTarget()
	if m.Value != nil {
		target.WithType(autoscalingv2.ValueMetricType).WithValue(*m.Value)
	} else if m.AverageValue != nil {
		target.WithType(autoscalingv2.AverageValueMetricType).WithAverageValue(*m.AverageValue)
	}
	spec := autoscalingv2ac.MetricSpec().WithType(m.Type)
	switch o := m.Object; {
	case o != nil:
		spec.WithObject(autoscalingv2ac.ObjectMetricSource().WithMetric(id).WithTarget(target).
			WithDescribedObject(autoscalingv2ac.CrossVersionObjectReference().WithAPIVersion(o.APIVersion).WithKind(o.Kind).WithName(o.Name)))
	case m.Type == autoscalingv2.PodsMetricSourceType:
		spec.WithPods(autoscalingv2ac.PodsMetricSource().WithMetric(id).WithTarget(target))
	default:
		spec.WithExternal(autoscalingv2ac.ExternalMetricSource().WithMetric(id).WithTarget(target))
	}
	return spec
}
