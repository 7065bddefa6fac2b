package memcached

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/fault"
)

func TestDesired_ServiceAccountNeedsThePlatformsPermission(t *testing.T) {
	m := sample()
	m.Spec.Pod = &common.Pod{ServiceAccountName: "robot"}
	made := func(plan converge.Plan) bool {
		for _, in := range plan.Apply {
			if in.Kind == "Deployment" || in.Kind == "ControllerRevision" {
				return true
			}
		}
		return false
	}
	plan, err := desired(m, Observed{}, platform)
	if v := fault.Classify(err); v.Class != fault.Stall || v.Reason != common.ReasonNotAllowed || !strings.HasSuffix(v.Message, "Remove spec.pod.serviceAccountName.") {
		t.Errorf("got %v", err)
	}
	if made(plan) || len(plan.Prune) > 0 {
		t.Errorf("the pods do not stay as they are: %v", plan)
	}
	granting := platform
	granting.ServiceAccounts = true
	if plan, err := desired(m, Observed{}, granting); err != nil || !made(plan) {
		t.Errorf("granted: %v, %v", plan, err)
	}
	m.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	if plan, err := desired(m, Observed{}, platform); err != nil || !made(plan) {
		t.Errorf("an object that is being deleted, whose children are named: %v, %v", plan, err)
	}
}
