package common

import autoscalingv2 "k8s.io/api/autoscaling/v2"

// Autoscaling lets a HorizontalPodAutoscaler set the number of pods.
//
// +kubebuilder:validation:AtLeastOneOf=targetCPUUtilizationPercentage;targetMemoryUtilizationPercentage
// +kubebuilder:validation:XValidation:rule="(has(self.minReplicas) ? self.minReplicas : 1) <= self.maxReplicas",message="minReplicas must not be greater than maxReplicas",fieldPath=".minReplicas"
type Autoscaling struct {
	// minReplicas is the smallest number of pods. Unset means 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MinReplicas *int32 `json:"minReplicas,omitempty"`

	// maxReplicas is the greatest number of pods.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MaxReplicas int32 `json:"maxReplicas"`

	// targetCPUUtilizationPercentage is the use of CPU to aim at, in percent of
	// what the pods request.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	TargetCPUUtilizationPercentage *int32 `json:"targetCPUUtilizationPercentage,omitempty"`

	// targetMemoryUtilizationPercentage is the use of memory to aim at, in
	// percent of what the pods request.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	TargetMemoryUtilizationPercentage *int32 `json:"targetMemoryUtilizationPercentage,omitempty"`

	// behavior says how fast the number changes.
	// +optional
	Behavior *AutoscalingBehavior `json:"behavior,omitempty"`
}

// AutoscalingBehavior says how fast the number of pods changes.
type AutoscalingBehavior struct {
	// scaleUp says how fast it grows. Unset doubles it, or adds four, every 15
	// seconds.
	// +optional
	ScaleUp *ScalingRules `json:"scaleUp,omitempty"`

	// scaleDown says how fast it shrinks. Unset waits for five minutes of less
	// load.
	// +optional
	ScaleDown *ScalingRules `json:"scaleDown,omitempty"`
}

// ScalingRules say how fast the number of pods changes in one direction.
type ScalingRules struct {
	// stabilizationWindowSeconds is for how long a change must be called for.
	// Unset means 0 up, 300 down.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	StabilizationWindowSeconds *int32 `json:"stabilizationWindowSeconds,omitempty"`

	// selectPolicy says which policy counts: Max, Min, or Disabled for none.
	// Unset means Max.
	// +optional
	// +kubebuilder:validation:Enum=Max;Min;Disabled
	SelectPolicy autoscalingv2.ScalingPolicySelect `json:"selectPolicy,omitempty"`

	// policies are the steps that are allowed. Unset takes Kubernetes' own.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Policies []ScalingPolicy `json:"policies,omitempty"`
}

// ScalingPolicy is a step that is allowed.
type ScalingPolicy struct {
	// type is Pods or Percent.
	// +required
	// +kubebuilder:validation:Enum=Pods;Percent
	Type autoscalingv2.HPAScalingPolicyType `json:"type"`

	// value is how many pods, or how many percent of them.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	Value int32 `json:"value"`

	// periodSeconds is the time in which that may happen.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1800
	PeriodSeconds int32 `json:"periodSeconds"`
}
