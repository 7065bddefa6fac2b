package podstate

import (
	"regexp"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
)

// AutoscalerProblem returns the first condition by which a HorizontalPodAutoscaler reports
// that it cannot scale, or nil. It may be nil.
func AutoscalerProblem(a *autoscalingv2.HorizontalPodAutoscaler) *autoscalingv2.HorizontalPodAutoscalerCondition {
	if a == nil {
		return nil
	}
	for _, kind := range []autoscalingv2.HorizontalPodAutoscalerConditionType{autoscalingv2.AbleToScale, autoscalingv2.ScalingActive} {
		for i := range a.Status.Conditions {
			c := &a.Status.Conditions[i]
			if c.Type == kind && c.Status == corev1.ConditionFalse && c.Reason != "ScalingDisabled" { // no pods are wanted
				return c
			}
		}
	}
	return nil
}

// generatedPod matches the name of a pod that the ReplicaSet controller could
// not create, which is different in each attempt.
var generatedPod = regexp.MustCompile(`pods? "[^"]*" `)

// ReplicaSetRefused reports whether a condition of a Deployment says that the ReplicaSet of its
// template cannot be created. The controller writes that without the generation that it has
// observed, and takes it back when there is one.
func ReplicaSetRefused(c appsv1.DeploymentCondition) bool {
	return c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse && c.Reason == "ReplicaSetCreateError"
}

// ReplicaFailure returns why pods of a Deployment cannot be created, or "" if they can. It
// omits the names of pods, which are different in each attempt.
func ReplicaFailure(d *appsv1.Deployment) string {
	const most = 1024
	seen := d.Status.ObservedGeneration >= d.Generation
	for _, c := range d.Status.Conditions {
		if !ReplicaSetRefused(c) && (c.Type != appsv1.DeploymentReplicaFailure || c.Status != corev1.ConditionTrue || !seen) {
			continue
		}
		m := generatedPod.ReplaceAllString(c.Message, "pod ")
		if len(m) > most {
			m = strings.ToValidUTF8(m[:most], "")
		}
		return m
	}
	return ""
}
