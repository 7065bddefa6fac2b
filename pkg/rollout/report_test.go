package rollout

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

func TestReport_RecordsActualTransitions(t *testing.T) {
	const crash = "Container web exits with code 1: no such file."
	start := newWorld(t).now
	action := func(kind common.ActionType, reason, message string, revision int64, after time.Duration) common.Action {
		return common.Action{Type: kind, Reason: reason, Message: message, Revision: revision, Time: metav1.NewTime(start.Add(after))}
	}
	minute := func(w *world) { w.now = w.now.Add(time.Minute) }
	failed := func(w *world) {
		w.image = "web:bad"
		w.reconcile()
		w.rolls(crashing)
		w.reconcile()
		minute(w)
	}
	for name, tc := range map[string]struct {
		happens func(*world)
		want    []common.Action
	}{
		"rolled back": {func(w *world) {
			failed(w)
			w.reconcile()
		}, []common.Action{action(common.ActionRollback, common.ReasonCrash, crash, 2, 0)}},
		"halted after a rollback": {func(w *world) {
			failed(w)
			w.reconcile()
			w.rollout.OnFailure = common.OnFailureHalt
			minute(w)
			w.reconcile()
		}, []common.Action{action(common.ActionRollback, common.ReasonCrash, crash, 2, 0)}},
		"halted before the rollback": {func(w *world) {
			failed(w)
			w.rollout.OnFailure = common.OnFailureHalt
			w.reconcile()
			w.reconcile()
		}, []common.Action{action(common.ActionHalt, common.ReasonCrash, crash, 2, time.Minute)}},
		"rolled back after a halt": {func(w *world) {
			w.rollout.OnFailure = common.OnFailureHalt
			failed(w)
			w.rollout.OnFailure = common.OnFailureRollback
			w.reconcile()
			minute(w)
			w.reconcile()
		}, []common.Action{action(common.ActionRollback, common.ReasonCrash, crash, 2, time.Minute), action(common.ActionHalt, common.ReasonCrash, crash, 2, 0)}},
		"a pin after a halt is no rollback": {func(w *world) {
			w.rollout.OnFailure = common.OnFailureHalt
			failed(w)
			w.rollout.PinnedRevision = new(int64(1))
			w.reconcile()
			w.rolls()
			w.reconcile()
			w.rollout.PinnedRevision = nil
			w.reconcile()
		}, []common.Action{action(common.ActionHalt, common.ReasonCrash, crash, 2, 0)}},
		"restarted with kubectl, and there is no other revision": {func(w *world) {
			w.seen.Deployment.Generation++
			w.rolls(corev1.ContainerStatus{Name: "web", Image: "web:1", State: waitingFor("ImagePullBackOff", "Back-off pulling image")})
			w.reconcile()
			w.reconcile()
		}, []common.Action{action(common.ActionHalt, common.ReasonImagePull, "The image web:1 cannot be pulled.", 1, 0)}},
		"what was healthy is not kept": {func(w *world) {
			w.image = "web:bad"
			w.reconcile()
			w.seen.Revisions = w.seen.Revisions[1:]
			w.rolls(crashing)
			w.reconcile()
		}, []common.Action{action(common.ActionHalt, common.ReasonCrash, crash, 2, 0)}},
	} {
		t.Run(name, func(t *testing.T) {
			w := serving(t)
			tc.happens(w)
			if diff := cmp.Diff(tc.want, w.status.LastActions); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
		})
	}
}

// Draining nodes one by one replaces all pods of a revision at rest, and each
// new pod pulls a moving tag again.
func TestReport_ShowsTheImageOfPodsThatWereReplaced(t *testing.T) {
	w := serving(t)
	template := w.seen.Deployment.Spec.Template.Annotations[naming.AnnotationTemplate]
	w.seen.Pods = []corev1.Pod{pod(template, corev1.ContainerStatus{Name: "web", Ready: true, ImageID: "sha256:moved"})}
	w.reconcile()
	if w.status.ImageID != "sha256:moved" {
		t.Errorf("all pods run sha256:moved, and status.imageID is %s", w.status.ImageID)
	}
}

