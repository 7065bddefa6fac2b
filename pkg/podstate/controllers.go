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

// ReplicaFailure returns why pods of a Deployment cannot be created, or "" if they can. It
// omits the names of pods, which are different in each attempt.
func ReplicaFailure(d *appsv1.Deployment) string {
	const most = 1024
	for _, c := range d.Status.Conditions {
		if c.Type != appsv1.DeploymentReplicaFailure || c.Status != corev1.ConditionTrue {
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
