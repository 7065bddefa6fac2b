package workload

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/judge"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/resources"
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
			WithData(map[string]string{judge.CanaryFile: m.judgement().Encode()}),
			func() *corev1.ConfigMap { return &corev1.ConfigMap{} })
	}, live)
}

func (m *Model) judgement() judge.Settings {
	s := m.Decision.Judgement()
	s.Metrics = m.spec.Requests
	return s
}

// CheckJudge returns an error if the errors of canaries cannot be counted.
func CheckJudge(r *common.Rollout, p config.Platform) error {
	if r.Judged() && p.Pods.JudgeImage == "" {
		return fault.Stalled(msgNoJudge)
	}
	return nil
}

// JudgeContainer returns a container that counts the errors of a canary, with little memory
// and, if other containers have a limit of CPU, with one of CPU.
func JudgeContainer(image string, others *common.Resources) *corev1ac.ContainerApplyConfiguration {
	return corev1ac.Container().
		WithName(judge.Container).
		WithImage(image).
		WithImagePullPolicy(config.DefaultPull(image)).
		WithArgs("judge").
		WithRestartPolicy(corev1.ContainerRestartPolicyAlways).
		WithSecurityContext(resources.RestrictedContainer()).
		WithResources(resources.Small(others, "32Mi")).
		WithVolumeMounts(corev1ac.VolumeMount().WithName(judge.Container).WithMountPath("/etc/judge").WithReadOnly(true))
}

// JudgeVolume returns the volume with the settings. They are not in the template, so that
// the pods of a canary are not replaced when it is promoted.
func JudgeVolume(owner metav1.Object) *corev1ac.VolumeApplyConfiguration {
	own := corev1ac.DownwardAPIVolumeFile().WithPath(judge.TemplateFile).
		WithFieldRef(corev1ac.ObjectFieldSelector().WithFieldPath("metadata.annotations['" + naming.AnnotationTemplate + "']"))
	return corev1ac.Volume().WithName(judge.Container).WithProjected(corev1ac.ProjectedVolumeSource().WithDefaultMode(0o444).WithSources(
		corev1ac.VolumeProjection().WithConfigMap(corev1ac.ConfigMapProjection().WithName(JudgeName(owner)).WithOptional(true)),
		corev1ac.VolumeProjection().WithDownwardAPI(corev1ac.DownwardAPIProjection().WithItems(own))))
}