// The next decision depends on these parts of the status, and a condition that has
// another cause, such as a conflict, does not change with them.
func TestReport_RequestsTheStatusWhenARevisionBecomesHealthyOrFails(t *testing.T) {
	w := newWorld(t)
	urgent := func(step string, want bool) {
		t.Helper()
		d := w.decide()
		out := converge.NewOutcome(w.now, fault.Verdict{}, nil)
		d.Report(&w.status, w.seen.Deployment, w.seen.Pods, 3, "web", out)
		if got := out.StatusIsUrgent(); got != want {
			t.Errorf("%s: the status is urgent: %v, want %v", step, got, want)
		}
	}
	w.reconcile()
	urgent("rolling out", false)
	w.rolls()
	urgent("healthy", true)
	urgent("still healthy", false)
	w.image = "web:bad"
	w.reconcile()
	urgent("rolling out the next one", false)
	w.rolls(crashing)
	urgent("failed", true)
}

func TestReport_SaysWhetherTheRestoredRevisionIsAvailable(t *testing.T) {
	w := rolledBack(t)
	message := func() string {
		d := w.decide()
		return d.Report(&w.status, w.seen.Deployment, w.seen.Pods, 3, "web", converge.Outcome{Now: w.now}).Ready.Message
	}
	const what, todo = "Container web exits with code 1: no such file. ", " Change the spec, or set rollout.restartedAt to try again."
	if got, want := message(), what+"Revision 1 is serving instead."+todo; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	w.rolls(crashing) // because of a failed dependency
	w.seen.Deployment.Status.AvailableReplicas = 0
	w.seen.Deployment.Status.Conditions[0].Status = corev1.ConditionFalse
	if got, want := message(), what+"Revision 1, to which the Deployment was rolled back, is not available. Container web exits with code 1."+todo; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	earlier := w.seen.Revisions[0].DeepCopy()
	earlier.Name, earlier.Revision, earlier.Data.Raw = "web-0", 7, []byte(strings.Replace(string(earlier.Data.Raw), `"revision":1`, `"revision":7`, 1))
	w.seen.Revisions = append(w.seen.Revisions, earlier)
	if got, want := message(), what+"Revision 1, to which the Deployment was rolled back, is not available. Container web exits with code 1. To use revision 7 instead, set rollout.pinnedRevision."+todo; got != want {
		t.Errorf("with another revision: got  %q\nwant %q", got, want)
	}
	w.seen.Revisions = w.seen.Revisions[:2]
	w.seen.Deployment.Status.AvailableReplicas = 1 // a pod of the failed revision
	if got, want := message(), what+"Revision 1, to which the Deployment was rolled back, is not available. Container web exits with code 1."+todo; got != want {
		t.Errorf("with an available pod of revision 2: got  %q\nwant %q", got, want)
	}
	w.replicas = 0
	w.reconcile()
	w.rolls()
	d := w.decide()
	got := d.Report(&w.status, w.seen.Deployment, nil, 0, "web", converge.Outcome{Now: w.now}).Ready.Message
	if want := what + "Revision 1 is used instead." + todo; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestReport_SaysThatAChangedConfigMapCanBeCorrected(t *testing.T) {
	w := rolledBack(t)
	message := func(hash string) string {
		w.seen.Deployment.Annotations[naming.AnnotationSharedRollout] = hash
		d := w.decide()
		return d.Report(&w.status, w.seen.Deployment, w.seen.Pods, 3, "web", converge.Outcome{Now: w.now}).Ready.Message
	}
	asked := w.decide()
	const what = "Container web exits with code 1: no such file. Revision 1 is serving instead. "
	if got, want := message(asked.Desired.Hash()), what+"Correct the ConfigMap or Secret that changed, change the spec, or set rollout.restartedAt to try again."; got != want {
		t.Errorf("a shared rollout: got  %q\nwant %q", got, want)
	}
	if got, want := message("of an earlier revision"), what+"Change the spec, or set rollout.restartedAt to try again."; got != want {
		t.Errorf("a change of the spec: got  %q\nwant %q", got, want)
	}
}

// The Deployment controller applies no deadline to a template that it
// considered rolled out at zero replicas.
func TestReport_AppliesTheDeadlineToThePodsOfAScaleUp(t *testing.T) {
	const deadline = time.Minute
	// scaled returns a world in which revision 2 was rolled out at zero
	// replicas, and then scaled up.
	scaled := func(t *testing.T, image string, fails corev1.ContainerStatus) *world {
		w := serving(t)
		w.replicas = 0
		w.reconcile()
		w.rolls()
		w.image = image
		w.reconcile()
		w.rolls()
		w.reconcile()
		w.replicas = 3
		w.reconcile()
		w.rolls(fails)
		w.seen.Pods[0].CreationTimestamp = metav1.NewTime(w.now)
		d := w.seen.Deployment
		d.Spec.ProgressDeadlineSeconds = new(int32(60))
		d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: 3, UpdatedReplicas: 3, Conditions: []appsv1.DeploymentCondition{
			{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionFalse},
			{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable", LastTransitionTime: metav1.NewTime(w.now.Add(-24 * time.Hour))},
		}}
		w.reconcilingSince(w.now)
		return w
	}
	waits, failed := common.Revisions{Current: 2, LastHealthy: 1}, common.Revisions{Current: 2, LastHealthy: 1, Failed: 2}
	t.Run("a pod that had its time", func(t *testing.T) {
		w := scaled(t, "web:bad", crashingSoon)
		w.now = w.now.Add(deadline - time.Second)
		w.is("it has a second left", "Crash ", waits)
		w.now = w.now.Add(time.Second)
		w.is("it had its time", "Progressing +RolloutFailed", failed)
		w.is("rolled back", "RolledBack +RolloutFailed", common.Revisions{Current: 1, LastHealthy: 1, Failed: 2})
	})
	t.Run("the operator's clock is a day ahead of the nodes'", func(t *testing.T) {
		w := scaled(t, "web:bad", crashingSoon)
		w.seen.Pods[0].CreationTimestamp = metav1.NewTime(w.now.Add(-24 * time.Hour))
		w.is("just scaled up", "Crash ", waits)
		w.now = w.now.Add(deadline)
		w.is("it had its time", "Progressing +RolloutFailed", failed)
	})
	t.Run("the operator's clock is a day behind the nodes'", func(t *testing.T) {
		w := scaled(t, "web:bad", crashingSoon)
		w.seen.Pods[0].CreationTimestamp = metav1.NewTime(w.now.Add(24 * time.Hour))
		w.is("just scaled up", "Crash ", waits)
		w.now = w.now.Add(deadline)
		w.is("it had its time", "Progressing +RolloutFailed", failed)
	})
	t.Run("the conditions are lost", func(t *testing.T) {
		w := scaled(t, "web:bad", crashingSoon)
		w.conditions = nil
		w.is("just scaled up", "Crash ", waits)
		w.now = w.now.Add(deadline)
		w.is("it had its time", "Progressing +RolloutFailed", failed)
	})
	t.Run("no node takes the pods", func(t *testing.T) {
		w := scaled(t, "web:2", corev1.ContainerStatus{Name: "web"})
		w.seen.Pods[0].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse}}
		w.now = w.now.Add(time.Hour)
		w.is("it is not to blame", "Unschedulable ", waits)
	})
	t.Run("admission refuses the pods", func(t *testing.T) {
		w := scaled(t, "web:2", crashingSoon)
		w.seen.Pods = nil
		w.seen.Deployment.Status.Conditions = append(w.seen.Deployment.Status.Conditions, appsv1.DeploymentCondition{
			Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: `admission webhook "images.example" denied the request: the image is not signed`,
		})
		w.is("just scaled up", " +AdmissionRefused", waits)
		w.now = w.now.Add(deadline)
		w.is("it had its time", " +RolloutFailed", failed)
	})
	// All pods were available, and had almost earned the revision its health.
	runs := corev1.ContainerStatus{Name: "web", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	crashedOnce := runs
	crashedOnce.RestartCount, crashedOnce.LastTerminationState = 1, ended(1, "Error", "killed")
	keepsCrashing := crashedOnce
	keepsCrashing.RestartCount = attempts
	wasReady := func(t *testing.T, fails corev1.ContainerStatus) *world {
		w := scaled(t, "web:bad", fails)
		w.conditions = []metav1.Condition{{Type: common.ConditionReady, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(w.now.Add(time.Second))}}
		w.now = w.now.Add(deadline)
		return w
	}
	for name, tc := range map[string]struct {
		status corev1.ContainerStatus
		want   string
	}{
		"a container exits once after all pods were available":     {status: crashedOnce, want: "Crash "},
		"a container exits now after all pods were available":      {status: crashingSoon, want: "Crash "},
		"a probe fails for a moment after all pods were available": {status: runs, want: "NotReady "},
	} {
		t.Run(name, func(t *testing.T) {
			w := wasReady(t, tc.status)
			w.is("at once", tc.want, waits)
			w.reconcilingSince(w.now)
			w.now = w.now.Add(deadline - time.Second)
			w.is("it has a second left", tc.want, waits)
			w.now = w.now.Add(time.Second)
			w.is("it had its time", "Progressing +RolloutFailed", failed)
		})
	}
	t.Run("a container exits repeatedly although all pods were available", func(t *testing.T) {
		w := wasReady(t, keepsCrashing)
		w.is("it had its time", "Progressing +RolloutFailed", failed)
	})
	t.Run("a revision that was healthy", func(t *testing.T) {
		w := scaled(t, "web:1", crashingSoon)
		w.now = w.now.Add(time.Hour)
		w.is("it is no rollout that fails", "Crash ", common.Revisions{Current: 1, LastHealthy: 1})
	})
}

