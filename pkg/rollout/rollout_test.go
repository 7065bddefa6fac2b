package rollout

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

// world is an object whose only input is an image, and its cluster.
type world struct {
	t       *testing.T
	image   string
	env     string // set by a newer version of the operator
	rollout common.Rollout
	status  common.RolloutStatus
	seen    Observed
	now     time.Time
	// volumes are those of the Deployment.
	volumes []corev1.Volume
	// conditions are recorded by tests that depend on the times of pods.
	conditions []metav1.Condition
	// replicas is the desired number.
	replicas int32
}

func newWorld(t *testing.T) *world {
	return &world{t: t, image: "web:1", replicas: 3, now: time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)}
}

// serving returns a world in which the first revision serves, and is recorded
// as healthy.
func serving(t *testing.T) *world {
	w := newWorld(t)
	w.reconcile()
	w.rolls()
	w.reconcile()
	return w
}

func (w *world) question() Input {
	c := corev1ac.Container().WithName("web").WithImage(w.image)
	if w.env != "" {
		c.WithEnv(corev1ac.EnvVar().WithName("ADDED").WithValue(w.env))
	}
	template := corev1ac.PodTemplateSpec().WithLabels(map[string]string{"app": "web"}).WithSpec(corev1ac.PodSpec().WithContainers(c))
	return Input{
		Kind: "Web", Namespace: "ns", Name: "web", Labels: map[string]string{"app": "web"},
		Inputs: []any{w.image, w.rollout.Inputs()}, Template: Restarted(template, &w.rollout),
		Rollout: &w.rollout, Status: w.status, Conditions: w.conditions, Now: w.now, Idle: w.replicas == 0,
	}
}

func (w *world) decide() Decision {
	w.t.Helper()
	d, err := Decide(w.question(), w.seen)
	if err != nil {
		w.t.Fatal(err)
	}
	return d
}

// reconcile reconciles in a cluster in which pods with an image named bad never
// become ready. It returns the conditions as "Available Ready Stalled".
func (w *world) reconcile() string {
	w.t.Helper()
	return w.follow(w.decide())
}

// follow applies a decision and reports.
func (w *world) follow(d Decision) string {
	w.t.Helper()
	for _, in := range []*apply.Intent{d.Restore, &d.Keep} {
		if in != nil && in.Name != "" && w.indexOf(in.Name) < 0 {
			w.seen.Revisions = append(w.seen.Revisions, stored(w.t, *in))
		}
	}
	for _, p := range d.Prune {
		i := w.indexOf(p.GetName())
		w.seen.Revisions = append(w.seen.Revisions[:i:i], w.seen.Revisions[i+1:]...)
	}
	if w.seen.Deployment == nil {
		w.seen.Deployment = &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: new(int32(0))}}
	}
	dep := w.seen.Deployment
	marked := &appsv1.Deployment{}
	w.decodeIntent(d.Mark(apply.New(appsv1ac.Deployment("web", "ns"), func() *appsv1.Deployment { return &appsv1.Deployment{} })), marked)
	raw, err := json.Marshal(d.Template)
	if err != nil {
		w.t.Fatal(err)
	}
	before := dep.Spec.Template.Annotations[naming.AnnotationTemplate]
	dep.Spec.Template = corev1.PodTemplateSpec{}
	if err := json.Unmarshal(raw, &dep.Spec.Template); err != nil {
		w.t.Fatal(err)
	}
	changed := dep.Spec.Template.Annotations[naming.AnnotationTemplate] != before || *dep.Spec.Replicas != w.replicas
	if changed {
		dep.Generation++
	}
	for _, key := range []string{naming.AnnotationFailedRevision, naming.AnnotationCanary} {
		changed = changed || dep.Annotations[key] != marked.Annotations[key]
	}
	if changed {
		dep.Annotations = marked.Annotations // a difference of the record alone is not written
	}
	dep.Spec.Replicas = new(w.replicas)
	dep.Spec.Template.Spec.Volumes = w.volumes
	s := d.Report(&w.status, dep, w.seen.Pods, w.replicas, "web", converge.Outcome{Now: w.now})
	brief := func(holds bool, reason string) string {
		if holds {
			return "+" + reason
		}
		return reason
	}
	return strings.Join([]string{brief(s.Ready.Status, s.Ready.Reason), brief(s.Stalled.Status, s.Stalled.Reason)}, " ")
}

