package demoapplication

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

// migrating is the sample with a command before its rollouts.
func migrating(change ...func(*demoapplicationv1.DemoApplication)) *demoapplicationv1.DemoApplication {
	a := sample()
	a.Spec.Rollout = &demoapplicationv1.Rollout{Before: &common.Before{Entrypoint: common.Entrypoint{Command: []string{"migrate"}}}}
	for _, c := range change {
		c(a)
	}
	return a
}

// jobOf returns the Job of an object as it is created.
func jobOf(t *testing.T, a *demoapplicationv1.DemoApplication, conditions ...batchv1.JobCondition) *batchv1.Job {
	t.Helper()
	a = a.DeepCopy()
	a.Status = demoapplicationv1.DemoApplicationStatus{}
	if a.Spec.Rollout.Before == nil {
		t.Fatal("no command")
	}
	for _, in := range planned(t, a, Observed{Offline: true}).Apply {
		if in.Kind == "Job" {
			return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: in.Name, Namespace: a.Namespace}, Status: batchv1.JobStatus{Conditions: conditions}}
		}
	}
	t.Fatal("no Job")
	return nil
}

func podOfJob(job *batchv1.Job, phase corev1.PodPhase, status corev1.ContainerStatus) corev1.Pod {
	status.Name = "nginx-demo"
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: job.Name + "-x", Labels: map[string]string{batchv1.JobNameLabel: job.Name}},
		Status:     corev1.PodStatus{Phase: phase, ContainerStatuses: []corev1.ContainerStatus{status}},
	}
}

// storedOf returns the ControllerRevision of an object as it is created, and the
// Deployment that has its template.
func storedOf(t *testing.T, a *demoapplicationv1.DemoApplication) (*appsv1.ControllerRevision, *appsv1.Deployment) {
	t.Helper()
	r, d := &appsv1.ControllerRevision{}, &appsv1.Deployment{}
	for _, in := range planned(t, a, Observed{Offline: true}).Apply {
		raw, err := in.Object(a, ownerKind)
		if err != nil {
			t.Fatal(err)
		}
		switch in.Kind {
		case "ControllerRevision":
			into(t, string(raw), r)
		case "Deployment":
			into(t, string(raw), d)
		}
	}
	return r, d
}

