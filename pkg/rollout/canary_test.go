package rollout

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/judge"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

const testHold = 100 * time.Second

// canaryWorld is a world whose second revision is held as a canary.
type canaryWorld struct {
	*world
	old  string // the hash of the first revision
	pods int32  // of the canary
}

// edited returns a world in which the image was changed.
func edited(t *testing.T, c common.Canary, image string) *canaryWorld {
	t.Helper()
	w := &canaryWorld{world: serving(t), pods: 1}
	w.old = w.template()
	w.rollout.Canary = &c
	w.image = image
	w.reconcile()
	w.reconcilingSince(w.now)
	return w
}

func (w *canaryWorld) template() string {
	return w.seen.Deployment.Spec.Template.Annotations[naming.AnnotationTemplate]
}

// run simulates a cluster that holds the canary, whose containers are as stated.
func (w *canaryWorld) run(since time.Time, containers ...corev1.ContainerStatus) {
	n, pods := *w.seen.Deployment.Spec.Replicas, w.pods
	w.seen.Deployment.Status = appsv1.DeploymentStatus{
		ObservedGeneration: w.seen.Deployment.Generation, Replicas: n + pods, UpdatedReplicas: pods, ReadyReplicas: n + pods, AvailableReplicas: n,
	}
	w.seen.Pods = nil
	for range n {
		w.seen.Pods = append(w.seen.Pods, readySince(w.now.Add(-time.Hour), pod(w.old, corev1.ContainerStatus{Name: "web", Ready: true})))
	}
	for range w.pods {
		p := pod(w.template(), containers...)
		p.CreationTimestamp = metav1.NewTime(since)
		if len(containers) == 0 {
			p = readySince(since, pod(w.template(), corev1.ContainerStatus{Name: "web", Ready: true}))
		}
		w.seen.Pods = append(w.seen.Pods, p)
	}
}

// starts lets a pod of the first revision be created.
func (w *canaryWorld) starts(before time.Duration) {
	w.seen.Pods[0] = pod(w.old, corev1.ContainerStatus{Name: "web"})
	w.seen.Pods[0].CreationTimestamp = metav1.NewTime(w.now.Add(-before))
}

// verdict ends the container that judges the last pod, which is then ready again.
func (w *canaryWorld) verdict(message string) {
	p := &w.seen.Pods[len(w.seen.Pods)-1]
	p.Status.InitContainerStatuses = []corev1.ContainerStatus{{
		Name: judge.Container, Ready: true, RestartCount: 1, State: running, LastTerminationState: ended(0, "Completed", message),
	}}
	p.Status.ContainerStatuses[0].State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: p.CreationTimestamp}}
	p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(w.now)
}

// state returns the conditions, the image of the Deployment, and whether it is held.
func (w *canaryWorld) state() string {
	w.t.Helper()
	d, _ := Decide(w.question(), w.seen) // a pin that does not exist is an error
	said := strings.TrimSpace(w.follow(d))
	held := "free"
	if isHeld(w.seen.Deployment) {
		held = "held"
	}
	return fmt.Sprintf("%s %s %s", said, w.deployed(), held)
}