func (w *world) indexOf(name string) int {
	for i, r := range w.seen.Revisions {
		if r.Name == name {
			return i
		}
	}
	return -1
}

// stored returns a revision as stored by the API server.
func stored(t *testing.T, in apply.Intent) *appsv1.ControllerRevision {
	t.Helper()
	r := &appsv1.ControllerRevision{}
	(&world{t: t}).decodeIntent(in, r)
	return r
}

func (w *world) decodeIntent(in apply.Intent, into any) {
	w.t.Helper()
	raw, err := in.Object(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "u"}}, metav1.GroupVersionKind{Kind: "Web"})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		w.t.Fatal(err)
	}
}

// deployed returns the image in the Deployment's template.
func (w *world) deployed() string { return w.seen.Deployment.Spec.Template.Spec.Containers[0].Image }

// rolls simulates the cluster: the pods of the Deployment's template become
// available, or fail, and then the rollout exceeds its deadline.
func (w *world) rolls(fails ...corev1.ContainerStatus) {
	d := w.seen.Deployment
	n := *d.Spec.Replicas
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n}
	if n == 0 {
		w.seen.Pods = nil
		d.Status.Conditions = []appsv1.DeploymentCondition{
			{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue},
			{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable"},
		}
		return
	}
	progressing := corev1.ConditionTrue
	hash := d.Spec.Template.Annotations[naming.AnnotationTemplate]
	w.seen.Pods = []corev1.Pod{readySince(w.now.Add(-HealthyAfter), pod(hash, corev1.ContainerStatus{Name: "web", Ready: true, ImageID: "sha256:" + d.Spec.Template.Spec.Containers[0].Image}))}
	if len(fails) > 0 {
		d.Status.Replicas, d.Status.UpdatedReplicas = 4, 1
		progressing = corev1.ConditionFalse
		w.seen.Pods = []corev1.Pod{pod(hash, fails...)}
	}
	d.Status.Conditions = []appsv1.DeploymentCondition{
		{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue},
		{Type: appsv1.DeploymentProgressing, Status: progressing},
	}
}

func pod(hash string, containers ...corev1.ContainerStatus) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{naming.AnnotationTemplate: hash}},
		Status:     corev1.PodStatus{ContainerStatuses: containers},
	}
}

func readySince(at time.Time, p corev1.Pod) corev1.Pod {
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(at)}}
	return p
}

// crashingSoon is a container that has failed too rarely for a verdict before the deadline.
var crashingSoon = func() corev1.ContainerStatus {
	c := crashing
	c.RestartCount = attempts - 2
	return c
}()

var crashing = corev1.ContainerStatus{
	Name: "web", RestartCount: 4,
	State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
	LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: "no such file\n"}},
}

// reconcilingSince sets the condition that the object waits for its pods.
func (w *world) reconcilingSince(at time.Time) {
	w.conditions = []metav1.Condition{{Type: common.ConditionReconciling, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(at)}}
}

// numbersOnly removes the names and the hash from Revisions.
var numbersOnly = cmpopts.IgnoreFields(common.Revisions{}, "CurrentName", "CurrentTemplate", "LastHealthyName", "FailedName")

func (w *world) is(what, conditions string, revisions common.Revisions) {
	w.t.Helper()
	if got := w.reconcile(); got != conditions {
		w.t.Errorf("%s: %q, want %q", what, got, conditions)
	}
	if diff := cmp.Diff(&revisions, w.status.Revisions, numbersOnly); diff != "" {
		w.t.Errorf("%s: revisions (-want +got):\n%s", what, diff)
	}
}

