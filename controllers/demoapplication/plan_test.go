package demoapplication

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/testkit/plans"
)

// Every prefix of the writes is a valid state, and a child that cannot be written
// does not affect the others.
func TestDesired_OrdersWhatDependsOnEachOther(t *testing.T) {
	type kinds = []string
	for name, tc := range map[string]struct {
		refused string
		exists  bool
		want    kinds
	}{
		"nothing is refused": {"", false, kinds{"ControllerRevision", "NetworkPolicy", "Deployment", "Service", "PodDisruptionBudget"}},
		"no pod is created before its NetworkPolicy": {
			"NetworkPolicy", false, kinds{"ControllerRevision"},
		},
		"running pods are still managed": {
			"NetworkPolicy", true, kinds{"ControllerRevision", "Deployment", "Service", "PodDisruptionBudget"},
		},
		"no pod is created of a revision that is not recorded": {
			"ControllerRevision", false, kinds{"NetworkPolicy"},
		},
		"an unowned Service does not keep pods from being isolated": {
			"Service", false, kinds{"ControllerRevision", "NetworkPolicy", "Deployment", "PodDisruptionBudget"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := sample()
			a.Spec.Replica = new(int32(3))
			a.Spec.NetworkPolicy = &common.NetworkPolicy{Preset: common.NetworkPolicyIsolated}
			written := plans.Written(planned(t, a, Observed{Offline: true}), tc.refused, func(apply.Intent) bool { return tc.exists })
			if diff := cmp.Diff(tc.want, plans.Kinds(written)); diff != "" {
				t.Errorf("written (-want +got):\n%s", diff)
			}
		})
	}
}
