package immortalcontainer

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	immortalv1alpha1 "github.com/platform-operator/platform-operator/apis/immortalcontainer/v1alpha1"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/testkit/messages"
)

// An isolated pod is never reachable from outside its policy: it is neither created
// nor released before its NetworkPolicy exists. A running pod is still repaired.
func TestDesired_PodWaitsForItsNetworkPolicy(t *testing.T) {
	counted := func(i *immortalv1alpha1.ImmortalContainer) { i.Status.PodUID, i.Status.StartTimes = "p", 1 }
	for name, tc := range map[string]struct {
		pod     *corev1.Pod
		refused bool
		want    []string
	}{
		"no pod":                       {want: []string{"NetworkPolicy", "Pod"}},
		"no pod, and no policy":        {refused: true, want: []string{"NetworkPolicy"}},
		"behind the gate, no policy":   {pod: livePod(withGate), refused: true, want: []string{"NetworkPolicy"}},
		"behind the gate, with policy": {pod: livePod(withGate), want: []string{"NetworkPolicy", "Pod"}},
		"it runs, and no policy":       {pod: livePod(), refused: true, want: []string{"NetworkPolicy", "Pod"}},
	} {
		t.Run(name, func(t *testing.T) {
			i := sample(counted, func(i *immortalv1alpha1.ImmortalContainer) {
				i.Spec.NetworkPolicy = &common.NetworkPolicy{Preset: common.NetworkPolicyIsolated}
			})
			plan, err := desired(i, Observed{Pod: tc.pod, Now: born.Time}, config.Default())
			if err != nil {
				t.Fatal(err)
			}
			var written []string
			owned := func(_ context.Context, in apply.Intent) (bool, error) { return in.Kind == "Pod" && tc.pod != nil, nil }
			err = converge.ForEachChild(t.Context(), plan, owned, func(in apply.Intent) error {
				written = append(written, in.Kind)
				if in.Kind == "NetworkPolicy" && tc.refused {
					return fault.Stalled(messages.New(common.ReasonConflict, "it belongs to another object"))
				}
				return nil
			})
			if !slices.Equal(written, tc.want) || (err != nil) != tc.refused {
				t.Errorf("written: %v, error %v; want %v", written, err, tc.want)
			}
		})
	}
}
