package resources

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/fault"
)

// Admission refuses what the platform configuration does not allow. Two of its
// rules reach beyond an object's namespace and its creator's rights, so they
// are kept here too: where there is no admission, for what was admitted before
// the rule, and for an earlier template that comes back.

// Exposable returns why the hosts of an object may not be led to it, naming
// the fields, or nil where they may.
func Exposable(platform config.Platform, namespace string, e *common.Expose) error {
	return platform.RefusesExpose(namespace, e, field.NewPath("spec", "expose")).ToAggregate()
}

// Granted returns, as an error of class Stall, why no pods may be made from a
// template, or nil where they may. It looks at the template and not at the
// spec, because a revision that is pinned or rolled back to has its own. Of an
// object that is being deleted only names matter.
func Granted(platform config.Platform, obj metav1.Object, t *corev1ac.PodTemplateSpecApplyConfiguration) error {
	if platform.ServiceAccounts || obj.GetDeletionTimestamp() != nil || t == nil || t.Spec == nil || t.Spec.ServiceAccountName == nil {
		return nil
	}
	return NotGranted(*t.Spec.ServiceAccountName)
}

// NotGranted is the error of a pod that may not run as a service account.
func NotGranted(serviceAccount string) error {
	return fault.Stalled(common.ReasonNotAllowed, "spec.pod.serviceAccountName: pods may not run as %q: %s", serviceAccount, config.NoServiceAccounts)
}
