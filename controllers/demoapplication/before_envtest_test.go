//go:build envtest

package demoapplication

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/apis/common"
	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
	"github.com/platform-operator/platform-operator/pkg/testkit"
	"github.com/platform-operator/platform-operator/pkg/testkit/crash"
)

func before(command ...string) func(*demoapplicationv1.DemoApplication) {
	return func(a *demoapplicationv1.DemoApplication) {
		a.Spec.Rollout = &demoapplicationv1.Rollout{Before: &common.Before{Entrypoint: common.Entrypoint{Command: command}}}
	}
}

// end ends a Job as its controller does.
func end(ctx context.Context, c client.Client, job *batchv1.Job, how batchv1.JobConditionType) error {
	now := metav1.Now()
	job.Status.StartTime = &now
	condition := func(t batchv1.JobConditionType) {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{
			Type: t, Status: corev1.ConditionTrue, Reason: batchv1.JobReasonBackoffLimitExceeded, LastTransitionTime: now, LastProbeTime: now,
		})
	}
	if how == batchv1.JobComplete {
		job.Status.CompletionTime, job.Status.Succeeded = &now, 1
		condition(batchv1.JobSuccessCriteriaMet)
	} else {
		condition(batchv1.JobFailureTarget)
	}
	condition(how)
	return c.Status().Update(ctx, job)
}

// jobs returns the Jobs in a namespace that have not ended, and the number of all.
func jobs(ctx context.Context, c client.Client, namespace string) (running []*batchv1.Job, all int, err error) {
	var list batchv1.JobList
	err = c.List(ctx, &list, client.InNamespace(namespace))
	for i := range list.Items {
		if len(list.Items[i].Status.Conditions) == 0 {
			running = append(running, &list.Items[i])
		}
	}
	return running, len(list.Items), err
}

// commands observes the Jobs of a sandbox.
type commands struct{ *testkit.Sandbox }

// ends waits for a Job that runs, and ends it.
func (l commands) ends(t *testing.T, how batchv1.JobConditionType) *batchv1.Job {
	t.Helper()
	var job *batchv1.Job
	l.Eventually("a Job that runs", func(ctx context.Context) (bool, error) {
		running, _, err := jobs(ctx, env.Admin, l.Namespace)
		if len(running) != 1 {
			return false, err
		}
		job = running[0]
		return true, end(ctx, env.Admin, job.DeepCopy(), how)
	})
	return job
}

// waits returns when the object reports that the command runs.
func (l commands) waits(a *demoapplicationv1.DemoApplication) {
	l.Until("the command to run", a, "web", func() bool {
		c := metaCondition(a, common.ConditionReady)
		return c != nil && c.Reason == common.ReasonBeforeRollout && c.ObservedGeneration == a.Generation
	})
}

func metaCondition(a *demoapplicationv1.DemoApplication, of string) *metav1.Condition {
	i := slices.IndexFunc(a.Status.Conditions, func(c metav1.Condition) bool { return c.Type == of })
	if i < 0 {
		return nil
	}
	return &a.Status.Conditions[i]
}

func (l commands) image(t *testing.T, want string) *appsv1.Deployment {
	t.Helper()
	d := &appsv1.Deployment{}
	l.Get(d, "web")
	if got := d.Spec.Template.Spec.Containers[0].Image; got != want {
		t.Errorf("the Deployment has image %s, want %s", got, want)
	}
	return d
}

// created returns how many Jobs were created since the last call.
func (l commands) created() int {
	n := 0
	for _, r := range l.Requests() {
		if r.Resource == "jobs" && r.Code == 201 {
			n++
		}
	}
	return n
}

