// Package webserver validates WebServers, as far as the schema and its CEL rules
// cannot.
package webserver

import (
	"github.com/platform-operator/platform-operator/apis/common"
	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/webhooks/validate"
)

// The match conditions exclude requests that must never depend on a webhook:
// deletions, the removal of finalizers, and updates that do not change the spec.
// The mutating webhook is called for creations, to which it may add defaults, and for
// updates to which it adds the finalizer.

// +kubebuilder:webhook:path=/mutate-my-domain-v1-webserver,mutating=true,failurePolicy=fail,sideEffects=None,matchPolicy=Equivalent,timeoutSeconds=5,groups=my.domain,resources=webservers,verbs=create;update,versions=v1,name=default.webservers.my.domain,admissionReviewVersions=v1,patch=`{"matchConditions":[{"name":"not-being-deleted","expression":"!has(object.metadata.deletionTimestamp)"},{"name":"spec-changed","expression":"request.operation == 'CREATE' || !has(object.spec) || !has(oldObject.spec) || object.spec != oldObject.spec"},{"name":"created-or-finalizer-missing","expression":"request.operation == 'CREATE' || has(object.spec) && type(object.spec) == map && has(object.spec.deletionPolicy) && object.spec.deletionPolicy == 'Orphan' && !(has(object.metadata.finalizers) && 'platform-operator.io/teardown' in object.metadata.finalizers)"}]}`
// +kubebuilder:webhook:path=/validate-my-domain-v1-webserver,mutating=false,failurePolicy=fail,sideEffects=None,matchPolicy=Equivalent,timeoutSeconds=5,groups=my.domain,resources=webservers,verbs=create;update,versions=v1,name=validate.webservers.my.domain,admissionReviewVersions=v1,patch=`{"matchConditions":[{"name":"not-being-deleted","expression":"!has(object.metadata.deletionTimestamp)"},{"name":"spec-changed","expression":"request.operation == 'CREATE' || !has(object.spec) || !has(oldObject.spec) || object.spec != oldObject.spec"}]}`

// kubectl scale and autoscalers send a Scale instead of the object. Only requests
// that increase the number of pods are validated.

// +kubebuilder:webhook:path=/validate-my-domain-v1-webserver-scale,mutating=false,failurePolicy=fail,sideEffects=None,matchPolicy=Equivalent,timeoutSeconds=5,groups=my.domain,resources=webservers/scale,verbs=update,versions=v1,name=scale.webservers.my.domain,admissionReviewVersions=v1,patch=`{"matchConditions":[{"name":"more","expression":"has(object.spec) && has(object.spec.replicas) && (!has(oldObject.spec) || !has(oldObject.spec.replicas) || object.spec.replicas > oldObject.spec.replicas)"}]}`

// Kind returns the admission of WebServer.
func Kind() validate.AnyKind {
	return validate.Erase(validate.Kind[*webserverv1.WebServer]{
		GVK:            webserverv1.GroupVersion.WithKind(webserverv1.Kind),
		New:            func() *webserverv1.WebServer { return &webserverv1.WebServer{} },
		Validate:       Validate,
		ValidateUpdate: validateUpdate,
		WarnUpdate: func(old, o *webserverv1.WebServer) []string {
			return validate.WarnExpose(old.Spec.Expose, o.Spec.Expose)
		},
		Judge:    judge,
		PodLabel: webserverv1.PodLabel,
		Pod:      func(o *webserverv1.WebServer) *common.Pod { return o.Spec.Pod },
		Scalable: true,
	})
}