func TestDecide_RollsBackAndRetriesOnRequest(t *testing.T) {
	w := newWorld(t)
	w.is("created", "Progressing ", common.Revisions{Current: 1})
	w.rolls()
	w.is("serves", "+Serving ", common.Revisions{Current: 1, LastHealthy: 1})

	w.image = "web:bad"
	w.is("changed", "Progressing ", common.Revisions{Current: 2, LastHealthy: 1})
	w.rolls(crashing)
	w.is("failed: recorded before anything follows", " +RolloutFailed", common.Revisions{Current: 2, LastHealthy: 1, Failed: 2})
	want := []common.Action{{Type: common.ActionRollback, Reason: common.ReasonCrash, Message: "Container web exits with code 1: no such file.", Revision: 2, Time: metav1.NewTime(w.now)}}
	if diff := cmp.Diff(want, w.status.LastActions); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
	if image := w.seen.Deployment.Spec.Template.Spec.Containers[0].Image; image != "web:bad" {
		t.Errorf("the Deployment has %s before the failure is recorded", image)
	}

	w.now = w.now.Add(time.Minute)
	w.is("rolls back", "RolledBack +RolloutFailed", common.Revisions{Current: 1, LastHealthy: 1, Failed: 2})
	if image := w.seen.Deployment.Spec.Template.Spec.Containers[0].Image; image != "web:1" {
		t.Errorf("the Deployment has %s", image)
	}
	w.rolls()
	w.is("serves as before", "RolledBack +RolloutFailed", common.Revisions{Current: 1, LastHealthy: 1, Failed: 2})
	if diff := cmp.Diff(want, w.status.LastActions); diff != "" {
		t.Errorf("the action was told again (-want +got):\n%s", diff)
	}
	if w.status.Image != "web:1" {
		t.Errorf("%s serves, the status says", w.status.Image)
	}

	w.rollout.RestartedAt = new(metav1.NewTime(w.now))
	w.is("asked to try again", "Progressing ", common.Revisions{Current: 3, LastHealthy: 1})
	w.rolls(crashing)
	w.is("failed again", " +RolloutFailed", common.Revisions{Current: 3, LastHealthy: 1, Failed: 3})
	w.is("rolls back again", "RolledBack +RolloutFailed", common.Revisions{Current: 1, LastHealthy: 1, Failed: 3})

	w.image = "web:2"
	w.is("mended", "Progressing ", common.Revisions{Current: 4, LastHealthy: 1})
	w.rolls()
	w.is("serves", "+Serving ", common.Revisions{Current: 4, LastHealthy: 4})
	if w.status.Image != "web:2" || w.status.ImageID != "sha256:web:2" {
		t.Errorf("serves %s %s, the status says", w.status.Image, w.status.ImageID)
	}
}

func TestDecide_RevertingTheSpecRestoresItsRevision(t *testing.T) {
	w := serving(t)
	w.image = "web:bad"
	w.reconcile()
	w.rolls(crashing)
	w.reconcile()
	w.reconcile() // rolls back
	w.rolls()
	w.image = "web:1"
	w.is("the earlier spec is the earlier revision", "+Serving ", common.Revisions{Current: 1, LastHealthy: 1})
	w.image = "web:bad"
	w.is("what failed before is tried when it is asked for again", "Progressing ", common.Revisions{Current: 2, LastHealthy: 1})
}

func TestDecide_HaltKeepsTheFailedRollout(t *testing.T) {
	w := newWorld(t)
	w.rollout.OnFailure = common.OnFailureHalt
	w.reconcile()
	w.rolls()
	w.reconcile()
	w.image = "web:bad"
	w.reconcile()
	w.rolls(crashing)
	w.is("failed", " +RolloutFailed", common.Revisions{Current: 2, LastHealthy: 1, Failed: 2})
	w.is("stays", " +RolloutFailed", common.Revisions{Current: 2, LastHealthy: 1, Failed: 2})
	if len(w.status.LastActions) != 1 || w.status.LastActions[0].Type != common.ActionHalt {
		t.Errorf("actions %+v", w.status.LastActions)
	}
	w.rolls()
	w.is("serves after all", "+Serving ", common.Revisions{Current: 2, LastHealthy: 2})
}

func TestDecide_DoesNotRollBackTheFirstRevision(t *testing.T) {
	w := newWorld(t)
	w.image = "web:bad"
	w.reconcile()
	w.rolls(crashing)
	w.is("failed", " +RolloutFailed", common.Revisions{Current: 1, Failed: 1})
	w.is("stays", " +RolloutFailed", common.Revisions{Current: 1, Failed: 1})
	if s := w.decide().Desired.Number; s != 1 {
		t.Errorf("asks for revision %d", s)
	}
	w.image = "web:1"
	w.is("mended", "Progressing ", common.Revisions{Current: 2})
}

