package immortalcontainer

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	immortalv1alpha1 "github.com/platform-operator/platform-operator/apis/immortalcontainer/v1alpha1"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/fault"
)

func asRobot(i *immortalv1alpha1.ImmortalContainer) {
	i.Spec.Pod = &common.Pod{ServiceAccountName: "robot"}
}

func TestDesired_ServiceAccountNeedsThePlatformsPermission(t *testing.T) {
	granting := config.Default()
	granting.ServiceAccounts = true
	for name, o := range map[string]Observed{
		"no pod":                  {Now: born.Time},
		"a pod":                   {Now: born.Time, Pod: livePod()},
		"a pod that ended":        {Now: born.Add(time.Hour), Pod: livePod(endedAs(corev1.PodFailed))},
		"a pod before it runs":    {Now: born.Time, Pod: livePod(withGate)},
		"a pod being deleted":     {Now: born.Time, Pod: livePod(func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: born.Time} })},
		"a pod of another's spec": {Now: born.Time, Pod: livePod(func(p *corev1.Pod) { p.Annotations = nil })},
	} {
		plan, err := desired(sample(asRobot), o, config.Default())
		if v := fault.Classify(err); v.Class != fault.Stall || v.Reason != common.ReasonNotAllowed || !strings.HasSuffix(v.Message, "Remove spec.pod.serviceAccountName.") {
			t.Errorf("%s: got %v", name, err)
		}
		if len(plan.Apply)+len(plan.Prune) > 0 {
			t.Errorf("%s: it does not stay as it is: %v", name, plan)
		}
		if plan, err := desired(sample(asRobot), o, granting); err != nil || len(plan.Apply)+len(plan.Prune) != 1 {
			t.Errorf("%s, granted: %v, %v", name, plan, err)
		}
	}
	suspended := sample(asRobot)
	suspended.Spec.Suspend = true
	if plan, err := desired(suspended, Observed{Now: born.Time, Pod: livePod()}, config.Default()); err != nil || len(plan.Prune) != 1 {
		t.Errorf("suspended: %v, %v", plan, err)
	}
	going := sample(asRobot)
	going.DeletionTimestamp = &metav1.Time{Time: born.Time}
	if _, err := desired(going, Observed{Now: born.Time, Pod: livePod()}, config.Default()); err != nil {
		t.Errorf("an object that is being deleted: %v", err)
	}
}

func TestPodSpec_ServiceAccount(t *testing.T) {
	spec := podSpec(sample(asRobot))
	if spec.ServiceAccountName == nil || *spec.ServiceAccountName != "robot" || spec.AutomountServiceAccountToken == nil || !*spec.AutomountServiceAccountToken {
		t.Errorf("got %+v", spec)
	}
	if spec := podSpec(sample()); spec.ServiceAccountName != nil || *spec.AutomountServiceAccountToken {
		t.Errorf("without one: %+v", spec)
	}
}
