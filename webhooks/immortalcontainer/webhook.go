// Package immortalcontainer validates ImmortalContainers.
package immortalcontainer

import (
	"github.com/platform-operator/platform-operator/apis/common"
	immortalv1alpha1 "github.com/platform-operator/platform-operator/apis/immortalcontainer/v1alpha1"
	"github.com/platform-operator/platform-operator/webhooks/validate"
)

// The match conditions exclude requests that must never depend on a webhook:
// deletions, the removal of finalizers, and updates that do not change the spec.
// The mutating webhook is called for creations, to which it may add defaults, and for
// updates to which it adds the finalizer.

// +kubebuilder:webhook:path=/mutate-immortalcontainer-flugel-it-v1alpha1-immortalcontainer,mutating=true,failurePolicy=fail,sideEffects=None,matchPolicy=Equivalent,timeoutSeconds=5,groups=immortalcontainer.flugel.it,resources=immortalcontainers,verbs=create;update,versions=v1alpha1,name=default.immortalcontainers.immortalcontainer.flugel.it,admissionReviewVersions=v1,patch=`{"matchConditions":[{"name":"not-being-deleted","expression":"!has(object.metadata.deletionTimestamp)"},{"name":"spec-changed","expression":"request.operation == 'CREATE' || !has(object.spec) || !has(oldObject.spec) || object.spec != oldObject.spec"},{"name":"created-or-finalizer-missing","expression":"request.operation == 'CREATE' || has(object.spec) && type(object.spec) == map && has(object.spec.deletionPolicy) && object.spec.deletionPolicy == 'Orphan' && !(has(object.metadata.finalizers) && 'platform-operator.io/teardown' in object.metadata.finalizers)"}]}`
// +kubebuilder:webhook:path=/validate-immortalcontainer-flugel-it-v1alpha1-immortalcontainer,mutating=false,failurePolicy=fail,sideEffects=None,matchPolicy=Equivalent,timeoutSeconds=5,groups=immortalcontainer.flugel.it,resources=immortalcontainers,verbs=create;update,versions=v1alpha1,name=validate.immortalcontainers.immortalcontainer.flugel.it,admissionReviewVersions=v1,patch=`{"matchConditions":[{"name":"not-being-deleted","expression":"!has(object.metadata.deletionTimestamp)"},{"name":"spec-changed","expression":"request.operation == 'CREATE' || !has(object.spec) || !has(oldObject.spec) || object.spec != oldObject.spec"}]}`

// Kind returns the admission of ImmortalContainer.
func Kind() validate.AnyKind {
	return validate.Erase(validate.Kind[*immortalv1alpha1.ImmortalContainer]{
		GVK:      immortalv1alpha1.GroupVersion.WithKind(immortalv1alpha1.Kind),
		New:      func() *immortalv1alpha1.ImmortalContainer { return &immortalv1alpha1.ImmortalContainer{} },
		Validate: Validate,
		Judge:    judge,
		PodLabel: immortalv1alpha1.PodLabel,
		Pod:      func(o *immortalv1alpha1.ImmortalContainer) *common.Pod { return o.Spec.Pod },
	})
}