func TestBefore(t *testing.T) {
	image := func(name common.Image) func(*demoapplicationv1.DemoApplication) {
		return func(a *demoapplicationv1.DemoApplication) { a.Spec.Image = name }
	}
	first, second := migrating(), migrating(image("nginx:2"))
	old, served := storedOf(t, first)
	complete := batchv1.JobCondition{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}
	failed := batchv1.JobCondition{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: batchv1.JobReasonBackoffLimitExceeded}
	late := batchv1.JobCondition{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: batchv1.JobReasonDeadlineExceeded}
	ending := batchv1.JobCondition{Type: batchv1.JobFailureTarget, Status: corev1.ConditionTrue, Reason: batchv1.JobReasonDeadlineExceeded}
	third := jobOf(t, migrating(image("nginx:3")))
	job := jobOf(t, second)
	exit := corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3, Reason: "Error", Message: "table exists\n"}}}
	pull := corev1.ContainerStatus{Image: "nginx:2", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}}
	running := corev1.ContainerStatus{Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	failing := decided(second).Desired.Name()
	isFailed := func(a *demoapplicationv1.DemoApplication) {
		a.Status.Revisions.FailedBefore = failing
		a.Status.LastActions = []common.Action{{Type: common.ActionHalt, Reason: "BeforeFailed", Message: "The command before the rollout failed (exit code 4).", Revision: 2}}
	}
	both := func(r *appsv1.ControllerRevision) []*appsv1.ControllerRevision {
		return []*appsv1.ControllerRevision{old, r}
	}
	again, _ := storedOf(t, second)
	again.Revision = 2

	const runs, waits = "BeforeRollout", "Running the command before the rollout, in Job \"%\"."
	const noPod = "Job \"%\", which runs the command before the rollout, has no pod yet. If that lasts, see kubectl describe job %."
	const unchanged = " The Deployment was not changed. Change the spec, or set rollout.restartedAt to run the command again."
	held := []string{"Deployment", "Service", "PodDisruptionBudget"}
	for name, tc := range map[string]struct {
		spec    func(*demoapplicationv1.DemoApplication)
		jobs    []*batchv1.Job
		pods    []corev1.Pod
		stored  []*appsv1.ControllerRevision
		fresh   bool // nothing exists
		applied []string
		pruned  int
		// image is the one of the Deployment.
		image           string
		reason, message string
		failed          bool
	}{
		"the first revision": {
			fresh: true, applied: []string{"Job", "Service", "PodDisruptionBudget"}, reason: runs, message: noPod,
		},
		"a new revision": {applied: append([]string{"Job"}, held...), image: "nginx:latest", reason: runs, message: noPod},
		"it runs":        {jobs: []*batchv1.Job{job}, pods: []corev1.Pod{podOfJob(job, corev1.PodRunning, running)}, applied: held, image: "nginx:latest", reason: runs, message: waits},
		"it cannot start": {
			jobs: []*batchv1.Job{job}, pods: []corev1.Pod{podOfJob(job, corev1.PodPending, pull)}, applied: held, image: "nginx:latest",
			reason: "ImagePull", message: waits + " The image nginx:2 cannot be pulled.",
		},
		"it succeeded": {jobs: []*batchv1.Job{jobOf(t, second, complete)}, applied: append([]string{"ControllerRevision"}, held...), image: "nginx:2"},
		"it failed": {
			jobs: []*batchv1.Job{jobOf(t, second, failed)}, pods: []corev1.Pod{podOfJob(job, corev1.PodFailed, exit)}, applied: held, image: "nginx:latest",
			reason: "RolloutFailed", message: "The command before the rollout failed (exit code 3): table exists." + unchanged, failed: true,
		},
		"it took too long": {
			jobs: []*batchv1.Job{jobOf(t, second, late)}, applied: held, image: "nginx:latest",
			reason: "RolloutFailed", message: "The command before the rollout failed (DeadlineExceeded)." + unchanged, failed: true,
		},
		"it is being ended": {
			jobs: []*batchv1.Job{jobOf(t, second, ending)}, pods: []corev1.Pod{podOfJob(job, corev1.PodRunning, running)}, applied: held, image: "nginx:latest",
			reason: runs, message: waits,
		},
		"it was ended": {
			jobs: []*batchv1.Job{jobOf(t, second, ending)}, pods: []corev1.Pod{podOfJob(job, corev1.PodFailed, exit)}, applied: held, image: "nginx:latest",
			reason: "RolloutFailed", message: "The command before the rollout failed (DeadlineExceeded): table exists." + unchanged, failed: true,
		},
		"the Job that failed was deleted": {
			spec: isFailed, applied: held, image: "nginx:latest",
			reason: "RolloutFailed", message: "The command before the rollout failed (exit code 4)." + unchanged, failed: true,
		},
		"an earlier one runs": {
			jobs: []*batchv1.Job{third}, pods: []corev1.Pod{podOfJob(third, corev1.PodRunning, running)}, applied: held, image: "nginx:latest",
			reason: runs, message: "The command before the rollout waits until that of an earlier change has ended.",
		},
		"an earlier one has not started": {
			jobs: []*batchv1.Job{third}, pods: []corev1.Pod{podOfJob(third, corev1.PodPending, pull)}, applied: held, pruned: 1, image: "nginx:latest",
			reason: runs, message: "The command before the rollout waits until that of an earlier change has ended.",
		},
		"the Job of an earlier one was deleted while it ran": {
			pods: []corev1.Pod{podOfJob(third, corev1.PodRunning, running)}, applied: held, image: "nginx:latest",
			reason: runs, message: "The command before the rollout waits until that of an earlier change has ended.",
		},
		"an earlier one has ended": {
			jobs:    []*batchv1.Job{jobOf(t, migrating(image("nginx:3")), failed)},
			applied: append([]string{"Job"}, held...), pruned: 1, image: "nginx:latest", reason: runs, message: noPod,
		},
		"back to what was rolled out": {stored: both(again), applied: append([]string{"ControllerRevision"}, held...), image: "nginx:2"},
		"back to what serves": {
			spec: image("nginx:latest"), jobs: []*batchv1.Job{jobOf(t, second, failed)}, applied: held, pruned: 1, image: "nginx:latest",
		},
		"another command for what serves": {
			spec: func(a *demoapplicationv1.DemoApplication) {
				a.Spec.Image, a.Spec.Rollout.Before.Command = "nginx:latest", []string{"migrate", "again"}
			},
			applied: append([]string{"ControllerRevision"}, held...), image: "nginx:latest",
		},
		"a pinned revision": {
			spec:    func(a *demoapplicationv1.DemoApplication) { a.Spec.Rollout.PinnedRevision = new(int64(1)) },
			applied: held, image: "nginx:latest",
		},
		"no command any more": {
			spec: func(a *demoapplicationv1.DemoApplication) { a.Spec.Rollout = nil }, jobs: []*batchv1.Job{jobOf(t, second, failed)},
			applied: append([]string{"ControllerRevision"}, held...), pruned: 1, image: "nginx:2",
		},
		"an object that is being deleted": {
			spec:    func(a *demoapplicationv1.DemoApplication) { a.DeletionTimestamp = new(metav1.Now()) },
			applied: held, image: "nginx:latest",
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := second.DeepCopy()
			o := Observed{Jobs: tc.jobs}
			o.JobPods = tc.pods
			if !tc.fresh {
				o.Deployment, o.Revisions = served.DeepCopy(), []*appsv1.ControllerRevision{old}
				if tc.stored != nil {
					o.Revisions = tc.stored
				}
				a.Status.Revisions = &common.Revisions{
					Current: 1, CurrentName: old.Name, CurrentTemplate: served.Spec.Template.Annotations[naming.AnnotationTemplate],
					LastHealthy: 1, LastHealthyName: old.Name,
				}
			}
			if tc.spec != nil {
				tc.spec(a)
			}
			plan, err := desired(a, o, platform)
			var kinds []string
			image := ""
			for _, in := range plan.Apply {
				switch in.Kind {
				case "ControllerRevision":
					if in.Name != old.Name { // the revision that serves is always restored
						kinds = append(kinds, in.Kind)
					}
					continue
				case "Deployment":
					image = imageOf(t, a, in)
				}
				kinds = append(kinds, in.Kind)
			}
			if diff := cmp.Diff(tc.applied, kinds); diff != "" {
				t.Errorf("applied (-want +got):\n%s", diff)
			}
			if len(plan.Prune) != tc.pruned {
				t.Errorf("pruned are %v", plan.Prune)
			}
			if image != tc.image {
				t.Errorf("the image is %q, want %q", image, tc.image)
			}
			if v := fault.Classify(err); tc.spec == nil || a.DeletionTimestamp == nil {
				if want := strings.ReplaceAll(tc.message, "%", jobOf(t, second).Name); v.Message != want || v.Message != "" && v.Reason != tc.reason {
					t.Errorf("reported is %s: %q\nwant        %s: %q", v.Reason, v.Message, tc.reason, want)
				}
			}
			report(a, o, outcome(err, o.Deployment, nil), platform)
			want := ""
			if tc.failed {
				want = failing
			}
			if a.Status.Revisions != nil && a.Status.Revisions.FailedBefore != want {
				t.Errorf("recorded is %+v, want %q", a.Status.Revisions, want)
			}
			if tc.failed && (len(a.Status.LastActions) != 1 || a.Status.LastActions[0].Type != common.ActionHalt) {
				t.Errorf("actions %+v", a.Status.LastActions)
			}
		})
	}
}

func imageOf(t *testing.T, a *demoapplicationv1.DemoApplication, deployment apply.Intent) string {
	t.Helper()
	raw, err := deployment.Object(a, ownerKind)
	if err != nil {
		t.Fatal(err)
	}
	return into(t, string(raw), &appsv1.Deployment{}).Spec.Template.Spec.Containers[0].Image
}