func TestCanary(t *testing.T) {
	second := func(w *canaryWorld, n int) { w.now = w.now.Add(time.Duration(n) * time.Second) }
	ready := func(w *canaryWorld) { w.run(w.now) }
	automatic := common.Canary{HoldSeconds: new(int32(testHold.Seconds()))}
	manual := common.Canary{Promote: common.PromoteManual}
	judged := common.Canary{HoldSeconds: automatic.HoldSeconds, MaxErrorRatio: "5%"}
	for name, tc := range map[string]struct {
		canary  common.Canary
		image   string // web:2 if it is ""
		happens func(*canaryWorld)
		want    string
	}{
		"pods start":                  {canary: automatic, happens: func(*canaryWorld) {}, want: "Progressing web:2 held"},
		"pods are ready":              {canary: automatic, happens: ready, want: "Canary web:2 held"},
		"not long enough":             {canary: automatic, happens: func(w *canaryWorld) { ready(w); second(w, 99) }, want: "Canary web:2 held"},
		"long enough":                 {canary: automatic, happens: func(w *canaryWorld) { ready(w); second(w, 100) }, want: "Progressing web:2 free"},
		"the default is five minutes": {happens: func(w *canaryWorld) { ready(w); second(w, 299) }, want: "Canary web:2 held"},
		"a pod was deleted": {canary: automatic, happens: func(w *canaryWorld) {
			second(w, 99)
			ready(w)
			second(w, 1)
		}, want: "Canary web:2 held"},
		"a clock that is late":  {canary: automatic, happens: func(w *canaryWorld) { w.run(w.now.Add(-time.Hour)); second(w, 99) }, want: "Canary web:2 held"},
		"a clock that is ahead": {canary: automatic, happens: func(w *canaryWorld) { w.run(w.now.Add(time.Hour)); second(w, 100) }, want: "Progressing web:2 free"},
		"a pod is missing": {canary: common.Canary{Pods: new(int32(2)), HoldSeconds: automatic.HoldSeconds}, happens: func(w *canaryWorld) {
			ready(w)
			second(w, 100)
		}, want: "Progressing web:2 held"},
		"more pods than replicas": {canary: common.Canary{Pods: new(int32(9)), HoldSeconds: automatic.HoldSeconds}, happens: func(w *canaryWorld) {
			w.pods = 3
			ready(w)
			second(w, 100)
		}, want: "Progressing web:2 free"},
		"one more pod is not ready": {canary: automatic, happens: func(w *canaryWorld) {
			ready(w)
			second(w, 100)
			w.seen.Pods = append(w.seen.Pods, pod(w.template(), corev1.ContainerStatus{Name: "web"}))
		}, want: "Progressing web:2 held"},
		"promoted by hand": {canary: manual, happens: func(w *canaryWorld) {
			ready(w)
			w.rollout.PromotedRevision = new(int64(2))
		}, want: "Progressing web:2 free"},
		"another one was promoted": {canary: manual, happens: func(w *canaryWorld) {
			ready(w)
			w.rollout.PromotedRevision = new(int64(1))
			second(w, 1_000_000)
		}, want: "Canary web:2 held"},
		"no canary any more": {canary: manual, happens: func(w *canaryWorld) { ready(w); w.rollout.Canary = nil }, want: "Progressing web:2 free"},
		"reverted":           {canary: manual, happens: func(w *canaryWorld) { ready(w); w.image = "web:1" }, want: "Progressing web:1 free"},
		"the earlier one is pinned": {canary: manual, happens: func(w *canaryWorld) {
			ready(w)
			w.rollout.PinnedRevision = new(int64(1))
		}, want: "Progressing web:1 free"},
		"it is pinned itself": {canary: manual, happens: func(w *canaryWorld) {
			ready(w)
			w.rollout.PinnedRevision = new(int64(2))
		}, want: "Progressing web:2 free"},
		"another edit": {canary: manual, happens: func(w *canaryWorld) {
			ready(w)
			w.image = "web:3"
			w.reconcile()
			ready(w)
		}, want: "Canary web:3 held"},
		"another edit while an earlier pod starts": {canary: manual, happens: func(w *canaryWorld) {
			ready(w)
			w.starts(0)
			w.image = "web:3"
		}, want: "Canary web:2 held"},
		"another edit while an earlier pod does not start": {canary: manual, happens: func(w *canaryWorld) {
			ready(w)
			w.starts(time.Minute)
			w.now = w.now.Add(time.Minute)
			w.image = "web:3"
		}, want: "Progressing web:3 held"},
		"reverted while an earlier pod starts": {canary: manual, happens: func(w *canaryWorld) {
			ready(w)
			w.starts(0)
			w.image = "web:1"
		}, want: "Progressing web:1 free"},
		"scaled": {canary: manual, happens: func(w *canaryWorld) {
			ready(w)
			w.replicas = 6
			w.reconcile()
			w.pods = 2
			ready(w)
		}, want: "Canary web:2 held"},
		"scaled down": {canary: common.Canary{Pods: new(int32(2)), Promote: common.PromoteManual}, happens: func(w *canaryWorld) {
			w.replicas = 2
			w.reconcile()
			w.run(w.now)
			w.seen.Deployment.Status.Replicas = 4
		}, want: "Canary web:2 held"},
		"no replicas": {canary: manual, happens: func(w *canaryWorld) { ready(w); w.replicas = 0 }, want: "Progressing web:2 free"},
		"the status is lost": {canary: manual, happens: func(w *canaryWorld) {
			ready(w)
			w.status = common.RolloutStatus{}
		}, want: "Canary web:2 held"},
		"the earlier revision is lost": {canary: manual, happens: func(w *canaryWorld) { ready(w); w.seen.Revisions = w.seen.Revisions[1:] }, want: "Canary web:2 held"},
		"the history is lost":          {canary: manual, happens: func(w *canaryWorld) { ready(w); w.seen.Revisions = nil }, want: "Canary web:2 held"},
		"another client removes the annotation": {canary: manual, happens: func(w *canaryWorld) {
			ready(w)
			w.seen.Deployment.Annotations, w.seen.Deployment.Spec.MinReadySeconds = nil, neverAvailable
		}, want: "Canary web:2 held"},
		"it crashed, and is ready": {canary: manual, happens: func(w *canaryWorld) {
			ready(w)
			w.seen.Pods[3].Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "web", Ready: true, RestartCount: 1, State: running, LastTerminationState: ended(1, "Error", "no database")}}
			second(w, 3600)
		}, want: "Progressing web:2 held"},
		"it crashes for the third time": {canary: manual, happens: func(w *canaryWorld) { w.run(w.now, crashing); w.reconcile() }, want: "RolledBack +RolloutFailed web:1 free"},
		"it is not ready in time": {canary: manual, happens: func(w *canaryWorld) {
			w.run(w.now, corev1.ContainerStatus{Name: "web", State: running})
			second(w, 600)
			w.reconcile()
		}, want: "RolledBack +RolloutFailed web:1 free"},
		"it has time": {canary: manual, happens: func(w *canaryWorld) {
			w.run(w.now, corev1.ContainerStatus{Name: "web", State: running})
			second(w, 599)
			w.reconcile()
		}, want: "NotReady web:2 held"},
		"it is not ready for a moment": {canary: manual, happens: func(w *canaryWorld) {
			w.run(w.now, corev1.ContainerStatus{Name: "web", State: running})
			second(w, 3600)
			w.seen.Pods[3].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(w.now)}}
			w.reconcile()
		}, want: "NotReady web:2 held"},
		"it fails, and stays as it is": {canary: automatic, happens: func(w *canaryWorld) {
			w.rollout.OnFailure = common.OnFailureHalt
			w.run(w.now, crashing)
			w.reconcile()
			ready(w)
			second(w, 1000)
		}, want: "Progressing +RolloutFailed web:2 held"},
		"judged, and passed": {canary: judged, happens: func(w *canaryWorld) {
			ready(w)
			second(w, 100)
			w.verdict("1 of 60 requests failed with 5xx: within the limit of 5%")
		}, want: "Progressing web:2 free"},
		"judged, and passed early": {canary: judged, happens: func(w *canaryWorld) {
			ready(w)
			second(w, 99)
			w.verdict("1 of 60 requests failed with 5xx: within the limit of 5%")
		}, want: "Canary web:2 held"},
		"too few requests":           {canary: judged, happens: func(w *canaryWorld) { ready(w); second(w, 3600) }, want: "NotJudged web:2 held"},
		"too few requests, not over": {canary: judged, happens: func(w *canaryWorld) { ready(w); second(w, 99) }, want: "Canary web:2 held"},
		"too few requests to one of two pods": {canary: common.Canary{Pods: new(int32(2)), HoldSeconds: judged.HoldSeconds, MaxErrorRatio: "5%"}, happens: func(w *canaryWorld) {
			w.pods = 2
			ready(w)
			second(w, 3600)
			w.verdict("1 of 60 requests failed with 5xx: within the limit of 5%")
		}, want: "NotJudged web:2 held"},
		"too few requests, promoted by hand": {canary: judged, happens: func(w *canaryWorld) {
			ready(w)
			second(w, 3600)
			w.rollout.PromotedRevision = new(int64(2))
		}, want: "Progressing web:2 free"},
		"not counted": {canary: judged, happens: func(w *canaryWorld) { ready(w); second(w, 3600); w.verdict(uncounted) }, want: "NotJudged web:2 held"},
		"not counted, by hand": {canary: common.Canary{Promote: common.PromoteManual, MaxErrorRatio: "5%"}, happens: func(w *canaryWorld) {
			ready(w)
			second(w, 3600)
			w.verdict(uncounted)
		}, want: "NotJudged web:2 held"},
		"judged, and another message": {canary: judged, happens: func(w *canaryWorld) { ready(w); second(w, 3600); w.verdict("killed") }, want: "Canary web:2 held"},
		"too many errors": {canary: judged, happens: func(w *canaryWorld) {
			ready(w)
			w.verdict("12 of 60 requests failed with 5xx: more than the limit of 5%")
			w.reconcile()
		}, want: "RolledBack +RolloutFailed web:1 free"},
		"too many errors, by hand": {canary: common.Canary{Promote: common.PromoteManual, MaxErrorRatio: "5%"}, happens: func(w *canaryWorld) {
			ready(w)
			w.verdict("12 of 60 requests failed with 5xx: more than the limit of 5%")
			w.reconcile()
		}, want: "RolledBack +RolloutFailed web:1 free"},
		"too many errors after the promotion": {canary: judged, happens: func(w *canaryWorld) {
			ready(w)
			w.rollout.PromotedRevision = new(int64(2))
			w.reconcile()
			w.verdict("12 of 60 requests failed with 5xx: more than the limit of 5%")
			w.reconcile()
		}, want: "Progressing web:2 free"},
		"too many errors that are not judged": {canary: manual, happens: func(w *canaryWorld) {
			ready(w)
			w.verdict("12 of 60 requests failed with 5xx: more than the limit of 5%")
			w.reconcile()
		}, want: "Canary web:2 held"},
		"a pin that does not exist": {canary: manual, happens: func(w *canaryWorld) {
			ready(w)
			w.rollout.PinnedRevision = new(int64(9))
		}, want: "Canary web:2 held"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.image == "" {
				tc.image = "web:2"
			}
			w := edited(t, tc.canary, tc.image)
			tc.happens(w)
			if got := w.state(); got != tc.want {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}

const uncounted = "the requests are not counted: http://localhost:80/metrics has no counter http_requests_total"

var running = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}

