package workload

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/judge"
)

// JudgeName returns the name of the ConfigMap that tells the pods of an object whether they
// are those of a canary.
func JudgeName(owner metav1.Object) string { return owner.GetName() + "-canary" }

// addJudge adds that ConfigMap to a plan, before the Deployment: no pod of a canary starts
// without it, and no other one with it.
func (m *Model) addJudge(plan *converge.Plan) {
	owner, name := m.spec.Owner, JudgeName(m.spec.Owner)
	var live *corev1.ConfigMap
	for _, cm := range m.observed.Snapshots {
		if cm.Name == name {
			live = cm
		}
	}
	converge.ApplyOrPrune(plan, m.spec.Rollout.Judged(), func() apply.Intent {
		return apply.New(corev1ac.ConfigMap(name, owner.GetNamespace()).
			WithLabels(m.spec.Labels).
			WithData(map[string]string{judge.CanaryFile: m.Decision.Judgement().Encode()}),
			func() *corev1.ConfigMap { return &corev1.ConfigMap{} })
	}, live)
}