// A missing ConfigMap or Secret does not mean that the revision is bad: the
// kubelet retries until the object exists.
func TestReport_WaitsForMissingReferences(t *testing.T) {
	rollingOut := func(t *testing.T, c corev1.ContainerStatus, volumes ...corev1.Volume) *world {
		w := serving(t)
		w.image = "web:2"
		w.volumes = volumes
		w.reconcile()
		w.rolls(c)
		w.seen.Pods[0].CreationTimestamp = metav1.NewTime(w.now)
		w.seen.Deployment.Spec.ProgressDeadlineSeconds = new(int32(60))
		w.seen.Deployment.Status.Conditions[1].Status = corev1.ConditionTrue
		w.reconcilingSince(w.now)
		return w
	}
	// late exceeds the Deployment's deadline.
	late := func(w *world) {
		w.now = w.now.Add(time.Minute)
		w.seen.Deployment.Status.Conditions[1].Status = corev1.ConditionFalse
		w.seen.Deployment.Status.Conditions[1].LastTransitionTime = metav1.NewTime(w.now)
	}
	message := func(w *world) string {
		s := w.decide()
		state := s.Report(w.status.DeepCopy(), w.seen.Deployment, w.seen.Pods, 3, "web", converge.Outcome{Now: w.now})
		if state.Stalled.Status {
			return state.Stalled.Message
		}
		return state.Ready.Message
	}
	waits := common.Revisions{Current: 2, LastHealthy: 1}
	starts := corev1.ContainerStatus{Name: "web", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	missingKey := corev1.ContainerStatus{Name: "web", State: waitingFor("CreateContainerConfigError", `configmap "late" not found`)}
	creating := corev1.ContainerStatus{Name: "web", State: waitingFor("ContainerCreating", "")}

	t.Run("an environment variable", func(t *testing.T) {
		w := rollingOut(t, missingKey)
		w.is("at once", "Progressing +ReferenceNotFound", waits)
		if got, want := message(w), `Container web cannot be created: configmap "late" not found. Create it, or refer to another one.`; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		w.conditions = []metav1.Condition{{Type: common.ConditionStalled, Status: metav1.ConditionTrue, Reason: common.ReasonReferenceNotFound}}
		late(w)
		w.now = w.now.Add(time.Hour)
		w.is("past the deadline", " +ReferenceNotFound", waits)
		// The object is created, and the container starts.
		w.seen.Pods[0].Status.ContainerStatuses[0] = starts
		w.is("healing", "Progressing ", waits)
		w.now = w.now.Add(time.Second)
		w.reconcilingSince(w.now)
		w.is("it has the whole time from now", "Progressing ", waits)
		w.now = w.now.Add(time.Minute)
		w.is("it had its time", " +RolloutFailed", common.Revisions{Current: 2, LastHealthy: 1, Failed: 2})
	})
	t.Run("its pods are deleted", func(t *testing.T) {
		w := rollingOut(t, missingKey)
		w.conditions = []metav1.Condition{{Type: common.ConditionStalled, Status: metav1.ConditionTrue, Reason: common.ReasonReferenceNotFound}}
		late(w)
		w.is("past the deadline", " +ReferenceNotFound", waits)
		w.now = w.now.Add(time.Hour)
		pods := w.seen.Pods
		w.seen.Pods = nil // the Deployment has not noticed
		w.is("before they are created again", "Progressing ", waits)
		w.reconcilingSince(w.now)
		w.now = w.now.Add(59 * time.Second)
		w.is("for less than the whole time", "Progressing ", waits)
		w.now = w.now.Add(time.Second)
		w.seen.Pods = pods
		w.seen.Pods[0].CreationTimestamp = metav1.NewTime(w.now)
		w.is("created again", " +ReferenceNotFound", waits)
		w.seen.Pods = nil
		w.is("none for the whole time", " +RolloutFailed", common.Revisions{Current: 2, LastHealthy: 1, Failed: 2})
	})
	t.Run("its pods are deleted in the second of the deadline", func(t *testing.T) {
		w := rollingOut(t, missingKey)
		w.conditions = []metav1.Condition{{Type: common.ConditionStalled, Status: metav1.ConditionTrue, Reason: common.ReasonReferenceNotFound}}
		late(w)
		w.seen.Pods = nil
		w.is("before they are created again", "Progressing ", waits)
		w.reconcilingSince(w.now)
		w.is("in the same second", "Progressing ", waits)
		w.now = w.now.Add(time.Minute)
		w.is("none for the whole time", " +RolloutFailed", common.Revisions{Current: 2, LastHealthy: 1, Failed: 2})
	})
	t.Run("a volume", func(t *testing.T) {
		w := rollingOut(t, creating,
			corev1.Volume{Name: "site", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "late"}}},
			corev1.Volume{Name: "opt", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "o", Optional: new(true)}}},
			corev1.Volume{Name: "own", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "web-config-0123456789abcdef"}}}},
			corev1.Volume{Name: "all", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "cm"}}},
			}}}},
		)
		const what = `Container web has not been created. Its pod mounts Secret "late" (volume "site"), ConfigMap "cm" (volume "all"). Create what is missing, or refer to another one. Run kubectl describe on the pods to see which.`
		if got, want := message(w), "The Deployment is waiting for 3 replicas to be updated and available."; got != want {
			t.Errorf("each rollout mounts for a moment: %s", got)
		}
		w.now = w.now.Add(30 * time.Second)
		if got, want := message(w), "The Deployment is waiting for 3 replicas to be updated and available. "+what; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		late(w)
		w.is("past the deadline", " +ReferenceNotFound", waits)
		if got := message(w); got != what {
			t.Errorf("got  %s\nwant %s", got, what)
		}
		w.now = w.now.Add(time.Hour)
		w.seen.Pods[0].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(w.now)}}
		w.seen.Pods[0].Status.ContainerStatuses[0] = starts
		w.is("healing", "Progressing ", waits)
		w.rolls()
		w.conditions = nil
		w.is("healed", "+Serving ", common.Revisions{Current: 2, LastHealthy: 2})
	})
	t.Run("volumes that are mounted are not to blame", func(t *testing.T) {
		w := rollingOut(t, creating, corev1.Volume{Name: "site", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "late"}}})
		w.seen.Pods[0].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(w.now)}}
		late(w)
		w.is("past the deadline", " +RolloutFailed", common.Revisions{Current: 2, LastHealthy: 1, Failed: 2})
		if got, want := w.status.LastActions[0].Message, "Container web has not been created. Run kubectl describe on the pods to see why."; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}