func TestCanary_Deployment(t *testing.T) {
	w := edited(t, common.Canary{Pods: new(int32(2))}, "web:2")
	w.rollout.MaxSurge = nil
	d := w.decide()
	r := d.Rolling()
	got := []int32{r.MaxSurge.IntVal, r.MaxUnavailable.IntVal, *r.MinReadySeconds, *r.ProgressDeadlineSeconds}
	if diff := cmp.Diff([]int32{2, 0, 2147483646, 2147483647}, got); diff != "" {
		t.Errorf("maxSurge, maxUnavailable, minReadySeconds, progressDeadlineSeconds (-want +got):\n%s", diff)
	}
	w.rollout.PromotedRevision = new(int64(2))
	d = w.decide()
	if r := d.Rolling(); r != d.question.Rollout {
		t.Errorf("after the promotion: %+v", r)
	}
}

func TestCanary_Status(t *testing.T) {
	w := edited(t, common.Canary{HoldSeconds: new(int32(testHold.Seconds()))}, "web:2")
	at := func(d time.Duration) *metav1.Time { return new(metav1.NewTime(w.now.Add(d))) }
	is := func(step string, want *common.CanaryStatus) {
		t.Helper()
		w.reconcile()
		if diff := cmp.Diff(want, w.status.Canary); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step, diff)
		}
	}
	is("starting", &common.CanaryStatus{Revision: 2})
	w.run(w.now)
	is("ready", &common.CanaryStatus{Revision: 2, ReadyPods: 1, TrafficPercent: 25, Since: at(0), Until: at(testHold)})
	w.rollout.Canary = &common.Canary{Promote: common.PromoteManual}
	is("by hand", &common.CanaryStatus{Revision: 2, ReadyPods: 1, TrafficPercent: 25, Since: at(0)})
	w.rollout.PromotedRevision = new(int64(2))
	is("promoted", nil)
}