func TestBefore_DecidesAboutTheRollout(t *testing.T) {
	t.Parallel()
	l := commands{env.NewSandbox(t, subject()).Start()}
	a, d := application(l.Namespace, "web", before("migrate")), &appsv1.Deployment{}
	a.Spec.NetworkPolicy = &common.NetworkPolicy{Preset: common.NetworkPolicyIsolated}
	l.Create(a)
	l.waits(a)
	if err := env.Admin.Get(t.Context(), client.ObjectKeyFromObject(a), d); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("the Deployment exists before the command has succeeded: %v", err)
	}
	l.ends(t, batchv1.JobComplete)
	l.Ready(a, "web")
	p := &networkingv1.NetworkPolicy{}
	if l.Get(p, "web"); len(p.Spec.PodSelector.MatchLabels) != 1 {
		t.Errorf("the NetworkPolicy selects %v", p.Spec.PodSelector.MatchLabels)
	}
	if n := l.created(); n != 1 {
		t.Errorf("%d Jobs were created for the first revision", n)
	}

	// Scaling and repairs continue while the command runs.
	l.Edit(a, "web", func() { a.Spec.Image = "nginx:1.23.2" })
	l.waits(a)
	l.Edit(a, "web", func() { a.Spec.Replica = new(int32(3)) })
	l.Until("3 replicas", d, "web", func() bool { return *d.Spec.Replicas == 3 })
	l.Edit(d, "web", func() { d.Spec.MinReadySeconds = 7 })
	l.Until("the repair", d, "web", func() bool { return d.Spec.MinReadySeconds == 0 })
	l.Restart()
	l.image(t, "nginx:1.23.1")

	// A failure changes nothing, and is remembered without the Job.
	failed := l.ends(t, batchv1.JobFailed)
	if m := l.Stalled(a, "web", common.ReasonRolloutFailed); !strings.HasPrefix(m, "The command before the rollout failed (BackoffLimitExceeded).") {
		t.Errorf("message %q", m)
	}
	l.image(t, "nginx:1.23.1")
	if n := l.created(); n != 1 {
		t.Errorf("%d Jobs were created for the second revision", n)
	}
	if err := env.Admin.Delete(t.Context(), failed, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		t.Fatal(err)
	}
	l.Restart()
	l.Edit(a, "web", func() { a.Spec.Replica = new(int32(2)) })
	l.Until("2 replicas", d, "web", func() bool { return *d.Spec.Replicas == 2 })
	l.Stalled(a, "web", common.ReasonRolloutFailed)
	if n := l.created(); n != 0 || len(a.Status.LastActions) != 1 || a.Status.LastActions[0].Reason != "BeforeFailed" {
		t.Errorf("%d Jobs were created after the failure, and the actions are %+v", n, a.Status.LastActions)
	}

	// Another attempt.
	l.Edit(a, "web", func() { a.Spec.Rollout.RestartedAt = new(metav1.NewTime(time.Unix(1_800_000_000, 0))) })
	l.ends(t, batchv1.JobComplete)
	l.Ready(a, "web")
	l.image(t, "nginx:1.23.2")
	if a.Status.Revisions.FailedBefore != "" || a.Status.Revisions.Current != 3 {
		t.Errorf("revisions %+v", a.Status.Revisions)
	}
	l.created()

	// Neither an earlier revision nor a pinned one runs its command.
	l.Edit(a, "web", func() { a.Spec.Image, a.Spec.Rollout.RestartedAt = "nginx:1.23.1", nil })
	l.Ready(a, "web")
	l.image(t, "nginx:1.23.1")
	l.Edit(a, "web", func() { a.Spec.Image, a.Spec.Rollout.PinnedRevision = "nginx:1.23.3", new(int64(3)) })
	l.Until("the pinned revision", a, "web", func() bool { return a.Status.Revisions.Current == 3 })
	l.Ready(a, "web")
	if n := l.created(); n != 0 {
		t.Errorf("%d Jobs were created for revisions that were rolled out before", n)
	}
	l.Edit(a, "web", func() { a.Spec.Paused, a.Spec.Rollout.PinnedRevision = true, nil })
	l.Until("that it is paused", a, "web", func() bool {
		c := metaCondition(a, common.ConditionReady)
		return c != nil && c.ObservedGeneration == a.Generation && c.Reason != common.ReasonServing
	})
	if n := l.created(); n != 0 {
		t.Errorf("%d Jobs were created while the object was paused", n)
	}
	l.Edit(a, "web", func() { a.Spec.Paused = false })
	l.ends(t, batchv1.JobComplete)
	l.Ready(a, "web")
	l.image(t, "nginx:1.23.3")
	if _, all, err := jobs(t.Context(), env.Admin, l.Namespace); all != 1 || err != nil {
		t.Errorf("%d Jobs are kept: %v", all, err)
	}
}

