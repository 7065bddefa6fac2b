package resources

import (
	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"

	"github.com/platform-operator/platform-operator/apis/common"
)

// SecurityDefaults are the settings of a kind that apply unless the user sets
// them.
type SecurityDefaults struct {
	// Profile is the least strict profile of the kind's pods.
	Profile common.SecurityProfile
	// User is the user and group ID of the processes. If it is 0, the image
	// sets them.
	User int64
	// ReadOnlyRootFilesystem is true for kinds that know the paths their image
	// writes to.
	ReadOnlyRootFilesystem bool
}

// SecurityContexts returns the security contexts of the pod and of the
// container for a profile, with the user's IDs. The profile Restricted complies
// with the Pod Security Standard "restricted", and Baseline with "baseline". A
// user can choose a stricter profile than that of the kind; a less strict one
// is rejected by admission and has no effect here.
func SecurityContexts(s *common.Security, own SecurityDefaults) (*corev1ac.PodSecurityContextApplyConfiguration, *corev1ac.SecurityContextApplyConfiguration) {
	if s == nil {
		s = &common.Security{}
	}
	pod := corev1ac.PodSecurityContext().
		WithSeccompProfile(corev1ac.SeccompProfile().WithType(corev1.SeccompProfileTypeRuntimeDefault))
	container := corev1ac.SecurityContext()
	if own.Profile == common.SecurityRestricted || s.Profile == common.SecurityRestricted {
		pod.WithRunAsNonRoot(true)
		container.WithAllowPrivilegeEscalation(false).
			WithCapabilities(corev1ac.Capabilities().WithDrop("ALL"))
	} else {
		container.WithPrivileged(false)
	}
	user := ptr.Deref(s.RunAsUser, own.User)
	if user != 0 {
		pod.WithRunAsUser(user)
	}
	switch {
	case s.RunAsGroup != nil:
		pod.WithRunAsGroup(*s.RunAsGroup)
	case user != 0:
		// Without a group, the processes would run with that of root.
		pod.WithRunAsGroup(user)
	}
	if s.FSGroup != nil {
		pod.WithFSGroup(*s.FSGroup)
	}
	if s.ReadOnlyRootFilesystem != nil || own.ReadOnlyRootFilesystem {
		container.WithReadOnlyRootFilesystem(ptr.Deref(s.ReadOnlyRootFilesystem, own.ReadOnlyRootFilesystem))
	}
	return pod, container
}
