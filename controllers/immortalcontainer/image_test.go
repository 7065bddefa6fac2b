package immortalcontainer

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/apis/common"
	immortalv1alpha1 "github.com/platform-operator/platform-operator/apis/immortalcontainer/v1alpha1"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/testkit/messages"
)

// node simulates the API server, admission and one kubelet for the pod of one
// object. Like the kubelet of Kubernetes 1.36, it writes a status with the new
// generation before it stops the old container.
type node struct {
	*testing.T
	i   *immortalv1alpha1.ImmortalContainer
	pod *corev1.Pod
	now time.Time

	admit      func(image string) string // the image that admission stores; nil if it changes nothing
	onlyCreate bool                      // admission acts on creation only
	older      bool                      // the kubelet does not write observedGeneration
	reports    func(image string) string // the image that the runtime reports; nil for its full name
	containers int
	writes     int
	births     int
	released   map[types.UID]bool
	runs       string // the image of the running container
}

func newNode(t *testing.T) *node {
	return &node{T: t, i: sample(), now: born.Time, released: map[types.UID]bool{}}
}

// reconcile does the same as the reconcile loop, without its cache.
func (n *node) reconcile() {
	n.Helper()
	plan, err := desired(n.i, Observed{Pod: n.pod, Now: n.now}, config.Default())
	if err != nil {
		n.Fatal(err)
	}
	observed := n.pod
	if n.i.Spec.Paused {
		report(n.i, Observed{Pod: n.pod, Now: n.now}, converge.NewOutcome(n.now, fault.Classify(fault.Waiting(0, messages.New(common.ReasonPaused, "paused"))), nil))
		return
	}
	children := map[string]client.Object{}
	if len(plan.Prune) > 0 {
		n.pod = nil
	}
	for _, in := range plan.Apply {
		raw, err := in.Object(n.i, gvk)
		if err != nil {
			n.Fatal(err)
		}
		n.apply(raw)
		children["Pod"] = n.pod
	}
	report(n.i, Observed{Pod: observed, Now: n.now}, converge.NewOutcome(n.now, fault.Verdict{}, children))
}

// apply stores an intent like the API server.
func (n *node) apply(raw []byte) {
	n.Helper()
	stated := &corev1.Pod{}
	if err := json.Unmarshal(raw, stated); err != nil {
		n.Fatal(err)
	}
	created := n.pod == nil
	if image := image(stated); n.admit != nil && (created || !n.onlyCreate) {
		stated.Spec.Containers[0].Image = n.admit(image)
	}
	if created {
		n.pod = stated
		n.births++
		n.pod.UID, n.pod.Generation, n.pod.CreationTimestamp = types.UID(fmt.Sprintf("pod-%d", n.births)), 1, metav1.NewTime(n.now)
		n.pod.Spec.NodeName = "node1"
		n.writes++
		return
	}
	live := n.pod.DeepCopy()
	live.Annotations, live.Spec.SchedulingGates = stated.Annotations, stated.Spec.SchedulingGates
	live.Spec.Containers[0].Image = image(stated)
	if cmp.Equal(n.pod, live) {
		return
	}
	n.writes++
	if !cmp.Equal(n.pod.Spec, live.Spec) {
		live.Generation++
	}
	n.pod = live
	if !gated(live) {
		n.released[live.UID] = true
	}
}

// changedByHand sets another image in the pod.
func (n *node) changedByHand() {
	n.pod = n.pod.DeepCopy()
	n.pod.Spec.Containers[0].Image = "nginx:hand"
	n.pod.Generation++
}

// observe is the first write of the kubelet after a change: it has observed the
// pod, and the container is unchanged.
func (n *node) observe() {
	n.pod = n.pod.DeepCopy()
	n.pod.Status.Phase = corev1.PodRunning
	if !n.older {
		n.pod.Status.ObservedGeneration = n.pod.Generation
	}
}

// start starts a container of the pod's image.
func (n *node) start() {
	n.observe()
	n.runs = image(n.pod)
	n.containers++
	reported := n.runs
	switch {
	case n.reports != nil:
		reported = n.reports(n.runs)
	case !strings.Contains(n.runs, "/"):
		reported = "docker.io/library/" + n.runs
	}
	n.pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	n.pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: containerName, Ready: true, ContainerID: fmt.Sprintf("containerd://%c", 'a'+n.containers), Image: reported,
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(n.now)}},
	}}
}

func (n *node) pulls() {
	n.observe()
	n.pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "ContainersNotReady"}}
	n.pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: containerName, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull"}}}}
}

