package immortalcontainer

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/platform-operator/platform-operator/apis/common"
	immortalv1alpha1 "github.com/platform-operator/platform-operator/apis/immortalcontainer/v1alpha1"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/fault"
)

var (
	born = metav1.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	gvk  = metav1.GroupVersionKind(immortalv1alpha1.GroupVersion.WithKind(immortalv1alpha1.Kind))
)

func sample(change ...func(*immortalv1alpha1.ImmortalContainer)) *immortalv1alpha1.ImmortalContainer {
	i := &immortalv1alpha1.ImmortalContainer{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "example-immortalcontainer", UID: "i", Generation: 1},
		Spec:       immortalv1alpha1.ImmortalContainerSpec{Image: "nginx:latest"},
	}
	for _, c := range change {
		c(i)
	}
	return i
}

func livePod(change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "example-immortalcontainer-immortalpod", UID: "p", CreationTimestamp: born},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "acontainer", Image: "nginx:latest"}}},
		Status: corev1.PodStatus{
			Phase:             corev1.PodRunning,
			Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "acontainer", RestartCount: 2}},
		},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func withGate(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: gate}} }

func endedAs(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Phase, p.Status.Conditions, p.Status.Reason = phase, nil, "Evicted"
	}
}

// The article's names, and what we state beside them.
func TestPodOfTheArticle(t *testing.T) {
	plan, err := desired(sample(), Observed{})
	if err != nil || len(plan.Apply) != 1 || len(plan.Prune) != 0 {
		t.Fatalf("plan %+v, error %v", plan, err)
	}
	raw, err := plan.Apply[0].Object(sample(), gvk)
	if err != nil {
		t.Fatal(err)
	}
	got := &corev1.Pod{}
	if err := yaml.UnmarshalStrict(raw, got); err != nil {
		t.Fatal(err)
	}
	if got.Name != "example-immortalcontainer-immortalpod" || got.Labels["app"] != "example-immortalcontainer" {
		t.Errorf("metadata %+v", got.ObjectMeta)
	}
	want := corev1.PodSpec{
		AutomountServiceAccountToken: new(false), EnableServiceLinks: new(false),
		RestartPolicy: corev1.RestartPolicyAlways, TerminationGracePeriodSeconds: new(int64(30)),
		SchedulingGates: []corev1.PodSchedulingGate{{Name: gate}},
		Containers:      []corev1.Container{{Name: "acontainer", Image: "nginx:latest"}},
	}
	if d := cmp.Diff(want, got.Spec); d != "" {
		t.Errorf("spec (-want +got):\n%s", d)
	}
}

func TestPlan(t *testing.T) {
	counted := func(i *immortalv1alpha1.ImmortalContainer) { i.Status.PodUID, i.Status.StartTimes = "p", 1 }
	for name, tc := range map[string]struct {
		i     *immortalv1alpha1.ImmortalContainer
		o     Observed
		gated bool // the pod is stated with its gate
		prune bool
		wait  bool
	}{
		"no pod: one is born behind the gate":              {i: sample(), gated: true},
		"not counted yet: the gate stays":                  {i: sample(), o: Observed{Pod: livePod(withGate)}, gated: true},
		"counted: the gate is lifted":                      {i: sample(counted), o: Observed{Pod: livePod(withGate)}},
		"a pod that runs is never gated":                   {i: sample(), o: Observed{Pod: livePod()}},
		"failed long ago: deleted":                         {i: sample(counted), o: Observed{Pod: livePod(endedAs(corev1.PodFailed)), Now: born.Add(time.Minute)}, prune: true},
		"succeeded long ago: deleted":                      {i: sample(counted), o: Observed{Pod: livePod(endedAs(corev1.PodSucceeded)), Now: born.Add(time.Minute)}, prune: true},
		"failed at once: a pause first":                    {i: sample(counted), o: Observed{Pod: livePod(endedAs(corev1.PodFailed)), Now: born.Add(time.Second)}, wait: true},
		"failed and being deleted already: left to itself": {i: sample(counted), o: Observed{Pod: livePod(endedAs(corev1.PodFailed), func(p *corev1.Pod) { p.DeletionTimestamp = &born }), Now: born.Add(time.Minute)}},
	} {
		t.Run(name, func(t *testing.T) {
			plan, err := desired(tc.i, tc.o)
			var f *fault.Error
			if got := errors.As(err, &f) && f.Class == fault.Wait; got != tc.wait {
				t.Fatalf("waits: %t (%v), want %t", got, err, tc.wait)
			}
			if got := len(plan.Prune) == 1; got != tc.prune {
				t.Errorf("prunes: %t, want %t", got, tc.prune)
			}
			if len(plan.Apply) == 0 {
				return
			}
			raw, err := plan.Apply[0].Object(tc.i, gvk)
			if err != nil {
				t.Fatal(err)
			}
			p := &corev1.Pod{}
			if err := yaml.Unmarshal(raw, p); err != nil {
				t.Fatal(err)
			}
			if got := gated(p); got != tc.gated {
				t.Errorf("gated: %t, want %t", got, tc.gated)
			}
		})
	}
}