func TestDecide_DoesNotRollBackUnschedulablePods(t *testing.T) {
	w := serving(t)
	w.image = "web:2"
	w.reconcile()
	w.rolls(corev1.ContainerStatus{Name: "web"})
	w.seen.Pods[0].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/2 nodes are available"}}
	w.is("no room", " +Unschedulable", common.Revisions{Current: 2, LastHealthy: 1})

	w.seen.Pods = nil
	asItWas := w.seen.Deployment.Status.Conditions
	for name, tc := range map[string]struct{ message, reason string }{
		"no quota":     {message: `exceeded quota: q`, reason: "QuotaExceeded"},
		"LimitRange":   {message: `maximum memory usage per Container is 1Mi, but limit is 2Mi`, reason: "AdmissionRefused"},
		"ratio":        {message: `cpu max limit to request ratio per Container is 2, but provided ratio is 4.000000`, reason: "AdmissionRefused"},
		"Pod Security": {message: `violates PodSecurity "restricted:latest": runAsNonRoot != true`, reason: "AdmissionRefused"},
	} {
		w.seen.Deployment.Status.Conditions = append(slices.Clone(asItWas), appsv1.DeploymentCondition{
			Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: `pods "web-1" is forbidden: ` + tc.message,
		})
		w.is(name, " +"+tc.reason, common.Revisions{Current: 2, LastHealthy: 1})
	}
	w.rolls()
	w.is("room again", "+Serving ", common.Revisions{Current: 2, LastHealthy: 2})
}

// The Deployment's clock does not stop while pods cannot start. The deadline
// remains exceeded until the rollout makes progress.
func TestReport_GivesPodsThatStartAfterTheDeadlineTheirTime(t *testing.T) {
	starting := corev1.ContainerStatus{Name: "web", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	late := func(t *testing.T) (*world, time.Time) {
		w := serving(t)
		w.image = "web:2"
		w.reconcile()
		w.rolls(starting)
		w.seen.Deployment.Spec.ProgressDeadlineSeconds = new(int32(60))
		w.seen.Deployment.Status.Conditions[1].LastTransitionTime = metav1.NewTime(w.now)
		return w, w.now
	}
	scheduled := func(at time.Time) []corev1.PodCondition {
		return []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(at)}}
	}
	waits, failed := common.Revisions{Current: 2, LastHealthy: 1}, common.Revisions{Current: 2, LastHealthy: 1, Failed: 2}

	t.Run("a quota was raised", func(t *testing.T) {
		w, passed := late(t)
		pods := w.seen.Pods
		w.seen.Pods, w.seen.Deployment.Status.UpdatedReplicas = nil, 0
		w.now = passed.Add(10 * time.Second)
		w.is("no pod yet", "Progressing ", waits)
		w.seen.Pods = pods
		w.seen.Pods[0].CreationTimestamp = metav1.NewTime(w.now)
		w.is("a pod", "Progressing ", waits)
		w.now = w.now.Add(59 * time.Second)
		w.is("it has a second left", "NotReady ", waits)
		w.now = w.now.Add(time.Second)
		w.is("it had its time", " +RolloutFailed", failed)
	})
	t.Run("a quota was raised, and the Deployment has not noticed", func(t *testing.T) {
		w, passed := late(t)
		w.seen.Deployment.Status.Conditions = append(w.seen.Deployment.Status.Conditions, appsv1.DeploymentCondition{
			Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: "exceeded quota: q",
		})
		w.now = passed.Add(10 * time.Second)
		w.seen.Pods[0].CreationTimestamp = metav1.NewTime(w.now)
		w.is("a pod", "Progressing ", waits)
		w.now = w.now.Add(60 * time.Second)
		w.is("it had its time", " +RolloutFailed", failed)
	})
	t.Run("a pod was created in the second in which the deadline passed", func(t *testing.T) {
		w, passed := late(t)
		w.seen.Pods[0].CreationTimestamp = metav1.NewTime(passed)
		w.is("a pod", "Progressing ", waits)
	})
	t.Run("a node came", func(t *testing.T) {
		w, passed := late(t)
		w.now = passed.Add(time.Hour)
		w.seen.Pods[0].CreationTimestamp = metav1.NewTime(passed.Add(-time.Minute))
		w.seen.Pods[0].Status.Conditions = scheduled(w.now)
		none := pod(w.seen.Deployment.Spec.Template.Annotations[naming.AnnotationTemplate])
		none.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse}}
		w.seen.Pods = append(w.seen.Pods, none) // there is capacity for one more, not for all
		w.is("it is on its way", "Progressing ", waits)
		w.now = w.now.Add(time.Minute)
		w.is("it had its time", " +RolloutFailed", failed)
	})
	t.Run("one that was there before fails", func(t *testing.T) {
		w, passed := late(t)
		w.now = passed.Add(10 * time.Second)
		w.seen.Pods[0].Status.Conditions = scheduled(w.now)
		old := pod(w.seen.Deployment.Spec.Template.Annotations[naming.AnnotationTemplate], crashing)
		w.seen.Pods = append(w.seen.Pods, old)
		w.is("it had its time", " +RolloutFailed", failed)
	})
	t.Run("all existing pods serve, and more are to come", func(t *testing.T) {
		w, passed := late(t)
		w.now = passed.Add(10 * time.Second)
		w.seen.Pods[0].Status.ContainerStatuses[0] = corev1.ContainerStatus{Name: "web", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
		w.is("no pod has failed", "Progressing ", waits)
	})
}

