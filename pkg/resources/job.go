package resources

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	batchv1ac "k8s.io/client-go/applyconfigurations/batch/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

// Command is a command that runs once, in a Job with a pod like those of a template.
type Command struct {
	Name, Namespace string
	// Labels are those of the Job, and PodLabels those of its pod.
	Labels, PodLabels map[string]string
	Template          *corev1ac.PodTemplateSpecApplyConfiguration
	// Container is the container of the template whose image runs.
	Container string
	Before    *common.Before
}

// commandDeadline is how long a command may take by default, in seconds, as a rollout.
const commandDeadline = 600

// Job returns the intent of the Job of a command. Neither the Job nor the kubelet retries it,
// and the Job fails only when its pod has ended, so that the command does not run any more.
func Job(c Command) apply.Intent {
	in := apply.New(batchv1ac.Job(c.Name, c.Namespace).WithLabels(c.Labels).
		WithSpec(batchv1ac.JobSpec().
			WithParallelism(1).WithCompletions(1).WithBackoffLimit(0).
			WithPodReplacementPolicy(batchv1.Failed).
			WithActiveDeadlineSeconds(int64(ptr.Deref(c.Before.DeadlineSeconds, commandDeadline))).
			WithTemplate(c.template())),
		func() *batchv1.Job { return &batchv1.Job{} })
	in.DeleteOnOrphan = true
	return in
}

func (c Command) template() *corev1ac.PodTemplateSpecApplyConfiguration {
	t := as[corev1ac.PodTemplateSpecApplyConfiguration](c.Template)
	t.Labels = nil
	t.WithLabels(c.PodLabels)
	delete(t.Annotations, naming.AnnotationTemplate) // it is not a pod of the revision
	pod := t.Spec.WithRestartPolicy(corev1.RestartPolicyNever)
	pod.TopologySpreadConstraints = nil
	if pod.Affinity != nil {
		// One pod on any node that the pods of the application may use is enough.
		pod.Affinity.PodAffinity, pod.Affinity.PodAntiAffinity = nil, nil
		if pod.Affinity.NodeAffinity == nil {
			pod.Affinity = nil
		}
	}
	pod.Containers = slices.DeleteFunc(pod.Containers, func(other corev1ac.ContainerApplyConfiguration) bool { return *other.Name != c.Container })
	for i := range pod.Containers {
		c.run(&pod.Containers[i])
	}
	return t
}

// run makes a container of the application run the command.
func (c Command) run(container *corev1ac.ContainerApplyConfiguration) {
	container.Command, container.Args = slices.Clone(c.Before.Command), slices.Clone(c.Before.Args)
	container.Ports, container.Lifecycle = nil, nil
	container.LivenessProbe, container.ReadinessProbe, container.StartupProbe = nil, nil, nil
	for _, e := range each[corev1ac.EnvVarApplyConfiguration](c.Before.Env) {
		// In its place, so that the variables that refer to it get the new value.
		i := slices.IndexFunc(container.Env, func(other corev1ac.EnvVarApplyConfiguration) bool { return *other.Name == *e.Name })
		if i < 0 {
			container.WithEnv(e)
			continue
		}
		container.Env[i] = *e
	}
}