func TestStartsAreCountedOncePerPod(t *testing.T) {
	for name, tc := range map[string]struct {
		uid    string
		starts int64
		pod    *corev1.Pod
		want   int64
	}{
		"the first":                           {pod: livePod(withGate), want: 1},
		"the same again":                      {uid: "p", starts: 1, pod: livePod(), want: 1},
		"the next":                            {uid: "earlier", starts: 4, pod: livePod(withGate), want: 5},
		"one that the article counted":        {starts: 7, pod: livePod(), want: 7},
		"one that nobody counted, ungated":    {pod: livePod(), want: 1},
		"the first of ours after the article": {starts: 7, pod: livePod(withGate), want: 8},
	} {
		t.Run(name, func(t *testing.T) {
			i := sample(func(i *immortalv1alpha1.ImmortalContainer) { i.Status.PodUID, i.Status.StartTimes = tc.uid, tc.starts })
			for range 2 { // a second time changes nothing
				report(i, Observed{}, converge.NewOutcome(born.Time, fault.Verdict{}, map[string]client.Object{"Pod": tc.pod}))
			}
			if i.Status.StartTimes != tc.want || i.Status.PodUID != "p" {
				t.Errorf("%d starts, last pod %q; want %d of p", i.Status.StartTimes, i.Status.PodUID, tc.want)
			}
		})
	}
}

func TestConditions(t *testing.T) {
	waiting := func(reason string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.Phase, p.Status.Conditions = corev1.PodPending, nil
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "acontainer", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}}
		}
	}
	for name, tc := range map[string]struct {
		pod              *corev1.Pod
		available, ready bool
		message          string
	}{
		"runs":                    {pod: livePod(), available: true, ready: true, message: "the container runs"},
		"no pod":                  {message: "the pod is being created"},
		"starting":                {pod: livePod(waiting("ContainerCreating")), message: "the container is starting"},
		"no image":                {pod: livePod(waiting("ImagePullBackOff")), message: "the image cannot be pulled; correct spec.image, or what keeps it from being pulled"},
		"evicted":                 {pod: livePod(endedAs(corev1.PodFailed)), message: "the pod ended (Evicted); the next one follows"},
		"being deleted":           {pod: livePod(func(p *corev1.Pod) { p.DeletionTimestamp = &born }), message: "the pod is being deleted; the next one follows"},
		"the old image":           {pod: livePod(func(p *corev1.Pod) { p.Spec.Containers[0].Image = "nginx:old" }), available: true, message: "the container is being restarted with its new image"},
		"not seen by its kubelet": {pod: livePod(func(p *corev1.Pod) { p.Generation = 2 }), available: true, message: "the container is being restarted with its new image"},
		"keeps ending":            {pod: livePod(func(p *corev1.Pod) { p.Status.Conditions = nil }), message: "the container keeps ending; kubectl logs --previous says why"},
		"no room": {pod: livePod(func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
		}), message: "no node has room for the pod"},
	} {
		t.Run(name, func(t *testing.T) {
			i := sample()
			report(i, Observed{Pod: tc.pod}, converge.NewOutcome(born.Time, fault.Verdict{}, nil))
			ready := meta.FindStatusCondition(i.Status.Conditions, common.ConditionReady)
			if got := ready.Status == metav1.ConditionTrue; got != tc.ready || ready.Message != tc.message {
				t.Errorf("Ready %t, %q; want %t, %q", got, ready.Message, tc.ready, tc.message)
			}
			if got := meta.IsStatusConditionTrue(i.Status.Conditions, common.ConditionAvailable); got != tc.available {
				t.Errorf("Available %t, want %t", got, tc.available)
			}
		})
	}
}
