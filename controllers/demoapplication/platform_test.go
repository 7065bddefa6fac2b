package demoapplication

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/fault"
)

// Admission may be off, and the configuration may have become stricter since.
func TestDesired_DoesNotRouteDisallowedHosts(t *testing.T) {
	strict := platform
	strict.Hosts = []config.Hosts{{Namespaces: []string{"*"}, Hosts: []string{"*.example.com"}}}
	for host, want := range map[string]string{
		"a.example.com": "", // the message if it is rejected
		"a.b":           "spec.expose.hosts[0]: Forbidden: the platform configuration",
	} {
		a := sample()
		a.Spec.Expose = &common.Expose{Type: common.ExposeIngress, Hosts: []string{host}}
		plan, err := desired(a, Observed{Offline: true}, strict)
		if err != nil {
			t.Fatal(err)
		}
		if got := has(plan, "Ingress"); got != (want == "") {
			t.Errorf("%s: got Ingress created %v", host, got)
		}
		report(a, Observed{Offline: true}, outcome(nil, rolled(1, 1), nil), strict)
		c := meta.FindStatusCondition(a.Status.Conditions, common.ConditionExposed)
		if c == nil || (c.Reason == common.ReasonNotAllowed) != (want != "") || want != "" && !strings.Contains(c.Message, want) {
			t.Errorf("%s: Exposed is %+v, want %q", host, c, want)
		}
	}
}

func has(plan converge.Plan, kind string) bool {
	for _, in := range plan.Apply {
		if in.Kind == kind {
			return true
		}
	}
	return false
}

func TestDesired_ServiceAccountNeedsThePlatformsPermission(t *testing.T) {
	a := sample()
	a.Spec.Pod = &common.Pod{ServiceAccountName: "robot"}
	plan, err := desired(a, Observed{Offline: true}, platform)
	if v := fault.Classify(err); v.Class != fault.Stall || v.Reason != common.ReasonNotAllowed || !strings.HasSuffix(v.Message, "Remove spec.pod.serviceAccountName.") {
		t.Errorf("got %v", err)
	}
	if has(plan, "Deployment") || has(plan, "ControllerRevision") || len(plan.Prune) > 0 {
		t.Errorf("the pods do not stay as they are: %v", plan)
	}
	granting := platform
	granting.ServiceAccounts = true
	if plan, err := desired(a, Observed{Offline: true}, granting); err != nil || !has(plan, "Deployment") {
		t.Errorf("granted: %v, %v", plan, err)
	}
	a.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	if _, err := desired(a, Observed{Offline: true}, platform); err != nil {
		t.Errorf("an object that is being deleted: %v", err)
	}
}
