package resources

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/platform-operator/platform-operator/apis/common"
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