func TestBefore_FailedRolloutsAreRolledBackWithoutIt(t *testing.T) {
	t.Parallel()
	l := commands{env.NewSandbox(t, subject()).Start()}
	a := application(l.Namespace, "web", before("migrate"))
	l.Create(a)
	l.ends(t, batchv1.JobComplete)
	l.Ready(a, "web")
	l.Edit(a, "web", func() { a.Spec.Image = "nginx:bad" })
	l.ends(t, batchv1.JobComplete)
	l.Stalled(a, "web", common.ReasonRolloutFailed)
	l.Until("that it is rolled back", a, "web", func() bool {
		c := metaCondition(a, common.ConditionReady)
		return c != nil && c.Reason == common.ReasonRolledBack
	})
	l.image(t, "nginx:1.23.1")
	if n := l.created(); n != 2 {
		t.Errorf("%d Jobs were created for two revisions and a rollback", n)
	}
}

// The command of an earlier change is not ended while it runs.
func TestBefore_OneCommandAtATime(t *testing.T) {
	t.Parallel()
	l := commands{env.NewSandbox(t, subject()).Start()}
	a := application(l.Namespace, "web", before("migrate"))
	l.Create(a)
	l.waits(a)
	running, _, err := jobs(t.Context(), env.Admin, l.Namespace)
	if err != nil || len(running) != 1 {
		t.Fatalf("%v, %v", running, err)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: "migration", Labels: running[0].Spec.Template.Labels},
		Spec:       running[0].Spec.Template.Spec,
	}
	pod.Labels[batchv1.JobNameLabel] = running[0].Name
	l.Create(pod)
	becomes := func(phase corev1.PodPhase) {
		l.Eventually("the pod of the first command to be "+string(phase), func(ctx context.Context) (bool, error) {
			if err := env.Admin.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
				return false, err
			}
			pod.Status.Phase = phase
			return env.Admin.Status().Update(ctx, pod) == nil, nil
		})
	}
	becomes(corev1.PodRunning)
	l.Edit(a, "web", func() { a.Spec.Image = "nginx:1.23.2" })
	l.waits(a)
	l.Settle()
	if all, n, err := jobs(t.Context(), env.Admin, l.Namespace); n != 1 || len(all) != 1 || all[0].Name != running[0].Name {
		t.Errorf("the Jobs are %v: %v", all, err)
	}
	becomes(corev1.PodSucceeded)
	l.ends(t, batchv1.JobComplete)
	second := l.ends(t, batchv1.JobComplete)
	l.Ready(a, "web")
	if d := l.image(t, "nginx:1.23.2"); second.Spec.Template.Spec.Containers[0].Image != "nginx:1.23.2" {
		t.Errorf("the second Job has image %s, the Deployment %v", second.Spec.Template.Spec.Containers[0].Image, d.Name)
	}
}

// The pod of the command mounts the same snapshots as the pods that follow.
func TestBefore_HasTheSnapshotsOfTheRevision(t *testing.T) {
	t.Parallel()
	l := commands{env.NewSandbox(t, subject()).Start()}
	source := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: "app"}, Data: map[string]string{"mode": "one"}}
	l.Create(source)
	a := configured(l.Namespace)
	a.Spec.Rollout.Before = &common.Before{Entrypoint: common.Entrypoint{Args: []string{"migrate"}}}
	l.Create(a)
	for _, mode := range []string{"one", "two"} {
		l.Edit(source, "app", func() { source.Data["mode"] = mode })
		job, c := l.ends(t, batchv1.JobComplete), &corev1.ConfigMap{}
		if l.Get(c, job.Spec.Template.Spec.Containers[0].EnvFrom[0].ConfigMapRef.Name); c.Data["mode"] != mode || c.Name == "app" {
			t.Errorf("the command gets %v of %s", c.Data, c.Name)
		}
		l.Until("the rollout", a, "web", func() bool {
			return a.Status.Revisions != nil && a.Status.Revisions.Current == map[string]int64{"one": 1, "two": 2}[mode]
		})
		l.Ready(a, "web")
	}
}

