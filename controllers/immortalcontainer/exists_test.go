package immortalcontainer

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/platform-operator/platform-operator/apis/common"
	immortalv1alpha1 "github.com/platform-operator/platform-operator/apis/immortalcontainer/v1alpha1"
	"github.com/platform-operator/platform-operator/pkg/apply"
)

// A pod that was not observed, because it lost its label, is treated like an
// observed one: the intent depends on the pod that exists.
func TestPod_FollowsAPodThatWasNotObserved(t *testing.T) {
	placed := func(i *immortalv1alpha1.ImmortalContainer) {
		i.Spec.Pod = &common.Pod{Tolerations: []common.Toleration{{Key: "a", Operator: corev1.TolerationOpExists}}}
	}
	released := func(i *immortalv1alpha1.ImmortalContainer) { i.Status.PodUID, i.Status.StartTimes = "p", 1 }
	refusal := func() error {
		var errs field.ErrorList
		for _, f := range []string{"spec.tolerations", "spec"} {
			errs = append(errs, field.Forbidden(field.NewPath(f), "it cannot be changed"))
		}
		return apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "p", errs)
	}()
	for name, tc := range map[string]struct {
		i        *immortalv1alpha1.ImmortalContainer
		live     *corev1.Pod
		waits    bool
		replaced bool
		kept     bool // as it was created
	}{
		"it runs":                      {i: sample(), live: livePod(), replaced: true}, // it has no annotation of the applied fields
		"it runs, made of another":     {i: sample(placed), live: livePod(), replaced: true},
		"behind the gate":              {i: sample(), live: livePod(withGate), waits: true, replaced: true},
		"behind the gate, and counted": {i: sample(released), live: livePod(withGate), waits: true, replaced: true},
		"behind the gate, counted, made of another": {
			i: sample(placed, released), live: livePod(withGate, func(p *corev1.Pod) {
				p.Annotations[annotationStated] = `{"containers":[{"name":"acontainer"}]}`
			}), waits: true, kept: true, // its count is reverted before it is deleted
		},
		"behind the gate, not counted, made of another": {
			i: sample(placed), live: livePod(withGate, func(p *corev1.Pod) {
				p.Annotations[annotationStated] = `{"containers":[{"name":"acontainer"}]}`
			}), waits: true, replaced: true,
		},
		"an earlier operator's": {i: sample(), live: livePod(func(p *corev1.Pod) { p.Annotations = nil }), replaced: true},
	} {
		t.Run(name, func(t *testing.T) {
			created := pod(tc.i, Observed{})
			if !waitsIn(t, created, tc.i) {
				t.Error("a new pod would run before it is counted")
			}
			in := pod(tc.i, Observed{}).IfExists(tc.live)
			if got := waitsIn(t, in, tc.i); got != tc.waits {
				t.Errorf("behind the gate: %v, want %v", got, tc.waits)
			}
			stated := podOf(t, in, tc.i)
			if got := !madeOf(stated, tc.i) && len(stated.Spec.Tolerations) == 0; got != tc.kept {
				t.Errorf("kept as it was created: %v, want %v", got, tc.kept)
			}
			if got := in.Replace != nil && in.Replace(refusal); got != tc.replaced {
				t.Errorf("replaced after %v: %v", refusal, got)
			}
		})
	}
}

// waitsIn reports whether an intent contains the gate.
func waitsIn(t *testing.T, in apply.Intent, i *immortalv1alpha1.ImmortalContainer) bool {
	t.Helper()
	return gated(podOf(t, in, i))
}

// podOf returns the pod that an intent states.
func podOf(t *testing.T, in apply.Intent, i *immortalv1alpha1.ImmortalContainer) *corev1.Pod {
	t.Helper()
	raw, err := in.Object(i, gvk)
	if err != nil {
		t.Fatal(err)
	}
	p := &corev1.Pod{}
	if err := json.Unmarshal(raw, p); err != nil {
		t.Fatal(err)
	}
	return p
}