// born creates a pod that runs and is Ready.
func (n *node) born() {
	n.Helper()
	n.reconcile() // created and counted
	n.reconcile() // gate removed
	n.start()
	n.reconcile()
	n.expect(true, image(n.pod))
}

func (n *node) edit(image string) {
	n.i.Spec.Image = image
	n.i.Generation++
}

func (n *node) expect(ready bool, runs string) {
	n.Helper()
	c := meta.FindStatusCondition(n.i.Status.Conditions, common.ConditionReady)
	if got := c.Status == metav1.ConditionTrue; got != ready || n.i.Status.Image != runs {
		n.Fatalf("Ready is %s (%s) and status.image %q, want %t and %q", c.Status, c.Message, n.i.Status.Image, ready, runs)
	}
}

func TestReport_ImageIsTheOneThatRuns(t *testing.T) {
	for name, tc := range map[string]struct {
		set func(*node)
		do  func(*node)
	}{
		"the old container still ends": {do: func(n *node) {
			n.edit("nginx:2")
			n.reconcile()
			n.expect(false, "nginx:latest") // the kubelet has not observed it
			n.observe()
			n.reconcile()
			n.expect(false, "nginx:latest") // it has, and waits for the old container to end
			n.start()
			n.reconcile()
			n.expect(true, "nginx:2")
		}},
		"a status of the old container by an older kubelet": {set: func(n *node) { n.older = true }, do: func(n *node) {
			n.edit("nginx:2")
			n.reconcile()
			n.expect(false, "nginx:latest")
			n.start()
			n.reconcile()
			n.expect(true, "nginx:2")
		}},
		"the new image never runs": {do: func(n *node) {
			n.edit("nginx:typo")
			n.reconcile()
			n.observe()
			n.reconcile()
			n.pulls()
			n.reconcile()
			n.expect(false, "nginx:latest")
			n.edit("nginx:3")
			n.reconcile()
			n.start()
			n.reconcile()
			n.expect(true, "nginx:3")
		}},
		"taken back before the kubelet has seen it": {do: func(n *node) {
			n.edit("nginx:2")
			n.reconcile()
			n.edit("nginx:latest")
			n.reconcile()
			n.observe() // the container was never stopped
			n.reconcile()
			n.expect(true, "nginx:latest")
		}},
		"changed twice before the kubelet has seen it": {do: func(n *node) {
			n.edit("nginx:2")
			n.reconcile()
			n.edit("nginx:3")
			n.reconcile()
			n.observe()
			n.reconcile()
			n.expect(false, "nginx:latest")
			n.start()
			n.reconcile()
			n.expect(true, "nginx:3")
		}},
		"the status was erased meanwhile": {do: func(n *node) {
			n.edit("nginx:2")
			n.reconcile()
			n.observe()
			n.i.Status = immortalv1alpha1.ImmortalContainerStatus{}
			n.reconcile()
			n.expect(false, "nginx:latest")
			n.start()
			n.reconcile()
			n.expect(true, "nginx:2")
		}},
		"the runtime reports another tag of the same image": {
			set: func(n *node) { n.reports = func(string) string { return "docker.io/library/nginx:stable" } },
			do: func(n *node) {
				n.edit("nginx:2")
				n.reconcile()
				n.observe()
				n.reconcile()
				n.expect(false, "nginx:latest")
				n.start()
				n.reconcile()
				n.expect(false, "nginx:latest") // it may have been started before the kubelet observed the change
				n.now = n.now.Add(time.Minute)
				n.reconcile()
				n.expect(true, "nginx:2") // the kubelet would have stopped it
				n.start()
				n.reconcile()
				n.expect(true, "nginx:2") // the next container is certain
			},
		},
		"the node's clock is a day ahead": {
			set: func(n *node) { n.reports = func(string) string { return "sha256:0" } },
			do: func(n *node) {
				n.edit("nginx:2")
				n.reconcile()
				n.now = n.now.Add(24 * time.Hour)
				n.start()
				n.now = n.now.Add(-24 * time.Hour)
				n.reconcile()
				n.expect(true, "nginx:2")
			},
		},
		"paused, and the image was edited": {do: func(n *node) {
			n.edit("nginx:2")
			n.i.Spec.Paused = true
			n.reconcile()
			n.expect(false, "nginx:latest")
		}},
		"changed by hand": {do: func(n *node) {
			n.changedByHand()
			n.start()
			n.reconcile()
			if got := image(n.pod); got != "nginx:latest" {
				n.Fatalf("the pod has image %s", got)
			}
			n.start()
			n.reconcile()
			n.expect(true, "nginx:latest")
		}},
		"changed by hand, and the kubelet did nothing yet": {do: func(n *node) {
			n.changedByHand()
			n.observe()
			n.reconcile()
			n.observe()
			n.reconcile()
			n.expect(true, "nginx:latest")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			if tc.set != nil {
				tc.set(n)
			}
			n.born()
			tc.do(n)
			ran := n.writes
			n.reconcile()
			if n.writes > ran {
				t.Error("one more reconcile writes the pod again")
			}
		})
	}
}

