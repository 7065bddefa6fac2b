// Package memcached validates Memcacheds, as far as the schema and its CEL rules
// cannot.
package memcached

import (
	"github.com/platform-operator/platform-operator/apis/common"
	cachev1alpha1 "github.com/platform-operator/platform-operator/apis/memcached/v1alpha1"
	"github.com/platform-operator/platform-operator/webhooks/validate"
)

// The match conditions exclude requests that must never depend on a webhook:
// deletions, the removal of finalizers, and updates that do not change the spec.
// The mutating webhook is called for creations, to which it may add defaults, and for
// updates to which it adds the finalizer.

// +kubebuilder:webhook:path=/mutate-cache-example-com-v1alpha1-memcached,mutating=true,failurePolicy=fail,sideEffects=None,matchPolicy=Equivalent,timeoutSeconds=5,groups=cache.example.com,resources=memcacheds,verbs=create;update,versions=v1alpha1,name=default.memcacheds.cache.example.com,admissionReviewVersions=v1,patch=`{"matchConditions":[{"name":"not-being-deleted","expression":"!has(object.metadata.deletionTimestamp)"},{"name":"spec-changed","expression":"request.operation == 'CREATE' || !has(object.spec) || !has(oldObject.spec) || object.spec != oldObject.spec"},{"name":"created-or-finalizer-missing","expression":"request.operation == 'CREATE' || has(object.spec) && type(object.spec) == map && has(object.spec.deletionPolicy) && object.spec.deletionPolicy == 'Orphan' && !(has(object.metadata.finalizers) && 'platform-operator.io/teardown' in object.metadata.finalizers)"}]}`
// +kubebuilder:webhook:path=/validate-cache-example-com-v1alpha1-memcached,mutating=false,failurePolicy=fail,sideEffects=None,matchPolicy=Equivalent,timeoutSeconds=5,groups=cache.example.com,resources=memcacheds,verbs=create;update,versions=v1alpha1,name=validate.memcacheds.cache.example.com,admissionReviewVersions=v1,patch=`{"matchConditions":[{"name":"not-being-deleted","expression":"!has(object.metadata.deletionTimestamp)"},{"name":"spec-changed","expression":"request.operation == 'CREATE' || !has(object.spec) || !has(oldObject.spec) || object.spec != oldObject.spec"}]}`

// kubectl scale and autoscalers send a Scale instead of the object. Only requests
// that increase the number of pods are validated.

// +kubebuilder:webhook:path=/validate-cache-example-com-v1alpha1-memcached-scale,mutating=false,failurePolicy=fail,sideEffects=None,matchPolicy=Equivalent,timeoutSeconds=5,groups=cache.example.com,resources=memcacheds/scale,verbs=update,versions=v1alpha1,name=scale.memcacheds.cache.example.com,admissionReviewVersions=v1,patch=`{"matchConditions":[{"name":"more","expression":"has(object.spec) && has(object.spec.replicas) && (!has(oldObject.spec) || !has(oldObject.spec.replicas) || object.spec.replicas > oldObject.spec.replicas)"}]}`

// Kind returns the admission of Memcached.
func Kind() validate.AnyKind {
	return validate.Erase(validate.Kind[*cachev1alpha1.Memcached]{
		GVK:        cachev1alpha1.GroupVersion.WithKind(cachev1alpha1.Kind),
		New:        func() *cachev1alpha1.Memcached { return &cachev1alpha1.Memcached{} },
		Validate:   Validate,
		WarnUpdate: warnUpdate,
		Judge:      judge,
		PodLabel:   cachev1alpha1.PodLabel,
		Pod:        func(o *cachev1alpha1.Memcached) *common.Pod { return o.Spec.Pod },
		Scalable:   true,
	})
}
