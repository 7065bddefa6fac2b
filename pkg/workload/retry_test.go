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
		"in an earlier failure":   {deployment: failing(corev1.ConditionTrue, "2026-01-01T11:59:00Z"), lasts: time.Second, want: "2026-01-01T11:59:00Z", left: 59 * time.Second},
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
			got, left := retried(tc.deployment, nil, began.Add(tc.lasts), tc.paused)
			if got != tc.want || left != tc.left {
				t.Errorf("got %q and %v, want %q and %v", got, left, tc.want, tc.left)
			}
		})
	}
}

// The Deployment controller reports nothing if its requests fail during a rollout.
func TestRetried_ARolloutThatDoesNotContinue(t *testing.T) {
	began := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	const at = "2026-01-01T12:01:00Z"
	template := func(hash string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Annotations: map[string]string{naming.AnnotationTemplate: hash}}
	}
	pod := func(hash string, s corev1.ConditionStatus, since time.Duration) corev1.Pod {
		return corev1.Pod{ObjectMeta: template(hash), Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: s, LastTransitionTime: metav1.NewTime(began.Add(since))},
		}}}
	}
	before, ready := pod("a", corev1.ConditionTrue, -time.Hour), pod("b", corev1.ConditionTrue, 0)
	ended, deleted := pod("b", corev1.ConditionFalse, 0), pod("a", corev1.ConditionFalse, 0)
	ended.Status.Phase, deleted.DeletionTimestamp = corev1.PodFailed, &metav1.Time{Time: began}
	for name, tc := range map[string]struct {
		pods            []corev1.Pod
		minReadySeconds int32
		generation      int64 // that the controller has not observed
		step            time.Duration
		last            string
		lasts           time.Duration
		want            string
		left            time.Duration
	}{
		"no pod":                      {lasts: time.Hour},
		"complete":                    {pods: []corev1.Pod{ready, deleted}, last: at, lasts: time.Hour},
		"no pod of the template yet":  {pods: []corev1.Pod{before}, lasts: time.Hour},
		"a new pod is not ready":      {pods: []corev1.Pod{before, pod("b", corev1.ConditionFalse, 0)}, lasts: time.Hour},
		"an old pod is not ready":     {pods: []corev1.Pod{pod("a", corev1.ConditionFalse, 0), ready}, lasts: time.Hour},
		"in the first minute":         {pods: []corev1.Pod{before, ready}, lasts: 59 * time.Second, left: time.Second},
		"after a minute":              {pods: []corev1.Pod{before, ready, ended, deleted}, lasts: time.Minute, want: at, left: time.Minute},
		"not available before that":   {pods: []corev1.Pod{before, ready}, minReadySeconds: 30, lasts: time.Minute, left: 30 * time.Second},
		"a step since then":           {pods: []corev1.Pod{before, ready}, step: 30 * time.Second, lasts: time.Minute, left: 30 * time.Second},
		"a change that is not seen":   {pods: []corev1.Pod{before, ready}, generation: 2, lasts: time.Hour},
		"the retry is not seen":       {pods: []corev1.Pod{before, ready}, generation: 2, last: at, lasts: 90 * time.Second, want: at, left: 30 * time.Second},
		"a minute ago":                {pods: []corev1.Pod{before, ready}, generation: 2, last: at, lasts: 2 * time.Minute, want: "2026-01-01T12:02:00Z", left: time.Minute},
		"it continued, and was again": {pods: []corev1.Pod{before, ready}, step: 80 * time.Second, last: at, lasts: 2 * time.Minute, want: at, left: 20 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Generation: tc.generation}}
			d.Spec.MinReadySeconds, d.Spec.Template.ObjectMeta = tc.minReadySeconds, template("b")
			d.Status.Conditions = []appsv1.DeploymentCondition{{
				Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, LastUpdateTime: metav1.NewTime(began.Add(tc.step)),
			}}
			if tc.last != "" {
				d.Annotations = map[string]string{naming.AnnotationRetriedAt: tc.last}
			}
			got, left := retried(d, tc.pods, began.Add(tc.lasts), false)
			if got != tc.want || left != tc.left {
				t.Errorf("got %q and %v, want %q and %v", got, left, tc.want, tc.left)
			}
		})
	}
}