func TestCanary_Verdict(t *testing.T) {
	w := edited(t, common.Canary{HoldSeconds: new(int32(testHold.Seconds())), MaxErrorRatio: "5%"}, "web:2")
	w.run(w.now)
	w.reconcile()
	if got := w.status.Canary; got == nil || got.Verdict != common.CanaryNotJudged {
		t.Errorf("before the verdict: %+v", got)
	}
	d := w.decide()
	want := judge.Settings{Template: w.template(), MaxErrorRatio: "5%", MinRequests: 50, HoldSeconds: int64(testHold.Seconds())}
	if diff := cmp.Diff(want, d.Judgement()); diff != "" {
		t.Errorf("the settings (-want +got):\n%s", diff)
	}
	w.rollout.OnFailure = common.OnFailureHalt
	w.verdict("12 of 60 requests failed with 5xx: more than the limit of 5%")
	w.reconcile()
	if got := w.status.Canary; got == nil || got.Verdict != common.CanaryExceeded || got.Requests != 60 || got.Errors != 12 {
		t.Errorf("after the verdict: %+v", got)
	}
	if got, want := w.status.LastActions[0].Message, "12 of 60 requests to a pod of the canary failed with 5xx, more than the limit of 5%."; got != want {
		t.Errorf("the action: got %q, want %q", got, want)
	}
	w.rollout.PromotedRevision = new(int64(2))
	d = w.decide()
	if got := d.Judgement().Template; got != "" {
		t.Errorf("pods are judged after the promotion: %q", got)
	}
}

