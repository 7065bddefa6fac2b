package immortalcontainer

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	immortalv1alpha1 "github.com/platform-operator/platform-operator/apis/immortalcontainer/v1alpha1"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/testkit/messages"
)

// settle reconciles until nothing more is written.
func (n *node) settle() {
	n.Helper()
	for range 10 {
		status, pod := n.i.Status.DeepCopy(), n.pod
		n.reconcile()
		if n.pod == pod && n.i.Status.StartTimes == status.StartTimes && n.i.Status.PodUID == status.PodUID {
			return
		}
	}
	n.Fatal("it does not come to rest")
}

func TestReport_CountsPodsThatWereReleasedAndNoOthers(t *testing.T) {
	args := func(n *node) { n.i.Spec.Args = append(n.i.Spec.Args, "a"); n.i.Generation++ }
	suspend := func(suspended bool) func(*node) {
		return func(n *node) { n.i.Spec.Suspend = suspended; n.i.Generation++ }
	}
	pause := func(paused bool) func(*node) {
		return func(n *node) { n.i.Spec.Paused = paused; n.i.Generation++ }
	}
	deleted := func(n *node) { n.pod = nil }
	rest := func(n *node) { n.settle() }
	once := func(n *node) { n.reconcile() }
	rewrite := func(n *node) { n.admit = func(image string) string { return "mirror.example/" + image } }
	for name, steps := range map[string][]func(*node){
		"released":                                  {rest},
		"edited before it is released":              {args, rest},
		"edited twice before it is released":        {args, once, args, rest},
		"suspended before it is released":           {suspend(true), rest},
		"suspended and resumed before anything":     {suspend(true), suspend(false), rest},
		"suspended, seen and resumed":               {suspend(true), once, suspend(false), rest},
		"suspended and resumed":                     {suspend(true), rest, suspend(false), rest},
		"suspended with another image, and resumed": {suspend(true), func(n *node) { n.edit("nginx:2") }, rest, suspend(false), rest},
		"another image before it is released":       {func(n *node) { n.edit("nginx:2") }, rest},
		"another image that admission rewrites":     {rest, deleted, rewrite, once, func(n *node) { n.edit("nginx:2") }, rest},
		"paused, and its pod deleted":               {pause(true), rest, deleted, rest, pause(false), rest},
		"paused, edited and resumed":                {pause(true), args, rest, pause(false), rest},
		"deleted while it runs":                     {rest, deleted, rest},
		"edited while it runs":                      {rest, deleted, once, args, rest},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.pod = livePod(withGate, func(p *corev1.Pod) { p.UID, p.Annotations[annotationImage] = "p", `{"asked":"nginx:latest"}` })
			n.i.Status.PodUID, n.i.Status.StartTimes = "p", 1 // created and counted
			for _, step := range steps {
				step(n)
			}
			if got := n.i.Status.StartTimes; got != int64(len(n.released)) {
				t.Errorf("%d starts, and %d pods were released to run", got, len(n.released))
			}
		})
	}
}

// The order matters: the count is reverted before the pod is deleted. Otherwise it
// would be wrong after a crash in between.
func TestDesired_DeletesAPodThatIsNotReleasedOnlyUncounted(t *testing.T) {
	counted := func(i *immortalv1alpha1.ImmortalContainer) { i.Status.PodUID, i.Status.StartTimes = "p", 1 }
	for name, change := range map[string]func(*immortalv1alpha1.ImmortalContainer){
		"suspended": func(i *immortalv1alpha1.ImmortalContainer) { i.Spec.Suspend = true },
		"edited":    func(i *immortalv1alpha1.ImmortalContainer) { i.Spec.Args = []string{"a"} },
	} {
		t.Run(name, func(t *testing.T) {
			i, o := sample(counted, change), Observed{Pod: livePod(withGate), Now: born.Time}
			plan, err := desired(i, o, config.Default())
			if err != nil || len(plan.Apply)+len(plan.Prune) > 0 {
				t.Fatalf("counted: %+v, %v", plan, err)
			}
			report(i, o, converge.NewOutcome(born.Time, fault.Verdict{}, nil))
			if i.Status.StartTimes != 0 || i.Status.PodUID != "" {
				t.Fatalf("%d starts, last pod %q", i.Status.StartTimes, i.Status.PodUID)
			}
			plan, err = desired(i, o, config.Default())
			if err != nil || len(plan.Prune) != 1 {
				t.Fatalf("not counted: %+v, %v", plan, err)
			}
			// Its gate was removed nevertheless.
			report(i, Observed{Pod: livePod()}, converge.NewOutcome(born.Time, fault.Verdict{}, nil))
			if i.Status.StartTimes != 1 || i.Status.PodUID != "p" {
				t.Errorf("it runs: %d starts, last pod %q", i.Status.StartTimes, i.Status.PodUID)
			}
		})
	}
}

// A pod that cannot be released yet is not counted, because it may be deleted
// before it runs.
func TestReport_CountsNoPodThatCannotBeReleased(t *testing.T) {
	conflict := fault.Classify(fault.Stalled(messages.New(common.ReasonConflict, "m")))
	notAllowed := fault.Classify(fault.Stalled(messages.New(common.ReasonNotAllowed, "m")))
	for name, tc := range map[string]struct {
		counted  bool
		isolated bool
		pod      *corev1.Pod
		problem  fault.Verdict
		want     int64
	}{
		"its NetworkPolicy is in conflict":                 {pod: livePod(withGate), problem: conflict, isolated: true},
		"its service account is not allowed":               {pod: livePod(withGate), problem: notAllowed},
		"its service account is no longer allowed":         {counted: true, pod: livePod(withGate), problem: notAllowed},
		"being deleted":                                    {counted: true, pod: livePod(withGate, func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: born.Time} })},
		"the request that lifts its gate may have arrived": {counted: true, pod: livePod(withGate), problem: fault.Classify(errors.New("no answer")), want: 1},
		"a child that it does not depend on fails":         {pod: livePod(withGate), problem: conflict, want: 1},
		"it runs, and a child is in conflict":              {pod: livePod(), problem: conflict, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			i := sample()
			if tc.counted {
				i.Status.PodUID, i.Status.StartTimes = "p", 1
			}
			if tc.isolated {
				i.Spec.NetworkPolicy = &common.NetworkPolicy{}
			}
			for range 2 {
				report(i, Observed{Pod: tc.pod}, converge.NewOutcome(born.Time, tc.problem, nil))
			}
			if i.Status.StartTimes != tc.want {
				t.Errorf("%d starts, want %d", i.Status.StartTimes, tc.want)
			}
		})
	}
}
