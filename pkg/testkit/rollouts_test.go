package testkit

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestRolloutBounds(t *testing.T) {
	of := func(surge, unavailable string) *appsv1.RollingUpdateDeployment {
		s, u := intstr.Parse(surge), intstr.Parse(unavailable)
		return &appsv1.RollingUpdateDeployment{MaxSurge: &s, MaxUnavailable: &u}
	}
	for name, tc := range map[string]struct {
		replicas           int32
		strategy           appsv1.DeploymentStrategyType
		rolling            *appsv1.RollingUpdateDeployment
		surge, unavailable int
	}{
		"defaults":                      {replicas: 8, surge: 2, unavailable: 2},
		"percentages are rounded":       {replicas: 3, rolling: of("30%", "30%"), surge: 1, unavailable: 0},
		"numbers":                       {replicas: 3, rolling: of("2", "1"), surge: 2, unavailable: 1},
		"both zero":                     {replicas: 3, rolling: of("0", "0"), surge: 0, unavailable: 1},
		"more than there are":           {replicas: 1, rolling: of("0", "5"), surge: 0, unavailable: 1},
		"Recreate":                      {replicas: 8, strategy: appsv1.RecreateDeploymentStrategyType},
		"no pods":                       {replicas: 0, rolling: of("0", "1")},
		"Recreate of the earlier limit": {replicas: 8, strategy: appsv1.RecreateDeploymentStrategyType, rolling: of("2", "2")},
	} {
		t.Run(name, func(t *testing.T) {
			d := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{
				Replicas: &tc.replicas, Strategy: appsv1.DeploymentStrategy{Type: tc.strategy, RollingUpdate: tc.rolling},
			}}
			surge, unavailable := RolloutBounds(d)
			if surge != tc.surge || unavailable != tc.unavailable {
				t.Errorf("got %d and %d, want %d and %d", surge, unavailable, tc.surge, tc.unavailable)
			}
		})
	}
}
