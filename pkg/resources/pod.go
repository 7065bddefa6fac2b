package resources

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/platform-operator/platform-operator/apis/common"
)

// PodSpec begins the pod of every kind: no token of the service account, no
// environment variables about Services, half a minute to end. All of it is
// stated, so that a change by hand is drift.
func PodSpec() *corev1ac.PodSpecApplyConfiguration {
	return corev1ac.PodSpec().
		WithAutomountServiceAccountToken(false).
		WithEnableServiceLinks(false).
		WithRestartPolicy(corev1.RestartPolicyAlways).
		WithTerminationGracePeriodSeconds(30)
}

// RestrictedPod is the pod's part of what the Pod Security Standard
// "restricted" asks for, for a process of that user and group.
func RestrictedPod(user int64) *corev1ac.PodSecurityContextApplyConfiguration {
	pod, _ := SecurityContexts(nil, SecurityDefaults{Profile: common.SecurityRestricted, User: user})
	return pod
}

// RestrictedContainer is the container's part of it, and a root file system
// that cannot be written.
func RestrictedContainer() *corev1ac.SecurityContextApplyConfiguration {
	_, container := SecurityContexts(nil, SecurityDefaults{Profile: common.SecurityRestricted, ReadOnlyRootFilesystem: true})
	return container
}

// TCPReadiness is the readiness probe of a container that serves on that port.
// Without one a pod counts as ready before it listens. Every number is stated,
// so that a change by hand is drift.
func TCPReadiness(port int) *corev1ac.ProbeApplyConfiguration {
	return corev1ac.Probe().
		WithTCPSocket(corev1ac.TCPSocketAction().WithPort(intstr.FromInt(port))).
		WithPeriodSeconds(2).WithTimeoutSeconds(1).WithSuccessThreshold(1).WithFailureThreshold(3)
}

// Scratch is an empty writable directory of the pod, and where it is mounted.
func Scratch(name, path string) (*corev1ac.VolumeApplyConfiguration, *corev1ac.VolumeMountApplyConfiguration) {
	return corev1ac.Volume().WithName(name).WithEmptyDir(corev1ac.EmptyDirVolumeSource()),
		corev1ac.VolumeMount().WithName(name).WithMountPath(path)
}
