// Package memcached holds the admission of Memcached: what is refused beyond
// what the schema and its CEL rules refuse, and why.
package memcached

// The conditions keep the webhooks out of what must never depend on them:
// deletion, the removal of finalizers, and changes that leave the spec as it is.

// +kubebuilder:webhook:path=/mutate-cache-example-com-v1alpha1-memcached,mutating=true,failurePolicy=fail,sideEffects=None,matchPolicy=Equivalent,timeoutSeconds=5,groups=cache.example.com,resources=memcacheds,verbs=create;update,versions=v1alpha1,name=default.memcacheds.cache.example.com,admissionReviewVersions=v1,patch=`{"matchConditions":[{"name":"not-being-deleted","expression":"!has(object.metadata.deletionTimestamp)"},{"name":"spec-changed","expression":"request.operation == 'CREATE' || !has(object.spec) || !has(oldObject.spec) || object.spec != oldObject.spec"}]}`
// +kubebuilder:webhook:path=/validate-cache-example-com-v1alpha1-memcached,mutating=false,failurePolicy=fail,sideEffects=None,matchPolicy=Equivalent,timeoutSeconds=5,groups=cache.example.com,resources=memcacheds,verbs=create;update,versions=v1alpha1,name=validate.memcacheds.cache.example.com,admissionReviewVersions=v1,patch=`{"matchConditions":[{"name":"not-being-deleted","expression":"!has(object.metadata.deletionTimestamp)"},{"name":"spec-changed","expression":"request.operation == 'CREATE' || !has(object.spec) || !has(oldObject.spec) || object.spec != oldObject.spec"}]}`

// kubectl scale and autoscalers send a Scale, which is not the object. Only one
// that asks for more pods than before is looked at.

// +kubebuilder:webhook:path=/validate-cache-example-com-v1alpha1-memcached-scale,mutating=false,failurePolicy=fail,sideEffects=None,matchPolicy=Equivalent,timeoutSeconds=5,groups=cache.example.com,resources=memcacheds/scale,verbs=update,versions=v1alpha1,name=scale.memcacheds.cache.example.com,admissionReviewVersions=v1,patch=`{"matchConditions":[{"name":"more","expression":"has(object.spec) && has(object.spec.replicas) && (!has(oldObject.spec) || !has(oldObject.spec.replicas) || object.spec.replicas > oldObject.spec.replicas)"}]}`