// Only what admission made of the image when the pod was created is kept.
func TestReport_RepairsAnImageThatWasChangedBeforeThePodWasObserved(t *testing.T) {
	n := newNode(t)
	n.reconcile()
	n.changedByHand()
	n.settle()
	n.start()
	n.reconcile()
	n.expect(true, "nginx:latest")
}

// The image was being pulled when the user corrected it: the kubelet starts a
// container of that image, reports it with the new generation, and stops it.
func TestReport_ContainerOfAnImageThatWasBeingPulledIsNotTheNewOne(t *testing.T) {
	n := newNode(t)
	n.reconcile()
	n.reconcile()
	n.pulls()
	n.reconcile()
	was := n.pod
	n.edit("nginx:2")
	n.reconcile()
	// The kubelet still works on the previous generation of the pod.
	applied := n.pod
	n.pod = was
	n.start()
	status := n.pod.Status
	n.pod = applied.DeepCopy()
	n.pod.Status = status
	n.pod.Status.ObservedGeneration = n.pod.Generation
	n.reconcile()
	n.expect(false, "")
	n.start()
	n.reconcile()
	n.expect(true, "nginx:2")
}

// A kubelet of 1.33, or of 1.34 with PodObservedGenerationTracking disabled, never
// reports a generation.
func TestReport_ReadyWithoutAnObservedGeneration(t *testing.T) {
	n := newNode(t)
	n.older = true
	n.born()
	if n.pod.Generation < 2 || n.pod.Status.ObservedGeneration != 0 {
		t.Fatalf("generation %d, observed %d", n.pod.Generation, n.pod.Status.ObservedGeneration)
	}
}

func TestPod_ImageThatAdmissionRewroteStays(t *testing.T) {
	mirror := func(image string) string { return "mirror.example/" + image }
	digest := func(image string) string {
		if len(image) < 32 {
			image += "@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
		}
		return image
	}
	for name, tc := range map[string]struct {
		admit      func(string) string
		onlyCreate bool
		want, next string
	}{
		"a mirror, on creation":           {mirror, true, "mirror.example/nginx:latest", "mirror.example/nginx:2"},
		"a digest, on creation":           {digest, true, digest("nginx:latest"), digest("nginx:2")},
		"a digest, on creation and later": {digest, false, digest("nginx:latest"), digest("nginx:2")},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.admit, n.onlyCreate = tc.admit, tc.onlyCreate
			n.born()
			n.expect(true, tc.want)
			written := n.writes
			n.reconcile()
			if n.writes != written || image(n.pod) != tc.want {
				t.Fatalf("it is written %d times more and has image %s", n.writes-written, image(n.pod))
			}
			// A manual change is reverted to the image that admission stored.
			n.pod = n.pod.DeepCopy()
			n.pod.Spec.Containers[0].Image = "nginx:hand-hand-hand-hand-hand-hand-hand"
			n.reconcile()
			if image(n.pod) != tc.want {
				t.Fatalf("it has image %s, want %s", image(n.pod), tc.want)
			}
			// A new image requires a new pod, which is admitted again.
			n.edit("nginx:2")
			n.reconcile()
			n.expect(false, tc.want)
			if n.pod != nil {
				t.Fatalf("the pod has image %s", image(n.pod))
			}
			n.born()
			n.expect(true, tc.next)
		})
	}
}

// A webhook that changes the image only on updates is not overwritten either: the
// image that the API server stored is the one that has to run.
func TestReport_ImageThatAdmissionRewroteInPlace(t *testing.T) {
	n := newNode(t)
	n.born()
	n.admit = func(image string) string { return "mirror.example/" + image }
	n.edit("nginx:2")
	n.reconcile()
	n.observe()
	n.reconcile()
	n.expect(false, "nginx:latest")
	n.start()
	n.reconcile()
	n.expect(true, "mirror.example/nginx:2")
}
