package memcached

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/apis/common"
	cachev1alpha1 "github.com/platform-operator/platform-operator/apis/memcached/v1alpha1"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/rollout"
	"github.com/platform-operator/platform-operator/pkg/testkit/messages"
)

// rolled returns a Deployment with 3 replicas and these counts, created from the
// spec of the sample.
func rolled(replicas, updated, ready int32) *appsv1.Deployment {
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "example-memcached", Generation: 2},
		Spec:       appsv1.DeploymentSpec{Replicas: new(int32(3))},
		Status: appsv1.DeploymentStatus{
			ObservedGeneration: 2, Replicas: replicas, UpdatedReplicas: updated, ReadyReplicas: ready, AvailableReplicas: ready,
		},
	}
	decision, err := decide(sample(), Observed{}, platform)
	if err != nil {
		panic(err) // nothing is pinned
	}
	d.Spec.Template.Annotations = decision.Template.Annotations
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "sidecar", Image: "other"}, {
		Name: "memcached", Image: "memcached:1.6", Args: args(sample()),
		Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: quantity(containerLimit(sample()))}},
	}}
	if ready > 0 {
		d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue}}
	}
	return d
}

func none() *appsv1.Deployment {
	d := rolled(0, 0, 0)
	d.Spec.Replicas = new(int32(0))
	return d
}

func failing(d *appsv1.Deployment) *appsv1.Deployment {
	d.Status.Conditions = append(d.Status.Conditions, appsv1.DeploymentCondition{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: "no"})
	return d
}

func outcome(problem error, d *appsv1.Deployment) converge.Outcome {
	children := map[string]client.Object{}
	if d != nil {
		children["Deployment"] = d
	}
	return converge.NewOutcome(time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC), fault.Classify(problem), children)
}

func TestReport_PhaseAndConditions(t *testing.T) {
	for name, tc := range map[string]struct {
		size       int32
		deployment *appsv1.Deployment
		problem    error
		phase      cachev1alpha1.Phase
		reason     string
		conditions map[string]string
	}{
		"nothing yet": {3, nil, nil, "Pending", "Progressing", map[string]string{
			"Available": "False NoReplicasAvailable", "Ready": "False Progressing", "Reconciling": "True Progressing",
		}},
		"starting": {3, rolled(3, 3, 0), nil, "Pending", "Progressing", map[string]string{
			"Available": "False NoReplicasAvailable", "Ready": "False Progressing", "Reconciling": "True Progressing",
		}},
		"some serve": {3, rolled(3, 3, 2), nil, "Degraded", "Progressing", map[string]string{
			"Available": "True ReplicasAvailable", "Ready": "False Progressing", "Reconciling": "True Progressing",
		}},
		"all serve": {3, rolled(3, 3, 3), nil, "Running", "Serving", map[string]string{
			"Available": "True ReplicasAvailable", "Ready": "True Serving",
		}},
		"none is wanted": {0, none(), nil, "Running", "ScaledToZero", map[string]string{
			"Available": "False ScaledToZero", "Ready": "True ScaledToZero",
		}},
		"pods cannot be created": {3, failing(rolled(2, 2, 2)), nil, "Failed", "ReplicaFailure", map[string]string{
			"Available": "True ReplicasAvailable", "Ready": "False ReplicaFailure", "Stalled": "True ReplicaFailure",
		}},
		"the name is taken": {3, nil, fault.Stalled(messages.New(common.ReasonConflict, "taken")), "Failed", "Conflict", map[string]string{
			"Available": "False NoReplicasAvailable", "Ready": "False Conflict", "Stalled": "True Conflict",
		}},
		"the API server has trouble": {3, rolled(3, 3, 3), errors.New("no answer"), "Degraded", "Error", map[string]string{
			"Available": "True ReplicasAvailable", "Ready": "False Error", "Reconciling": "True Error",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			m := sample()
			m.Spec.Size = tc.size
			report(m, Observed{}, outcome(tc.problem, tc.deployment), platform)
			if m.Status.Phase != tc.phase || m.Status.Reason != tc.reason {
				t.Errorf("got %s, %s; want %s, %s", m.Status.Phase, m.Status.Reason, tc.phase, tc.reason)
			}
			got := map[string]string{}
			for _, c := range m.Status.Conditions {
				got[c.Type] = string(c.Status) + " " + c.Reason
			}
			if diff := cmp.Diff(tc.conditions, got); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			once, later := m.DeepCopy(), outcome(tc.problem, tc.deployment)
			later.Now = later.Now.Add(time.Hour)
			report(m, Observed{}, later, platform)
			if diff := cmp.Diff(once, m); diff != "" {
				t.Errorf("reconciling the same state again changed the status, which causes a needless write:\n%s", diff)
			}
		})
	}
}

