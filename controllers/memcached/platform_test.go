package memcached

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/rollout"
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

// A Memcached without an image keeps that of its revision, which is not known to
// be from the operator.
func TestDesired_AdoptsNoImageThatIsNotAllowed(t *testing.T) {
	strict := platform
	strict.Images.Allowed = []string{"registry.example"}
	m := sample()
	plan, err := desired(m, Observed{}, strict)
	if err != nil {
		t.Fatal(err)
	}
	stored := &appsv1.ControllerRevision{}
	for _, in := range plan.Apply {
		if in.Kind != "ControllerRevision" {
			continue
		}
		raw, err := in.Object(m, metav1.GroupVersionKind{Group: "cache.example.com", Version: "v1alpha1", Kind: "Memcached"})
		if err != nil {
			t.Fatal(err)
		}
		forged := strings.NewReplacer(strict.Memcached.Image, "evil.example/x:1", naming.AnnotationTemplate+`":"`, naming.AnnotationTemplate+`":"0`)
		if err := json.Unmarshal([]byte(forged.Replace(string(raw))), stored); err != nil {
			t.Fatal(err)
		}
	}
	plan, err = desired(m, Observed{Observed: rollout.Observed{Revisions: []*appsv1.ControllerRevision{stored}}}, strict)
	if v := fault.Classify(err); v.Reason != common.ReasonNotAllowed || !strings.Contains(v.Message, `spec.containers[memcached].image "evil.example/x:1"`) {
		t.Errorf("got %v", err)
	}
	for _, in := range plan.Apply {
		if in.Kind == "Deployment" {
			t.Error("the Deployment is created")
		}
	}
}
