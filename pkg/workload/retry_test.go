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
			got, left, _ := retried(retry{deployment: tc.deployment, now: began.Add(tc.lasts), paused: tc.paused})
			if got != tc.want || left != tc.left {
				t.Errorf("got %q and %v, want %q and %v", got, left, tc.want, tc.left)
			}
		})
	}
}

// The Deployment controller reports nothing if its requests fail during a rollout.
func TestRetried_ARolloutThatDoesNotContinue(t *testing.T) {
	began := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	const at, next = "2026-01-01T12:01:00Z", "2026-01-01T12:02:00Z"
	pod := func(s corev1.ConditionStatus, since time.Duration) corev1.Pod {
		return corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: s, LastTransitionTime: metav1.NewTime(began.Add(since))},
		}}}
	}
	before, ready := pod(corev1.ConditionTrue, -time.Hour), pod(corev1.ConditionTrue, 0)
	starting, ended, deleted := pod(corev1.ConditionFalse, 0), pod(corev1.ConditionFalse, 0), pod(corev1.ConditionTrue, 0)
	ended.Status.Phase, deleted.DeletionTimestamp = corev1.PodFailed, &metav1.Time{Time: began}
	two := []corev1.Pod{before, ready}
	for name, tc := range map[string]struct {
		pods                []corev1.Pod
		replicas, updated   int32
		minReadySeconds     int32
		recreate            bool
		unseen, held, ready bool
		refused             bool
		step                time.Duration
		last                string
		lasts               time.Duration
		want                string
		left                time.Duration
		noStep              bool
	}{
		"complete":                        {pods: two, replicas: 2, updated: 2, last: at, lasts: time.Hour},
		"a pod is not known yet":          {pods: two[1:], replicas: 2, updated: 1, lasts: time.Hour},
		"a new pod is not ready":          {pods: []corev1.Pod{before, starting}, replicas: 2, updated: 1, lasts: time.Hour},
		"in the first minute":             {pods: two, replicas: 2, updated: 1, lasts: 59 * time.Second, left: time.Second},
		"after a minute":                  {pods: []corev1.Pod{before, ready, ended, deleted}, replicas: 2, updated: 1, lasts: time.Minute, want: at, left: time.Minute, noStep: true},
		"not available before that":       {pods: two, replicas: 2, updated: 1, minReadySeconds: 30, lasts: time.Minute, left: 30 * time.Second},
		"a step since then":               {pods: two, replicas: 2, updated: 1, step: 30 * time.Second, lasts: time.Minute, left: 30 * time.Second},
		"a change during a rollout":       {pods: two, replicas: 2, updated: 1, unseen: true, lasts: time.Hour},
		"a canary":                        {pods: two, replicas: 2, updated: 1, held: true, lasts: time.Hour},
		"a pod of no ReplicaSet":          {pods: append(two, before), replicas: 2, updated: 2, lasts: time.Hour},
		"the object is Ready":             {pods: two, replicas: 2, updated: 1, ready: true, last: at, lasts: time.Hour},
		"the retry is not seen":           {pods: two, replicas: 2, updated: 1, unseen: true, last: at, lasts: 90 * time.Second, want: at, left: 30 * time.Second, noStep: true},
		"a minute ago":                    {pods: two, replicas: 2, updated: 1, unseen: true, last: at, lasts: 2 * time.Minute, want: next, left: time.Minute, noStep: true},
		"meanwhile a pod is not ready":    {pods: []corev1.Pod{starting, ready}, replicas: 2, updated: 1, unseen: true, last: at, lasts: 2 * time.Minute, want: next, left: time.Minute},
		"it continued, and stopped":       {pods: two, replicas: 2, updated: 1, step: 80 * time.Second, last: at, lasts: 2 * time.Minute, want: at, left: 20 * time.Second, noStep: true},
		"a template that is not seen":     {pods: two, replicas: 2, updated: 2, unseen: true, lasts: time.Minute, want: at, left: time.Minute, noStep: true},
		"replicas that are not there":     {pods: two[1:], replicas: 1, updated: 1, lasts: time.Minute, want: at, left: time.Minute, noStep: true},
		"ended before the others":         {pods: []corev1.Pod{deleted}, recreate: true, lasts: time.Hour},
		"the ReplicaSet is refused":       {pods: two, replicas: 2, updated: 2, unseen: true, refused: true, lasts: time.Minute, want: at, left: time.Minute},
		"that was retried a minute ago":   {pods: two, replicas: 2, updated: 2, unseen: true, refused: true, last: at, lasts: 2 * time.Minute, want: next, left: time.Minute},
		"the first ReplicaSet is refused": {unseen: true, refused: true, lasts: time.Minute, want: at, left: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
			d.Spec.Replicas, d.Spec.MinReadySeconds = new(int32(2)), tc.minReadySeconds
			if tc.recreate {
				d.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType
			}
			d.Status.ObservedGeneration, d.Status.Replicas, d.Status.UpdatedReplicas = 2, tc.replicas, tc.updated
			if tc.unseen {
				d.Status.ObservedGeneration = 1
			}
			progressing := appsv1.DeploymentCondition{
				Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, LastUpdateTime: metav1.NewTime(began.Add(tc.step)),
			}
			if tc.refused {
				progressing.Status, progressing.Reason, progressing.LastTransitionTime = corev1.ConditionFalse, "ReplicaSetCreateError", metav1.NewTime(began)
			}
			d.Status.Conditions = []appsv1.DeploymentCondition{progressing}
			if tc.last != "" {
				d.Annotations = map[string]string{naming.AnnotationRetriedAt: tc.last}
			}
			q := retry{deployment: d, pods: tc.pods, now: began.Add(tc.lasts), held: tc.held}
			if !tc.ready {
				q.incomplete = began
			}
			got, left, noStep := retried(q)
			if got != tc.want || left != tc.left || noStep != tc.noStep {
				t.Errorf("got %q, %v and %t, want %q, %v and %t", got, left, noStep, tc.want, tc.left, tc.noStep)
			}
		})
	}
}