// A rejected or failed write does not mean that the serving pods are unavailable.
func TestReport_FailedWriteKeepsAvailable(t *testing.T) {
	m := sample()
	report(m, Observed{Observed: rollout.Observed{Deployment: rolled(3, 3, 3)}}, outcome(errors.New("no answer"), nil), platform)
	if c := meta.FindStatusCondition(m.Status.Conditions, "Available"); c == nil || c.Status != metav1.ConditionTrue || m.Status.Phase != "Degraded" {
		t.Errorf("phase %s, conditions %+v", m.Status.Phase, m.Status.Conditions)
	}
}

func TestReport_Nodes(t *testing.T) {
	pod := func(name string, ready corev1.ConditionStatus, change ...func(*corev1.Pod)) corev1.Pod {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}
		p.Status.Conditions = []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: ready},
		}
		for _, c := range change {
			c(&p)
		}
		return p
	}
	leaving := func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }
	var many []corev1.Pod
	for i := range 200 {
		many = append(many, pod(fmt.Sprintf("p-%03d", 199-i), corev1.ConditionTrue))
	}
	for name, tc := range map[string]struct {
		pods []corev1.Pod
		want []string
	}{
		"none":          {nil, []string{}},
		"sorted":        {[]corev1.Pod{pod("b", corev1.ConditionTrue), pod("a", corev1.ConditionTrue)}, []string{"a", "b"}},
		"not ready":     {[]corev1.Pod{pod("b", corev1.ConditionFalse), pod("a", corev1.ConditionTrue)}, []string{"a"}},
		"not known":     {[]corev1.Pod{pod("a", corev1.ConditionUnknown), {}}, []string{}},
		"on their way":  {[]corev1.Pod{pod("a", corev1.ConditionTrue, leaving), pod("b", corev1.ConditionTrue)}, []string{"b"}},
		"more than fit": {many, nodes(many[72:])},
	} {
		t.Run(name, func(t *testing.T) {
			m := sample()
			report(m, Observed{Observed: rollout.Observed{Pods: tc.pods}}, outcome(nil, nil), platform)
			if diff := cmp.Diff(tc.want, m.Status.Nodes); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if len(m.Status.Nodes) > cachev1alpha1.MaxNodes {
				t.Errorf("%d nodes", len(m.Status.Nodes))
			}
		})
	}
}

