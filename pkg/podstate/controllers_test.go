package podstate

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

func TestReplicaFailure(t *testing.T) {
	quota := appsv1.DeploymentCondition{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: `pods "web-x2b" is forbidden: exceeded quota`}
	refused := appsv1.DeploymentCondition{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ReplicaSetCreateError", Message: "failed calling webhook"}
	late := appsv1.DeploymentCondition{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded", Message: "late"}
	for name, tc := range map[string]struct {
		conditions []appsv1.DeploymentCondition
		unseen     bool
		want       string
	}{
		"nothing":                       {},
		"pods":                          {conditions: []appsv1.DeploymentCondition{late, quota}, want: "pod is forbidden: exceeded quota"},
		"pods of an earlier spec":       {conditions: []appsv1.DeploymentCondition{quota}, unseen: true},
		"the deadline":                  {conditions: []appsv1.DeploymentCondition{late}},
		"the ReplicaSet":                {conditions: []appsv1.DeploymentCondition{refused}, want: "failed calling webhook"},
		"a ReplicaSet, not counted yet": {conditions: []appsv1.DeploymentCondition{refused}, unseen: true, want: "failed calling webhook"},
	} {
		t.Run(name, func(t *testing.T) {
			d := &appsv1.Deployment{Status: appsv1.DeploymentStatus{ObservedGeneration: 2, Conditions: tc.conditions}}
			d.Generation = 2
			if tc.unseen {
				d.Generation = 3
			}
			if got := ReplicaFailure(d); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
