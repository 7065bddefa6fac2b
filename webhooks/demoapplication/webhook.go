// Package demoapplication validates DemoApplications, as far as the schema and
// its CEL rules cannot.
package demoapplication

import (
	"github.com/platform-operator/platform-operator/apis/common"
	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
	"github.com/platform-operator/platform-operator/webhooks/validate"
)

// The match conditions exclude requests that must never depend on a webhook:
// deletions, the removal of finalizers, and updates that do not change the spec.
// The mutating webhook is called for creations, to which it may add defaults, and for
// updates to which it adds the finalizer.
// With matchPolicy Equivalent, requests for v1beta1 are converted to v1.

// +kubebuilder:webhook:path=/mutate-paas-cmft-com-v1-demoapplication,mutating=true,failurePolicy=fail,sideEffects=None,matchPolicy=Equivalent,timeoutSeconds=5,groups=paas.cmft.com,resources=demoapplications,verbs=create;update,versions=v1,name=default.demoapplications.paas.cmft.com,admissionReviewVersions=v1,patch=`{"matchConditions":[{"name":"not-being-deleted","expression":"!has(object.metadata.deletionTimestamp)"},{"name":"spec-changed","expression":"request.operation == 'CREATE' || !has(object.spec) || !has(oldObject.spec) || object.spec != oldObject.spec"},{"name":"created-or-finalizer-missing","expression":"request.operation == 'CREATE' || has(object.spec) && type(object.spec) == map && has(object.spec.deletionPolicy) && object.spec.deletionPolicy == 'Orphan' && !(has(object.metadata.finalizers) && 'platform-operator.io/teardown' in object.metadata.finalizers)"}]}`
// +kubebuilder:webhook:path=/validate-paas-cmft-com-v1-demoapplication,mutating=false,failurePolicy=fail,sideEffects=None,matchPolicy=Equivalent,timeoutSeconds=5,groups=paas.cmft.com,resources=demoapplications,verbs=create;update,versions=v1,name=validate.demoapplications.paas.cmft.com,admissionReviewVersions=v1,patch=`{"matchConditions":[{"name":"not-being-deleted","expression":"!has(object.metadata.deletionTimestamp)"},{"name":"spec-changed","expression":"request.operation == 'CREATE' || !has(object.spec) || !has(oldObject.spec) || object.spec != oldObject.spec"}]}`

// kubectl scale and autoscalers send a Scale instead of the object. Only requests
// that increase the number of pods are validated.

// +kubebuilder:webhook:path=/validate-paas-cmft-com-v1-demoapplication-scale,mutating=false,failurePolicy=fail,sideEffects=None,matchPolicy=Equivalent,timeoutSeconds=5,groups=paas.cmft.com,resources=demoapplications/scale,verbs=update,versions=v1,name=scale.demoapplications.paas.cmft.com,admissionReviewVersions=v1,patch=`{"matchConditions":[{"name":"more","expression":"has(object.spec) && has(object.spec.replicas) && (!has(oldObject.spec) || !has(oldObject.spec.replicas) || object.spec.replicas > oldObject.spec.replicas)"}]}`

// Kind returns the admission of DemoApplication.
func Kind() validate.AnyKind {
	return validate.Erase(validate.Kind[*demoapplicationv1.DemoApplication]{
		GVK:        demoapplicationv1.GroupVersion.WithKind(demoapplicationv1.Kind),
		New:        func() *demoapplicationv1.DemoApplication { return &demoapplicationv1.DemoApplication{} },
		Validate:   Validate,
		WarnUpdate: warnUpdate,
		Judge:      judge,
		PodLabel:   demoapplicationv1.PodLabel,
		Pod:        func(o *demoapplicationv1.DemoApplication) *common.Pod { return o.Spec.Pod },
		Scalable:   true,
	})
}