// The pods of every revision have the container that a webhook adds, so a rollback
// would not help.
func TestReport_DoesNotBlameTheRevisionForAnInjectedContainer(t *testing.T) {
	injected := crashing
	injected.Name = "proxy"
	w := serving(t)
	w.image = "web:2"
	w.reconcile()
	w.rolls(injected, corev1.ContainerStatus{Name: "web", Ready: true})
	w.is("past the deadline", " +InjectedContainer", common.Revisions{Current: 2, LastHealthy: 1})
	w.is("again", " +InjectedContainer", common.Revisions{Current: 2, LastHealthy: 1})
	if w.deployed() != "web:2" || len(w.status.LastActions) > 0 {
		t.Errorf("%s serves after %+v", w.deployed(), w.status.LastActions)
	}
	w.rolls()
	w.is("corrected", "+Serving ", common.Revisions{Current: 2, LastHealthy: 2})
}

// A revision is healthy once its pods have been available for a while: one that crashes
// after a few seconds is rolled back although its rollout was complete.
func TestReport_RecordsARevisionAsHealthyAfterAWhile(t *testing.T) {
	first, both := common.Revisions{Current: 2, LastHealthy: 1}, common.Revisions{Current: 2, LastHealthy: 2}
	// updated returns a world in which all pods of revision 2 have just become available.
	updated := func(t *testing.T) *world {
		w := serving(t)
		w.image = "web:2"
		w.reconcile()
		w.rolls()
		w.seen.Pods[0] = readySince(w.now, w.seen.Pods[0])
		w.reconcilingSince(w.now.Add(-time.Minute))
		w.is("available", "+Serving ", first)
		w.conditions = []metav1.Condition{{Type: common.ConditionReady, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(w.now)}}
		return w
	}
	for name, tc := range map[string]struct {
		happens func(*world)
		within  time.Duration
	}{
		"by default":                               {func(*world) {}, time.Minute},
		"with a shorter deadline":                  {func(w *world) { w.seen.Deployment.Spec.ProgressDeadlineSeconds = new(int32(20)) }, 20 * time.Second},
		"after minReadySeconds":                    {func(w *world) { w.seen.Deployment.Spec.MinReadySeconds = 50 }, 10 * time.Second},
		"the clock of the node is a day ahead":     {func(w *world) { w.seen.Pods[0] = readySince(w.now.Add(24*time.Hour), w.seen.Pods[0]) }, time.Minute},
		"the clock of the node is a day behind":    {func(w *world) { w.seen.Pods[0] = readySince(w.now.Add(-24*time.Hour), w.seen.Pods[0]) }, time.Minute},
		"something else prevents that it is Ready": {func(w *world) { w.conditions = nil }, time.Minute},
		"a pod was added": {func(w *world) {
			w.seen.Pods = append(w.seen.Pods, readySince(w.now.Add(50*time.Second), w.seen.Pods[0]))
		}, time.Minute},
		"a container was restarted, unseen": {func(w *world) {
			w.seen.Pods[0].Status.ContainerStatuses[0].State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(w.now.Add(30 * time.Second))}
		}, 90 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			w := updated(t)
			tc.happens(w)
			w.now = w.now.Add(tc.within - time.Second)
			w.is("a second earlier", "+Serving ", first)
			w.now = w.now.Add(time.Second)
			w.is("after that", "+Serving ", both)
		})
	}
	t.Run("it crashes", func(t *testing.T) {
		w := updated(t)
		deployed := w.seen.Deployment.DeepCopy()
		w.rolls(crashingSoon)
		w.seen.Deployment.Status.Conditions = deployed.Status.Conditions // the rollout has been complete
		w.seen.Pods[0].CreationTimestamp = metav1.NewTime(w.now)
		w.is("once", "Crash ", first)
		w.seen.Pods[0].Status.ContainerStatuses[0] = crashing
		w.is("again and again", "Progressing +RolloutFailed", common.Revisions{Current: 2, LastHealthy: 1, Failed: 2})
		w.rolls() // all pods run for a moment
		w.seen.Pods[0] = readySince(w.now, w.seen.Pods[0])
		w.is("rolled back", "RolledBack +RolloutFailed", common.Revisions{Current: 1, LastHealthy: 1, Failed: 2})
		if w.deployed() != "web:1" {
			t.Errorf("%s serves", w.deployed())
		}
	})
}
