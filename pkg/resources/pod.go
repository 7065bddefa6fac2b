package resources

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/config"
)

// PodSpec returns the common base of the pods of all kinds: no service account
// token, no environment variables for Services, and a grace period of 30
// seconds. All of these fields are applied, so that a manual change is drift.
func PodSpec() *corev1ac.PodSpecApplyConfiguration {
	return corev1ac.PodSpec().
		WithAutomountServiceAccountToken(false).
		WithEnableServiceLinks(false).
		WithRestartPolicy(corev1.RestartPolicyAlways).
		WithTerminationGracePeriodSeconds(config.DefaultGracePeriod)
}

// RestrictedContainer returns the container security context that the Pod Security
// Standard "restricted" requires, with a read-only root file system.
func RestrictedContainer() *corev1ac.SecurityContextApplyConfiguration {
	_, container := SecurityContexts(nil, SecurityDefaults{Profile: common.SecurityRestricted, ReadOnlyRootFilesystem: true})
	return container
}

// TCPReadiness returns the readiness probe of a container that listens on a
// port. Without a probe, a pod is ready before it listens. Every number is
// applied, so that a manual change is drift.
func TCPReadiness(port int) *corev1ac.ProbeApplyConfiguration {
	return corev1ac.Probe().
		WithTCPSocket(corev1ac.TCPSocketAction().WithPort(intstr.FromInt(port))).
		WithPeriodSeconds(2).WithTimeoutSeconds(1).WithSuccessThreshold(1).WithFailureThreshold(3)
}

// Scratch returns an empty writable volume and its mount.
func Scratch(name, path string) (*corev1ac.VolumeApplyConfiguration, *corev1ac.VolumeMountApplyConfiguration) {
	return corev1ac.Volume().WithName(name).WithEmptyDir(corev1ac.EmptyDirVolumeSource()),
		corev1ac.VolumeMount().WithName(name).WithMountPath(path)
}

// Small returns the resources of a container that the operator adds to others. Where those
// have a limit of CPU, a quota of limits may apply to all containers of the pod.
func Small(others *common.Resources, memory string) *corev1ac.ResourceRequirementsApplyConfiguration {
	limits := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)}
	if others != nil && !others.Limits.Cpu().IsZero() {
		limits[corev1.ResourceCPU] = resource.MustParse("100m")
	}
	return corev1ac.ResourceRequirements().WithLimits(limits).
		WithRequests(corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("5m"), corev1.ResourceMemory: resource.MustParse("16Mi")})
}
