package resources

import (
	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/platform-operator/platform-operator/apis/common"
)

// SecurityDefaults are a kind's own choices, which hold where the user makes
// none.
type SecurityDefaults struct {
	// Profile is the least strict one that the kind's pods may have.
	Profile common.SecurityProfile
	// User is the user, and group, of the processes; 0 takes the image's.
	User int64
	// ReadOnlyRootFilesystem is for kinds that know where their image writes.
	ReadOnlyRootFilesystem bool
}

// SecurityContexts are the pod's and the container's part of a profile, with
// what the user said about ids. Profile Restricted passes the Pod Security
// Standard "restricted", Baseline "baseline". A user can be stricter than the
// kind; the kinds refuse the opposite, and here it has no effect.
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
	user := or(s.RunAsUser, own.User)
	if user != 0 {
		pod.WithRunAsUser(user)
	}
	switch {
	case s.RunAsGroup != nil:
		pod.WithRunAsGroup(*s.RunAsGroup)
	case user != 0:
		// Without a group the processes would have that of root.
		pod.WithRunAsGroup(user)
	}
	if s.FSGroup != nil {
		pod.WithFSGroup(*s.FSGroup)
	}
	if s.ReadOnlyRootFilesystem != nil || own.ReadOnlyRootFilesystem {
		container.WithReadOnlyRootFilesystem(or(s.ReadOnlyRootFilesystem, own.ReadOnlyRootFilesystem))
	}
	return pod, container
}
