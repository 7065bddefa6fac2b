package common

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Autoscaling configures a HorizontalPodAutoscaler that sets the number of
// pods.
//
// +kubebuilder:validation:AtLeastOneOf=targetCPUUtilizationPercentage;targetMemoryUtilizationPercentage;metrics
// +kubebuilder:validation:XValidation:rule="(has(self.minReplicas) ? self.minReplicas : 1) <= self.maxReplicas",message="minReplicas must not be greater than maxReplicas",fieldPath=".minReplicas"
type Autoscaling struct {
	// minReplicas is the lower limit for the number of pods. Unset means 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MinReplicas *int32 `json:"minReplicas,omitempty"`

	// maxReplicas is the upper limit for the number of pods.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MaxReplicas int32 `json:"maxReplicas"`

	// targetCPUUtilizationPercentage is the target average CPU usage, in
	// percent of the requested CPU.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	TargetCPUUtilizationPercentage *int32 `json:"targetCPUUtilizationPercentage,omitempty"`

	// targetMemoryUtilizationPercentage is the target average memory usage, in
	// percent of the requested memory.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	TargetMemoryUtilizationPercentage *int32 `json:"targetMemoryUtilizationPercentage,omitempty"`

	// metrics are further targets, which an adapter such as prometheus-adapter or KEDA
	// measures. Of all targets, the one that needs the most pods counts.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Metrics []AutoscalingMetric `json:"metrics,omitempty"`

	// behavior configures how fast the number of pods changes.
	// +optional
	Behavior *AutoscalingBehavior `json:"behavior,omitempty"`
}

// AutoscalingMetric is a target for a metric of pods, of an object or of an external system.
//
// +kubebuilder:validation:ExactlyOneOf=value;averageValue
// +kubebuilder:validation:XValidation:rule="self.type == 'Object' ? has(self.object) : !has(self.object)",message="object is required for type Object, and forbidden for any other",fieldPath=".object"
// +kubebuilder:validation:XValidation:rule="self.type != 'Pods' || !has(self.value)",message="type Pods needs averageValue",fieldPath=".value"
type AutoscalingMetric struct {
	// type is Pods, Object or External.
	// +required
	// +kubebuilder:validation:Enum=Pods;Object;External
	Type autoscalingv2.MetricSourceType `json:"type"`

	// name is the name of the metric.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[^/%[:space:]]+$`
	Name string `json:"name"`

	// matchLabels select the values of the metric by their labels.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(k, !format.qualifiedName().validate(k).hasValue())",message="keys must be names such as example.com/key"
	MatchLabels map[string]LabelValue `json:"matchLabels,omitempty"`

	// object is the object that the metric describes, in the same namespace.
	// +optional
	Object *MetricObject `json:"object,omitempty"`

	// value is the target for the metric.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="string(self).matches('^[0-9.]*[1-9][0-9.]*[mkKMGTi]*$')",message="must be more than 0, such as 20, 500m or 2k"
	Value *resource.Quantity `json:"value,omitempty"`

	// averageValue is the target for the metric divided by the number of pods.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="string(self).matches('^[0-9.]*[1-9][0-9.]*[mkKMGTi]*$')",message="must be more than 0, such as 20, 500m or 2k"
	AverageValue *resource.Quantity `json:"averageValue,omitempty"`
}

// MetricObject identifies an object that a metric describes.
type MetricObject struct {
	// apiVersion of the object, such as networking.k8s.io/v1.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	APIVersion string `json:"apiVersion"`

	// kind of the object, such as Ingress.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`

	// name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// AutoscalingBehavior configures how fast the number of pods changes.
type AutoscalingBehavior struct {
	// scaleUp configures how fast the number of pods grows. Unset means that it
	// may double or grow by four pods, whichever is more, every 15 seconds.
	// +optional
	ScaleUp *ScalingRules `json:"scaleUp,omitempty"`

	// scaleDown configures how fast the number of pods shrinks. Unset means
	// that it shrinks after five minutes of lower load.
	// +optional
	ScaleDown *ScalingRules `json:"scaleDown,omitempty"`
}

// ScalingRules configures how fast the number of pods changes in one direction.
type ScalingRules struct {
	// stabilizationWindowSeconds is how long a change must be recommended
	// before it is applied. Unset means 0 for scaling up and 300 for scaling
	// down.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	StabilizationWindowSeconds *int32 `json:"stabilizationWindowSeconds,omitempty"`

	// selectPolicy selects the policy that applies: Max and Min select the one
	// that allows the largest and the smallest change, Disabled turns scaling
	// in this direction off. Unset means Max.
	// +optional
	// +kubebuilder:validation:Enum=Max;Min;Disabled
	SelectPolicy autoscalingv2.ScalingPolicySelect `json:"selectPolicy,omitempty"`

	// tolerance is the deviation from the target below which the number does not
	// change, such as "0.05" for 5 %. Unset means that of the cluster, usually "0.1".
	// It needs Kubernetes 1.35 or newer.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=5
	// +kubebuilder:validation:XValidation:rule="string(self).matches('^([0-9]?[.][0-9]{1,3}|[0-9]|[0-9]{1,4}m)$')",message="must be less than 10, with at most three decimals, such as \"0.05\""
	Tolerance *resource.Quantity `json:"tolerance,omitempty"`

	// policies are the allowed changes. Unset means the defaults of Kubernetes.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Policies []ScalingPolicy `json:"policies,omitempty"`
}

// ScalingPolicy is an allowed change of the number of pods.
type ScalingPolicy struct {
	// type is Pods, for an absolute number, or Percent.
	// +required
	// +kubebuilder:validation:Enum=Pods;Percent
	Type autoscalingv2.HPAScalingPolicyType `json:"type"`

	// value is the largest allowed change, in the unit of type.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	Value int32 `json:"value"`

	// periodSeconds is the period in which the change is allowed.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1800
	PeriodSeconds int32 `json:"periodSeconds"`
}