func TestCanary_Scale(t *testing.T) {
	for name, tc := range map[string]struct {
		from, pods, want, scaled int32
		behind                   bool // the Deployment controller has not observed the last step
	}{
		"as it is":             {from: 4, pods: 1, want: 4, scaled: 4},
		"up":                   {from: 4, pods: 1, want: 8, scaled: 6},
		"up, not observed yet": {from: 4, pods: 1, want: 8, scaled: 4, behind: true},
		"down":                 {from: 8, pods: 1, want: 2, scaled: 4},
		"the last step":        {from: 7, pods: 1, want: 8, scaled: 8},
		"many":                 {from: 100, pods: 1, want: 1000, scaled: 150},
		"a large canary":       {from: 10, pods: 5, want: 20, scaled: 11},
		"one":                  {from: 1, pods: 1, want: 3, scaled: 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := edited(t, common.Canary{Pods: new(tc.pods)}, "web:2")
			w.replicas = tc.from
			w.reconcile()
			w.pods = tc.pods
			w.run(w.now)
			if tc.behind {
				w.seen.Deployment.Generation++
			}
			d := w.decide()
			got := *d.Scale(new(tc.want), w.seen.Deployment)
			if got != tc.scaled {
				t.Errorf("%d replicas, want %d", got, tc.scaled)
			}
			// pkg/controller/deployment/util: the size of a ReplicaSet in proportion.
			before, after := float64(tc.from+tc.pods), float64(got+tc.pods)
			if size := math.Round(float64(tc.pods) * after / before); size != float64(tc.pods) && name != "one" {
				t.Errorf("Kubernetes scales the canary to %v pods", size)
			}
		})
	}
}

// A missing ConfigMap, a limit of rollouts and a command before the next revision keep the
// last decision.
func TestCanary_LastKnown(t *testing.T) {
	w := edited(t, common.Canary{Promote: common.PromoteManual}, "web:2")
	d, err := LastKnown(w.question(), w.seen)
	if err != nil || !d.Canary() || d.Serving.Number != 2 {
		t.Errorf("revision %d, held: %v, %v", d.Serving.Number, d.Canary(), err)
	}
}

// The first revision has nothing to return to, and neither has one that is healthy.
func TestCanary_NeedsAnEarlierRevision(t *testing.T) {
	w := &canaryWorld{world: newWorld(t)}
	w.rollout.Canary = &common.Canary{}
	w.reconcile()
	if got, want := w.state(), "Progressing web:1 free"; got != want {
		t.Errorf("the first one: got %q, want %q", got, want)
	}
}
