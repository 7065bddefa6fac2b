// Package demoapplication holds the admission of DemoApplication: what is
// refused beyond what the schema and its CEL rules refuse, and why.
package demoapplication

// The conditions keep the webhooks out of what must never depend on them:
// deletion, the removal of finalizers, and changes that leave the spec as it is.
// matchPolicy Equivalent brings what is written as v1beta1 here too, as v1.

// +kubebuilder:webhook:path=/mutate-paas-cmft-com-v1-demoapplication,mutating=true,failurePolicy=fail,sideEffects=None,matchPolicy=Equivalent,timeoutSeconds=5,groups=paas.cmft.com,resources=demoapplications,verbs=create;update,versions=v1,name=default.demoapplications.paas.cmft.com,admissionReviewVersions=v1,patch=`{"matchConditions":[{"name":"not-being-deleted","expression":"!has(object.metadata.deletionTimestamp)"},{"name":"spec-changed","expression":"request.operation == 'CREATE' || !has(object.spec) || !has(oldObject.spec) || object.spec != oldObject.spec"}]}`
// +kubebuilder:webhook:path=/validate-paas-cmft-com-v1-demoapplication,mutating=false,failurePolicy=fail,sideEffects=None,matchPolicy=Equivalent,timeoutSeconds=5,groups=paas.cmft.com,resources=demoapplications,verbs=create;update,versions=v1,name=validate.demoapplications.paas.cmft.com,admissionReviewVersions=v1,patch=`{"matchConditions":[{"name":"not-being-deleted","expression":"!has(object.metadata.deletionTimestamp)"},{"name":"spec-changed","expression":"request.operation == 'CREATE' || !has(object.spec) || !has(oldObject.spec) || object.spec != oldObject.spec"}]}`

// kubectl scale and autoscalers send a Scale, which is not the object. Only one
// that asks for more pods than before is looked at.

// +kubebuilder:webhook:path=/validate-paas-cmft-com-v1-demoapplication-scale,mutating=false,failurePolicy=fail,sideEffects=None,matchPolicy=Equivalent,timeoutSeconds=5,groups=paas.cmft.com,resources=demoapplications/scale,verbs=update,versions=v1,name=scale.demoapplications.paas.cmft.com,admissionReviewVersions=v1,patch=`{"matchConditions":[{"name":"more","expression":"has(object.spec) && has(object.spec.replicas) && (!has(oldObject.spec) || !has(oldObject.spec.replicas) || object.spec.replicas > oldObject.spec.replicas)"}]}`