func TestDecide_RollsBackIfAdmissionRejectsPods(t *testing.T) {
	w := serving(t)
	w.image = "web:2"
	w.reconcile()
	w.rolls(corev1.ContainerStatus{Name: "web"})
	w.seen.Pods = nil
	w.seen.Deployment.Status.Conditions = append(w.seen.Deployment.Status.Conditions, appsv1.DeploymentCondition{
		Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: `admission webhook "images.example" denied the request: the image is not signed`,
	})
	w.is("refused", " +RolloutFailed", common.Revisions{Current: 2, LastHealthy: 1, Failed: 2})
}

func TestDecide_UpgradeDoesNotChangePods(t *testing.T) {
	w := serving(t)
	w.env = "1" // the operator was upgraded
	w.is("upgraded", "+Serving ", common.Revisions{Current: 1, LastHealthy: 1})
	if e := w.seen.Deployment.Spec.Template.Spec.Containers[0].Env; len(e) != 0 {
		t.Errorf("the upgrade gave the pods %v", e)
	}
	if diff := cmp.Diff([]string{"spec.containers[web].env would be added"}, w.status.PendingChanges); diff != "" {
		t.Errorf("pending changes (-want +got):\n%s", diff)
	}
	w.rollout.RestartedAt = new(metav1.NewTime(w.now))
	w.is("the user's next change", "Progressing ", common.Revisions{Current: 2, LastHealthy: 1})
	if e := w.seen.Deployment.Spec.Template.Spec.Containers[0].Env; len(e) != 1 || len(w.status.PendingChanges) != 0 {
		t.Errorf("env %v, pending %v", e, w.status.PendingChanges)
	}
}

func TestDecide_ServesThePinnedRevision(t *testing.T) {
	w := newWorld(t)
	for _, image := range []string{"web:1", "web:2", "web:3"} {
		w.image = image
		w.reconcile()
		w.rolls()
		w.reconcile()
	}
	w.rollout.PinnedRevision = new(int64(1))
	w.is("pinned", "Progressing ", common.Revisions{Current: 1, LastHealthy: 3})
	if image := w.seen.Deployment.Spec.Template.Spec.Containers[0].Image; image != "web:1" {
		t.Errorf("the Deployment has %s", image)
	}
	w.rolls()
	w.is("serves", "+Serving ", common.Revisions{Current: 1, LastHealthy: 1})
	w.rollout.PinnedRevision = new(int64(9))
	_, err := Decide(w.question(), w.seen)
	if v := fault.Classify(err); v.Reason != common.ReasonRevisionNotFound || !strings.Contains(v.Message, "revisions that are kept: 1, 2, 3.") {
		t.Errorf("no such revision: %+v", v)
	}
	w.rollout.PinnedRevision = nil
	w.is("unpinned", "Progressing ", common.Revisions{Current: 3, LastHealthy: 1})
}

func TestDecide_KeepsAFailingPinnedRevision(t *testing.T) {
	w := serving(t)
	w.image = "web:2"
	w.reconcile()
	w.rolls()
	w.reconcile()
	w.rollout.PinnedRevision = new(int64(1))
	w.reconcile()
	w.rolls(crashing)
	w.is("fails", " +RolloutFailed", common.Revisions{Current: 1, LastHealthy: 2})
}

func TestDecide_MissingRevisionKeepsTheServingOne(t *testing.T) {
	w := serving(t)
	w.image = "web:bad"
	w.reconcile()
	w.rolls(crashing)
	w.reconcile()
	w.seen.Revisions = w.seen.Revisions[1:] // the healthy one is deleted
	d, err := Decide(w.question(), w.seen)
	if fault.Classify(err).Class != fault.Stall || d.Serving.Number != 2 || d.Template == nil {
		t.Errorf("got %v, and revision %d serves with a template: %v", err, d.Serving.Number, d.Template != nil)
	}
	if w.follow(d); w.deployed() != "web:bad" {
		t.Errorf("the Deployment has %s", w.deployed())
	}
}

