package rollout

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
)

// Each revision keeps the ConfigMaps that it mounts, so their number alone does
// not bound what one object makes the operator and etcd store.
func TestDecide_BoundsTheBytesOfTheHistory(t *testing.T) {
	const mib = 1 << 20
	for name, tc := range map[string]struct {
		size    func(revision int) int64
		healthy int64 // the last healthy revision, if it is not the newest
		want    []int64
	}{
		"small content": {func(int) int64 { return 1 }, 0, []int64{4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}},
		"large content": {func(int) int64 { return mib }, 0, []int64{12, 13, 14}},
		"one that does not fit ends the history": {func(n int) int64 {
			if n == 10 {
				return 4 * mib
			}
			return 1
		}, 0, []int64{11, 12, 13, 14}},
		"larger than the limit": {func(int) int64 { return 5 * mib }, 0, []int64{14}},
		"the last healthy one":  {func(int) int64 { return 2 * mib }, 5, []int64{5, 14}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			sizes := map[string]int64{}
			for n := 1; n <= 14; n++ {
				w.image = fmt.Sprintf("web:%d", n)
				snapshot := fmt.Sprintf("web-%d", n)
				sizes[snapshot] = tc.size(n)
				for range 3 { // creates the revision, observes it, and prunes the earlier ones
					q := w.question()
					q.SnapshotSizes = sizes
					q.Template.Spec.WithVolumes(corev1ac.Volume().WithName("v").WithConfigMap(corev1ac.ConfigMapVolumeSource().WithName(snapshot)))
					d, err := Decide(q, w.seen)
					if err != nil {
						t.Fatal(err)
					}
					w.follow(d)
					if tc.healthy == 0 || int64(n) <= tc.healthy {
						w.rolls()
					}
				}
			}
			var got []int64
			for _, r := range sorted(w.seen.Revisions) {
				got = append(got, r.Number)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("revisions that are kept (-want +got):\n%s", diff)
			}
		})
	}
}