// In the schema of the legacy operator, nodes is a required list: null would be
// rejected.
func TestReport_NodesAreNeverNull(t *testing.T) {
	written := func(m *cachev1alpha1.Memcached) string {
		raw, err := json.Marshal(m.Status)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	m := sample()
	if got := written(m); strings.Contains(got, "nodes") {
		t.Errorf("before the first reconcile: %s", got)
	}
	report(m, Observed{}, outcome(nil, nil), platform)
	if got := written(m); !strings.Contains(got, `"nodes":[]`) {
		t.Errorf("without a pod: %s", got)
	}
}

func TestReport_Counts(t *testing.T) {
	m := sample()
	report(m, Observed{}, outcome(nil, rolled(4, 2, 3)), platform)
	got := []int32{m.Status.Size, m.Status.Replicas, m.Status.ReadyReplicas}
	if diff := cmp.Diff([]int32{3, 4, 3}, got); diff != "" {
		t.Errorf("size, replicas, ready (-want +got):\n%s", diff)
	}
	// A HorizontalPodAutoscaler reads it through the scale subresource.
	if want := "app=memcached,memcached_cr=example-memcached"; m.Status.Selector != want {
		t.Errorf("selector is %q, want %q", m.Status.Selector, want)
	}
	if s := m.Status.Memory; s == nil || s.Size.String() != "64Mi" || s.ContainerLimit.String() != "180Mi" {
		t.Errorf("memory is %+v", s)
	}
	if m.Status.Image != "" {
		t.Errorf("image %s before all its pods serve", m.Status.Image)
	}
	report(m, Observed{}, outcome(nil, rolled(3, 3, 3)), platform)
	if m.Status.Image != "memcached:1.6" {
		t.Errorf("image is %q", m.Status.Image)
	}
	m.Spec.Size = 0
	report(m, Observed{}, outcome(nil, none()), platform)
	if m.Status.Image != "memcached:1.6" {
		t.Errorf("image is %q after the last pod went", m.Status.Image)
	}
	report(m, Observed{}, outcome(errors.New("no answer"), nil), platform)
	if m.Status.Size != 0 || m.Status.Memory == nil {
		t.Errorf("a reconcile without a Deployment changed the status: %+v", m.Status)
	}
}

// A failed rollout is rolled back, and the status describes the serving revision.
func TestReport_FailedRollout(t *testing.T) {
	m := sample()
	first := kept(t, m, Observed{})
	m.Spec.Image, m.Spec.Memory = "memcached:bad", &cachev1alpha1.MemorySpec{Size: new(resource.MustParse("1Gi"))}
	m.Status.Image = "memcached:1.6"
	m.Status.Revisions = &common.Revisions{Current: 1, LastHealthy: 1}
	o := Observed{Observed: rollout.Observed{Revisions: []*appsv1.ControllerRevision{first}}}
	second := kept(t, m, o)
	o.Revisions = append(o.Revisions, second)

	d := rolled(4, 1, 3)
	d.Spec.Template.Annotations = map[string]string{naming.AnnotationTemplate: second.Annotations[naming.AnnotationTemplate]}
	d.Status.Conditions = append(d.Status.Conditions, appsv1.DeploymentCondition{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse})
	o.Deployment = d
	report(m, o, outcome(nil, d), platform)
	if r := m.Status.Revisions; r.Failed != 2 || r.LastHealthy != 1 || len(m.Status.LastActions) != 1 || m.Status.LastActions[0].Type != common.ActionRollback {
		t.Fatalf("revisions %+v, actions %+v", r, m.Status.LastActions)
	}

	back, _ := typed(t, m, o)
	if i := back.Spec.Template.Spec.Containers[0].Image; i != "memcached:1.6" {
		t.Errorf("back to image %s", i)
	}
	back.Generation, back.Status = 3, rolled(3, 3, 3).Status
	back.Status.ObservedGeneration = 3
	o.Deployment = back
	report(m, o, outcome(nil, back), platform)
	ready := meta.FindStatusCondition(m.Status.Conditions, common.ConditionReady)
	if m.Status.Phase != cachev1alpha1.PhaseFailed || ready.Reason != common.ReasonRolledBack || !meta.IsStatusConditionTrue(m.Status.Conditions, common.ConditionAvailable) {
		t.Errorf("phase %s, Ready %+v", m.Status.Phase, ready)
	}
	if s := m.Status.Memory; m.Status.Image != "memcached:1.6" || s.Size.String() != "64Mi" || s.ContainerLimit.String() != "180Mi" {
		t.Errorf("image %s, memory %+v: not what serves", m.Status.Image, s)
	}
}