func TestDecide_BoundsTheHistory(t *testing.T) {
	w := newWorld(t)
	w.rollout.RevisionHistoryLimit = new(int32(2))
	for i := range 6 {
		w.image = fmt.Sprintf("web:%d", i)
		w.reconcile()
		w.rolls()
		w.reconcile()
		w.reconcile() // triggered by the status write of the previous one
	}
	var kept []int64
	for _, r := range w.seen.Revisions {
		kept = append(kept, r.Revision)
	}
	if diff := cmp.Diff([]int64{4, 5, 6}, kept); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
	w.image = "web:bad" // while it fails, the healthy one is in use, and is not counted
	w.reconcile()
	w.rolls(crashing)
	w.reconcile()
	w.reconcile()
	kept = nil
	for _, r := range w.seen.Revisions {
		kept = append(kept, r.Revision)
	}
	if diff := cmp.Diff([]int64{4, 5, 6, 7}, kept); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
}

func TestDecide_IsRepeatable(t *testing.T) {
	w := serving(t)
	a, b := w.decide(), w.decide()
	if a.Desired.hash != b.Desired.hash || a.Keep.Name != b.Keep.Name {
		t.Errorf("%q %q, then %q %q", a.Desired.hash, a.Keep.Name, b.Desired.hash, b.Keep.Name)
	}
}

func TestDecide_ReportsUnreadableRevisions(t *testing.T) {
	w := newWorld(t)
	w.reconcile()
	w.seen.Revisions[0].Data.Raw = []byte(`{}`)
	if _, err := Decide(w.question(), w.seen); fault.Classify(err).Class != fault.Stall {
		t.Errorf("got %v", err)
	}
}

func TestLastKnown_KeepsServingTheDecidedRevision(t *testing.T) {
	for name, tc := range map[string]struct {
		before func(*world)
		image  string // "" if there is no template
		asked  int64
	}{
		"nothing was decided yet":                 {func(w *world) { *w = *newWorld(w.t) }, "", 0},
		"at rest":                                 {func(*world) {}, "web:1", 1},
		"the status is lost":                      {func(w *world) { w.status = common.RolloutStatus{} }, "web:1", 1},
		"the Deployment is lost":                  {func(w *world) { w.seen.Deployment = nil }, "web:1", 1},
		"the history is lost":                     {func(w *world) { w.seen.Revisions = nil }, "web:1", 1},
		"the history and the Deployment are lost": {func(w *world) { w.seen = Observed{} }, "", 0},
		"a rollout is in progress": {func(w *world) {
			w.image = "web:2"
			w.reconcile()
		}, "web:2", 2},
		"a rollout has failed": {func(w *world) {
			w.image = "web:bad"
			w.reconcile()
			w.rolls(crashing)
			w.reconcile()
		}, "web:1", 2},
		"a rollout was rolled back": {func(w *world) {
			w.image = "web:bad"
			w.reconcile()
			w.rolls(crashing)
			w.reconcile()
			w.reconcile()
		}, "web:1", 2},
		"a revision is pinned": {func(w *world) {
			w.image = "web:2"
			w.reconcile()
			w.rolls()
			w.reconcile()
			w.rollout.PinnedRevision = new(int64(1))
		}, "web:1", 2},
		"a revision is pinned that is not kept": {func(w *world) {
			w.rollout.PinnedRevision = new(int64(7))
		}, "web:1", 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := serving(t)
			tc.before(w)
			q := w.question()
			q.Inputs, q.Template = nil, nil
			d, err := LastKnown(q, w.seen)
			if err != nil {
				t.Fatal(err)
			}
			image := ""
			if d.Template != nil {
				image = *d.Template.Spec.Containers[0].Image
			}
			if image != tc.image || d.Desired.Number != tc.asked {
				t.Errorf("got image %q, revision %d is asked for; want %q, %d", image, d.Desired.Number, tc.image, tc.asked)
			}
			if len(d.Prune) != 0 || len(d.Kept) < len(w.seen.Revisions) {
				t.Errorf("prunes %d, keeps %d of %d revisions", len(d.Prune), len(d.Kept), len(w.seen.Revisions))
			}
		})
	}
}
