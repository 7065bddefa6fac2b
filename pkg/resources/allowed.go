package resources

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/fault"
)

// Admission rejects what the platform configuration does not allow. Two of its
// rules concern more than the namespace of an object and the permissions of its
// creator, so they are also enforced here: admission may not be installed, an
// object may have been admitted before the rule existed, and an earlier
// template may be used again.

// CheckExpose returns why no requests may be routed from the hosts of an object
// to its Service, with the names of the fields, or nil if they may.
func CheckExpose(platform config.Platform, namespace string, e *common.Expose) error {
	return platform.RefusesExpose(namespace, e, field.NewPath("spec", "expose")).ToAggregate()
}

// CheckServiceAccount returns an error of class Stall if no pods may be created from a
// template. It checks the template rather than the spec, because a revision
// that is pinned or rolled back to has its own service account. It returns nil
// for an object that is being deleted, of whose children only the names are
// used.
func CheckServiceAccount(platform config.Platform, obj metav1.Object, t *corev1ac.PodTemplateSpecApplyConfiguration) error {
	if platform.ServiceAccounts || obj.GetDeletionTimestamp() != nil || t == nil || t.Spec == nil {
		return nil
	}
	// Kubernetes uses the older name of the field if the other one is not set.
	for _, name := range []*string{t.Spec.ServiceAccountName, t.Spec.DeprecatedServiceAccount} {
		if ptr.Deref(name, "") != "" {
			return ServiceAccountNotAllowed(*name)
		}
	}
	return nil
}

// ServiceAccountNotAllowed returns the error for pods that may not run as a service account.
func ServiceAccountNotAllowed(serviceAccount string) error {
	return fault.Stalled(msgServiceAccount, serviceAccount)
}
