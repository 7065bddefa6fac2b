package workload

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/platform-operator/platform-operator/pkg/naming"
)

func TestRetried(t *testing.T) {
	began := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	const at = "2026-01-01T12:01:00Z"
	failing := func(s corev1.ConditionStatus, last string) *appsv1.Deployment {
		d := &appsv1.Deployment{Status: appsv1.DeploymentStatus{Conditions: []appsv1.DeploymentCondition{
			{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(began.Add(-time.Hour))},
			{Type: appsv1.DeploymentReplicaFailure, Status: s, LastTransitionTime: metav1.NewTime(began)},
		}}}
		if last != "" {
			d.Annotations = map[string]string{naming.AnnotationRetriedAt: last}
		}
		return d
	}
	for name, tc := range map[string]struct {
		deployment *appsv1.Deployment
		lasts      time.Duration
		tooMany    bool
		paused     bool
		want       string
		left       time.Duration
	}{
		"no Deployment":           {},
		"it succeeded":            {deployment: failing(corev1.ConditionFalse, at), lasts: time.Hour},
		"in the first minute":     {deployment: failing(corev1.ConditionTrue, ""), lasts: 59 * time.Second, left: time.Second},
		"after a minute":          {deployment: failing(corev1.ConditionTrue, ""), lasts: time.Minute, want: at, left: time.Minute},
		"less than a minute ago":  {deployment: failing(corev1.ConditionTrue, at), lasts: 90 * time.Second, want: at, left: 30 * time.Second},
		"a minute ago":            {deployment: failing(corev1.ConditionTrue, at), lasts: 2 * time.Minute, want: "2026-01-01T12:02:00Z", left: time.Minute},
		"in an earlier failure":   {deployment: failing(corev1.ConditionTrue, "2026-01-01T11:59:00Z"), lasts: time.Second, left: 59 * time.Second},
		"in the future":           {deployment: failing(corev1.ConditionTrue, "2027-01-01T12:00:00Z"), lasts: time.Second, left: 59 * time.Second},
		"by a clock that lags":    {deployment: failing(corev1.ConditionTrue, ""), lasts: -time.Second, left: time.Minute},
		"paused":                  {deployment: failing(corev1.ConditionTrue, ""), lasts: time.Hour, paused: true},
		"paused since then":       {deployment: failing(corev1.ConditionFalse, at), lasts: time.Hour, paused: true, want: at},
		"too many, the first one": {deployment: failing(corev1.ConditionTrue, ""), lasts: time.Hour, tooMany: true, left: time.Minute},
		"too many":                {deployment: failing(corev1.ConditionTrue, at), lasts: time.Hour, tooMany: true, want: at, left: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			if before := retries; tc.tooMany {
				retries = flowcontrol.NewFakeNeverRateLimiter()
				defer func() { retries = before }()
			}
			got, left := retried(tc.deployment, began.Add(tc.lasts), tc.paused)
			if got != tc.want || left != tc.left {
				t.Errorf("got %q and %v, want %q and %v", got, left, tc.want, tc.left)
			}
		})
	}
}