// TestCrash_BeforeARollout kills the operator at each write of a rollout with a command
// before it. The campaign compares what was created with a run without crashes, in which
// there is one Job for each revision.
func TestCrash_BeforeARollout(t *testing.T) {
	t.Parallel()
	s := crash.Kind{KindUnderTest: specimenOf(func(ns, name string, _ ...func(*demoapplicationv1.DemoApplication)) *demoapplicationv1.DemoApplication {
		return application(ns, name, before("migrate"))
	})}
	// ending ends the Jobs of an image.
	ending := func(ctx context.Context, w crash.World, how func(*batchv1.Job) batchv1.JobConditionType) error {
		running, _, err := jobs(ctx, w.Client, w.Namespace)
		for _, j := range running {
			err = errors.Join(err, client.IgnoreNotFound(end(ctx, w.Client, j, how(j))))
		}
		return err
	}
	succeed := func(*batchv1.Job) batchv1.JobConditionType { return batchv1.JobComplete }
	fail := func(j *batchv1.Job) batchv1.JobConditionType {
		if j.Spec.Template.Spec.Containers[0].Image == "nginx:1.23.2" {
			return batchv1.JobFailed
		}
		return batchv1.JobComplete
	}
	prepare := func(ctx context.Context, w crash.World) error {
		return errors.Join(w.Create(ctx, s.New(w.Namespace, "web")), testkit.Eventually(ctx, "the object to be Ready", func(ctx context.Context) (bool, error) {
			if err := ending(ctx, w, succeed); err != nil {
				return false, err
			}
			return s.Ready(ctx, w)
		}))
	}
	edit := func(ctx context.Context, w crash.World) error {
		a := &demoapplicationv1.DemoApplication{}
		return w.Edit(ctx, "web", a, func() { a.Spec.Image = "nginx:1.23.2" })
	}
	scenario := func(name string, how func(*batchv1.Job) batchv1.JobConditionType, converged func(context.Context, crash.World) (bool, error)) crash.Scenario {
		return crash.Scenario{Name: name, Prepare: prepare, Act: edit, Converged: func(ctx context.Context, w crash.World) (bool, error) {
			if err := ending(ctx, w, how); err != nil {
				return false, err
			}
			return converged(ctx, w)
		}}
	}
	crash.Campaign{
		Env: env, Subject: s.Subject, Parents: []client.Object{s.New("", "web")},
		Serves: func(ctx context.Context, r client.Reader, parent client.Object) error {
			if a := parent.(*demoapplicationv1.DemoApplication); a.Status.Revisions != nil && a.Status.Revisions.FailedBefore != "" {
				return nil // what serves is not what the spec asks for
			}
			return s.Serves(ctx, r, parent)
		},
		Scenarios: []crash.Scenario{
			scenario("command-succeeds", succeed, func(ctx context.Context, w crash.World) (bool, error) {
				a := &demoapplicationv1.DemoApplication{}
				if err := w.Get(ctx, "web", a); err != nil || a.Status.Revisions == nil || a.Status.Revisions.LastHealthy != 2 {
					return false, err
				}
				return s.Ready(ctx, w)
			}),
			scenario("command-fails", fail, func(ctx context.Context, w crash.World) (bool, error) {
				a, d := &demoapplicationv1.DemoApplication{}, &appsv1.Deployment{}
				if err := errors.Join(w.Get(ctx, "web", a), w.Get(ctx, "web", d)); err != nil {
					return false, err
				}
				if image := d.Spec.Template.Spec.Containers[0].Image; image != "nginx:1.23.1" {
					return false, errors.New("the Deployment has image " + image)
				}
				c := metaCondition(a, common.ConditionStalled)
				return a.Status.Revisions.FailedBefore != "" && len(a.Status.LastActions) == 1 && c != nil, nil
			}),
		},
	}.Test(t)
}
